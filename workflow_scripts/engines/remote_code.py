"""Python code that comes with a model: it runs only with an opt-in, and only as it stands in the commit opted in to."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING

from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json, sha256_file


def loading_options(folder: Path, commit: str | None) -> dict[str, Any]:
    """Arguments of `from_pretrained`: everything comes from the folder, code too where `commit` opts in to it.

    Raises UserError where the model needs code and nobody opted in, where code of the folder is not that of the
    commit, and where the folder would take code from other repositories.
    """
    if commit is None:
        config = read_json(folder / "config.json")
        if config.get("auto_map") and config.get("model_type") not in CONFIG_MAPPING:
            raise UserError(
                f"{folder}: the model needs Python code from its own repository; read that code, then opt in with "
                "`remote_code: <its 40-digit commit>`"
            )
    else:
        require_commit(folder, commit)
        require_own_code(folder)
    return {"local_files_only": True, "trust_remote_code": commit is not None}


def require_commit(folder: Path, commit: str) -> None:
    """Raise UserError unless the folder was fetched at this commit and its Python files are still what was fetched."""
    manifest = folder.with_name(f"{folder.name}.json")
    if not manifest.is_file():
        raise UserError(
            f"{folder}: remote_code names commit {commit}, and no manifest {manifest} says at which commit these files "
            "were fetched; fetch them with the workflow (`hub:` in place of `path:`)"
        )
    fetched = read_json(manifest)
    if fetched["revision"] != commit:
        raise UserError(
            f"{folder}: remote_code opts in to the code of commit {commit}, the files are those of "
            f"{fetched['revision']}: remove {manifest} and fetch them again"
        )
    for path in sorted(folder.rglob("*.py")):
        facts = fetched["files"].get(path.relative_to(folder).as_posix())
        if facts is None or facts["sha256"] != sha256_file(path):
            raise UserError(f"{path}: is not what commit {commit} has there, so nothing of {folder} is run")


def require_own_code(folder: Path) -> None:
    """Raise UserError where a class is to come from another repository (`owner/name--file.Class`), whose commit nobody
    named."""
    for path in sorted(folder.glob("*.json")):
        content = read_json(path)
        names = content.get("auto_map", {}).values() if isinstance(content, dict) else ()
        for name in (part for value in names for part in (value if isinstance(value, list) else [value])):
            if "--" in (name or ""):
                raise UserError(f"{path}: takes code from another repository, {name}; remote_code is for its own only")


@contextmanager
def loading(folder: Path, commit: str | None) -> Iterator[None]:
    """What fails while a model is loaded with code of its own becomes a UserError that names the environment."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # the code may raise whatever it likes
        if commit is None:
            raise
        raise UserError(
            f"{folder}: its own code fails under Transformers {transformers.__version__}: {type(error).__name__}: "
            f"{error}; envs/remote.txt has the version that LLaVA-OneVision-1.5 needs"
        ) from error


def encode_images_alone(model: torch.nn.Module) -> bool:
    """Have the vision tower take one image at a time. False where it is none that is told the images by `grid_thw`.

    LLaVA-OneVision-1.5's code needs it: it puts a class token before the patches of each image, takes them out again
    as if there were one in all, and so shifts the patches of the second image of a batch by one, of the third by two.
    """
    tower = getattr(model, "visual", None)
    if tower is None or "grid_thw" not in inspect.signature(tower.forward).parameters:
        return False
    forward = tower.forward

    def one_by_one(patches_PC: torch.Tensor, grid_thw: torch.Tensor) -> torch.Tensor:
        parts = patches_PC.split(grid_thw.prod(1).tolist())
        return torch.cat([forward(part, grid_thw=grid[None]) for part, grid in zip(parts, grid_thw, strict=True)])

    tower.forward = one_by_one
    return True
