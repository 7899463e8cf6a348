"""Which weights a folder holds, told cheaply."""

import hashlib
from pathlib import Path

from workflow_scripts.assets.manifest import check_fetched
from workflow_scripts.errors import UserError

_SAMPLE = 1 << 20  # bytes read at each end of a large file
_PLAIN = (".json", ".txt", ".model", ".jinja", ".safetensors")


def require_safetensors(folder: Path) -> None:
    """Raise UserError for a model folder without weights in safetensors."""
    if not any(folder.glob("*.safetensors")):
        raise UserError(f"{folder}: holds no .safetensors file; weights in other formats can carry code")


def weights_fingerprint(folder: Path) -> str:
    """16 hex digits for a model folder: names, sizes and content of its files; of a file over 2 MiB, both ends.

    Times do not count, so a copied folder is the same one; other weights of the same shape are not. Raises UserError
    where a fetched folder is not whole any more.
    """
    check_fetched(folder)
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.suffix in _PLAIN):
        size = path.stat().st_size
        digest.update(f"{path.name} {size} ".encode())
        with path.open("rb") as file:
            if size <= 2 * _SAMPLE:
                digest.update(file.read())
            else:
                digest.update(file.read(_SAMPLE))
                file.seek(-_SAMPLE, 2)
                digest.update(file.read())
    return digest.hexdigest()[:16]
