"""The manifest of a fetched repository, assets/<name>.json beside its folder, and whether its files are still those."""

from pathlib import Path

from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json, sha256_file


def folder_of(manifest: Path) -> Path:
    """The folder that a manifest lists."""
    return manifest.with_suffix("")


def changed_files(manifest: Path, contents: bool = False) -> list[str]:
    """What is wrong with each file that is: absent, of another size or, with `contents`, of another sha256."""
    faults = []
    for name, facts in sorted(read_json(manifest)["files"].items()):
        path = folder_of(manifest) / name
        if not path.is_file():
            faults.append(f"{path} is absent")
        elif path.stat().st_size != facts["size"]:
            faults.append(f"{path} has {path.stat().st_size} bytes, {facts['size']} were fetched")
        elif contents and sha256_file(path) != facts["sha256"]:
            faults.append(f"{path} has other contents than were fetched")
    return faults


def check_fetched(folder: Path) -> None:
    """Raise UserError where a fetched folder has lost files or they have other sizes. Folders of the user's pass."""
    manifest = folder.with_name(f"{folder.name}.json")
    if manifest.is_file() and (faults := changed_files(manifest)):
        raise UserError(f"{faults[0]}, {len(faults)} files so: remove {manifest} and fetch it again")
