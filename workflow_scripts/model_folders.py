"""The folders of models that jobs read, and the manifest model.json of a trained one."""

from pathlib import Path

from workflow_scripts.assets.manifest import check_fetched
from workflow_scripts.errors import UserError
from workflow_scripts.files import fingerprint, read_json, sha256_file, write_json
from workflow_scripts.spec import Source


def local_folder(source: Source) -> Path:
    """The folder that a source stands for. Raises UserError where it is not there, or not whole any more."""
    if source.path is None or not Path(source.path).is_dir():
        raise UserError(f"{source.path or source.hub}: no such folder of a model")
    check_fetched(Path(source.path))
    return Path(source.path)


def folder_fingerprint(folder: Path) -> str:
    """16 hex digits that name the contents of a folder: every file's relative path and bytes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return fingerprint([str(path.relative_to(folder)) for path in files], *files)


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a model's folder: those that its index lists, or all. Raises UserError without any."""
    index = next(iter(sorted(folder.glob("*.safetensors.index.json"))), None)
    files = {folder / name for name in read_json(index)["weight_map"].values()} if index else set()
    files = files or set(folder.glob("*.safetensors"))
    if not files:
        raise UserError(f"{folder}: has no weights in safetensors")
    return sorted(files)


def write_manifest(path: Path, folder: Path, made_of: str) -> None:
    """Write model.json: the folder relative to it, the sha256 of each file, the fingerprint of spec and inputs."""
    files = {file.name: sha256_file(file) for file in sorted(folder.iterdir())}
    write_json(path, {"folder": str(folder.relative_to(path.parent)), "files": files, "fingerprint": made_of})


def manifest_folder(path: Path) -> Path:
    """The folder that a model.json stands for. Raises UserError where a file is absent or another one than listed."""
    listed = read_json(path)
    folder = path.parent / listed["folder"]
    for name, digest in listed["files"].items():
        if not (folder / name).is_file():
            raise UserError(f"{path}: {folder / name} is missing")
        if sha256_file(folder / name) != digest:
            raise UserError(f"{path}: {folder / name} has changed since it was listed")
    return folder
