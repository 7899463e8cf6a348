"""Write what is said of the config elsewhere: its JSON schema, the README's table, and the conda environments.

    python -m workflow_scripts.docs

Writes resources/config.schema.json, the table between the marks in README.md, and envs/*.yaml from envs/*.txt.
A test fails where a file differs from what this makes.
"""

import json
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from workflow_scripts.files import write_text
from workflow_scripts.spec import Config, Section

ROOT = Path(__file__).resolve().parent.parent
START, END = "<!-- config table: made by `make docs` -->", "<!-- end of config table -->"
ENVIRONMENTS = ("core", "serve", "remote", "train", "evaluate")


def schema() -> str:
    """The JSON schema of a config, for editors."""
    return json.dumps(Config.model_json_schema(), indent=1, ensure_ascii=False) + "\n"


def table() -> str:
    """One row a key: where it stands, what it takes, its default, what it means."""
    lines = ["| key | takes | default | meaning |", "| --- | --- | --- | --- |"]
    lines += [f"| `{key}` | {kind} | {default} | {meaning} |" for key, kind, default, meaning in rows(Config)]
    return "\n".join(lines)


def rows(model: type[BaseModel], place: str = "", shown: dict | None = None) -> Iterator[tuple[str, str, str, str]]:
    """The rows of one section and of those below it. `*` stands for a name of the user's.

    Keys that an earlier section has too (both stages of training, say) are not listed again: `shown` knows where.
    """
    shown = {} if shown is None else shown
    alike = next((base for base in model.__mro__ if base in shown), None)
    if alike is not None:
        yield f"{place}…", "", "", f"the keys of `{shown[alike]}`, and:"
    for base in model.__mro__:
        if issubclass(base, Section) and base is not Section:
            shown.setdefault(base, place.removesuffix("."))
    for name, field in model.model_fields.items():
        if alike is not None and name in alike.model_fields:
            continue
        below, star = _section_below(field.annotation)
        key = f"{place}{name}" + (".*" if star else "")
        meaning = (field.description or (below.__doc__ if below else "") or "").strip().split("\n")[0]
        if below is None:
            yield key, _kind(field), _default(field), meaning.replace("|", "\\|")
        elif below in shown:
            yield key, f"section like `{shown[below]}`", _default(field), meaning
        else:
            yield key, "section", _default(field), meaning
            yield from rows(below, f"{key}.", shown)


def _section_below(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """The section that a field holds, and whether it holds many by name."""
    annotation = _plain(annotation)
    star = typing.get_origin(annotation) is dict
    if star:
        annotation = typing.get_args(annotation)[1]
    return (annotation, star) if isinstance(annotation, type) and issubclass(annotation, BaseModel) else (None, False)


def _plain(annotation: Any) -> Any:
    """A type without `None` and without its constraints."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        parts = [part for part in typing.get_args(annotation) if part is not type(None)]
        annotation = parts[0] if len(parts) == 1 else annotation
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is typing.Annotated else annotation


_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path"}


def _kind(field: FieldInfo) -> str:
    return _kind_of(_plain(field.annotation))


def _kind_of(annotation: Any) -> str:
    parts = [_plain(part) for part in typing.get_args(annotation)]
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return " or ".join(f"`{choice}`" for choice in parts)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(map(_kind_of, parts))
    if origin is list:
        return f"list of: {_kind_of(parts[0])}"
    if origin is tuple:
        return f"{len(parts)} of: {_kind_of(parts[0])}"
    if origin is dict:
        return f"names with: {_kind_of(parts[1])}"
    return _WORDS[annotation]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is None or field.default is PydanticUndefined or isinstance(field.default, BaseModel):
        return ""
    return f"`{field.default}`" if field.default != {} else ""


def readme_with_table(readme: str) -> str:
    """The README with its config table made anew. Raises ValueError where the marks are missing."""
    head, rest = readme.split(START)
    _, tail = rest.split(END)
    return f"{head}{START}\n\n{table()}\n\n{END}{tail}"


def requirements(name: str) -> list[str]:
    """The pins of an environment's requirement file, those of included files first."""
    pins = []
    for line in (ROOT / f"envs/{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("-r "):
            pins += requirements(line.removeprefix("-r ").removesuffix(".txt"))
        elif line and not line.startswith("#"):
            pins.append(line)
    return pins


def conda(name: str) -> str:
    """An environment as a conda file. The pins stand in it, as Snakemake names environments by the file's content."""
    head = f"# Made by `make docs` from {name}.txt.\nname: capsweep-{name}\nchannels:\n  - conda-forge\n"
    pins = "".join(f"      - {pin}\n" for pin in requirements(name))
    return f"{head}dependencies:\n  - python=3.11\n  - pip\n  - pip:\n{pins}"


def documents() -> dict[Path, str]:
    """Every file that this module makes, with its text."""
    made = {ROOT / f"envs/{name}.yaml": conda(name) for name in ENVIRONMENTS}
    made[ROOT / "resources/config.schema.json"] = schema()
    made[ROOT / "README.md"] = readme_with_table((ROOT / "README.md").read_text(encoding="utf-8"))
    return made


if __name__ == "__main__":
    for path, text in documents().items():
        write_text(path, text)
