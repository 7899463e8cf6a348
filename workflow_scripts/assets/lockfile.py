"""assets.lock.yaml: the commit that each hub repository is pinned to, and the checksums of its files."""

from pathlib import Path

import yaml
from pydantic import Field, ValidationError

from workflow_scripts.errors import UserError
from workflow_scripts.files import write_text
from workflow_scripts.spec import Kind, Section

_HEAD = (
    "# The commit and the checksums of every hub repository: made by `snakemake -f assets.lock.yaml`, never by hand.\n"
)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class FileFacts(Section):
    """What the hub says of a file. Large files have a sha256, the others the sha1 that git names them by."""

    size: int
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")
    git_sha1: str | None = Field(None, pattern="^[0-9a-f]{40}$")


class Locked(Section):
    """One repository: the revision that was asked for, the commit that it was, and all files of that commit."""

    kind: Kind
    revision: str
    commit: str = Field(pattern="^[0-9a-f]{40}$")
    files: dict[str, FileFacts]


Lock = dict[str, Locked]


def read_lock(path: str | Path) -> Lock:
    """The repositories of a lock file by their names on the hub; none where there is no file.

    Raises UserError where it is broken.
    """
    if not Path(path).is_file():
        return {}
    try:
        raw = yaml.load(Path(path).read_text(encoding="utf-8"), _LOADER)  # noqa: S506 (a safe loader)
        return {hub: Locked.model_validate(entry) for hub, entry in (raw or {}).items()}
    except (yaml.YAMLError, ValidationError, AttributeError) as error:
        raise UserError(f"{path}: not a lock of assets, make it anew with `snakemake -f {path}`: {error}") from None


def write_lock(path: str | Path, lock: Lock) -> None:
    """Write a lock file whole or not at all."""
    raw = {hub: entry.model_dump(exclude_none=True) for hub, entry in lock.items()}
    write_text(path, _HEAD + yaml.safe_dump(raw, width=200, default_flow_style=None))
