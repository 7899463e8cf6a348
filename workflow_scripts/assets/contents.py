"""Which files of a hub repository are fetched: what the config asks for, and nothing that runs when it is opened."""

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from workflow_scripts.errors import UserError, nearest

# Of models, only what no loader executes; of data sets, everything but what some loader does.
_OF_MODELS = {".safetensors", ".json", ".txt", ".model", ".tiktoken", ".jinja", ".yaml", ".md"}
_NOT_OF_DATASETS = {".py", ".pkl", ".pickle", ".joblib", ".pt", ".pth", ".ckpt", ".bin"}
_TORCH_PICKLES = {".bin", ".pt", ".pth"}
_LICENCES = ("LICENSE", "LICENCE", "NOTICE")


@dataclass
class Choice:
    """Names of files: those to fetch, which of these are pickles to convert, and those left out as unsafe."""

    wanted: list[str] = field(default_factory=list)
    pickled: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def choose(names: Iterable[str], kind: str, patterns: list[str], code: bool = False) -> Choice:
    """Choose among the files of a repository.

    A pattern is a shell's, and its `*` crosses `/`. A PyTorch pickle is wanted only where a pattern is its whole name:
    it is then to be converted. `code` lets the repository's own Python files in. Raises UserError for a pattern that
    no file fits, and for a model whose weights are pickles that no pattern names.
    """
    names = sorted(names)
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            guess = nearest(pattern, names)
            raise UserError(f"no file fits {pattern!r} of `files`" + (f", did you mean {guess!r}?" if guess else ""))
    choice = Choice()
    for name in names:
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns or ["*"]):
            continue
        suffix = PurePosixPath(name).suffix
        if kind == "model" and suffix in _TORCH_PICKLES and name in patterns:
            choice.pickled.append(name)
            choice.wanted.append(name)
        elif _is_safe(name, kind) or (code and suffix == ".py"):
            choice.wanted.append(name)
        else:
            choice.left_out.append(name)
    pickles = [name for name in choice.left_out if PurePosixPath(name).suffix in _TORCH_PICKLES]
    has_weights = choice.pickled or any(name.endswith(".safetensors") for name in choice.wanted)
    if kind == "model" and pickles and not has_weights:
        raise UserError(
            "no weights in safetensors; name those of its pickles that you want in `files`, each in full, to have them "
            f"converted: {', '.join(pickles)}"
        )
    if not choice.wanted:
        raise UserError("no file to fetch")
    return choice


def _is_safe(name: str, kind: str) -> bool:
    path = PurePosixPath(name)
    if path.name.startswith(".git") or name.endswith(".bin.index.json"):
        return False
    if kind == "dataset":
        return path.suffix.lower() not in _NOT_OF_DATASETS
    return path.suffix in _OF_MODELS or (path.suffix == "" and path.name.upper().startswith(_LICENCES))
