"""Pydantic's errors of a config in plain words: one line each that names the key, and what would be right there."""

import types
import typing
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from workflow_scripts.errors import nearest
from workflow_scripts.spec import Config

Keys = tuple[Any, ...]  # the way to a place in the config; "*" is any name

_ANY = "*"
_MOST_PLACES = 3  # a key that stands in more places that fit equally well, such as `seed`, says nothing
_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "path_type": "a path",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping like {name: ...}",
}


def message(error: Any) -> str:
    """One of Pydantic's errors (a `ValidationError`'s `errors()`) as `place: what is wrong, what would be right`."""
    loc, kind, found = error["loc"], error["type"], error["input"]
    place = ".".join(map(str, loc)) or "config"
    if kind == "extra_forbidden":
        return f"{place}: unknown key{_better_key(loc)}"
    if kind == "missing":
        return f"{place}: missing, it has no default"
    if kind == "literal_error":
        return f"{place}: {found!r} is none of {error['ctx']['expected']}{hint(str(found), _literals(loc))}"
    if kind == "value_error":
        return f"{place}: {error['ctx']['error']}"
    if kind == "model_type":
        return f"{place}: expected a section like {_example(_type_at(loc))}, got {_said(found)}"
    if kind in _EXPECTED:
        return f"{place}: expected {_EXPECTED[kind]}, got {_said(found)}"
    if kind == "multiple_of" and isinstance(found, int):
        step = error["ctx"]["multiple_of"]
        low = found // step * step
        return (
            f"{place}: {found} is no multiple of {step}, the nearest are {max(low, step)} and {max(low, step) + step}"
        )
    if kind == "string_pattern_mismatch" and loc[-1] == "[key]":
        return (
            f"{'.'.join(map(str, loc[:-1]))}: a name has letters, digits, '.', '_', '-' and no '.', '_', '-' in front"
        )
    if kind == "string_pattern_mismatch" and (field := _field_at(loc)):
        return f"{place}: {found!r} does not match {error['ctx']['pattern']} ({field.description})"
    return f"{place}: {error['msg'].removeprefix('Input ')} (got {_said(found)})"


def hint(name: str, choices: list[str], likeness: float = 0.5) -> str:
    """The nearest of some names as the end of a message; empty where none is alike."""
    guess = nearest(name, choices, likeness)
    return f", did you mean {guess!r}?" if guess else ""


def _said(value: Any) -> str:
    return "nothing" if value is None else repr(value)


def _example(section: type[BaseModel]) -> str:
    """A section's keys: those without a default, and at least two."""
    fields = section.model_fields
    required = [name for name, field in fields.items() if field.is_required()]
    shown = [*required, *(name for name in fields if name not in required)][: max(2, len(required))]
    return "{" + ", ".join(f"{name}: ..." for name in shown) + "}"


def _better_key(loc: Keys) -> str:
    """The end of a message about an unknown key: what it is a slip of, where it belongs, or what it is most like."""
    key, keys = str(loc[-1]), _keys_at(loc[:-1])
    return hint(key, keys, likeness=0.8) or _belongs(loc) or hint(key, keys)


def _belongs(loc: Keys) -> str:
    """Where a key that is unknown in its section stands in the config: nearest in the tree, with the names of `loc`."""
    *here, key = loc

    def shared(place: Keys) -> int:
        same = [step in (own, _ANY) for step, own in zip(place, here, strict=False)]
        return [*same, False].index(False)

    def rank(place: Keys) -> tuple[int, int]:
        return -shared(place), len(place)

    places = _places(Config, str(key))
    best = [place for place in places if rank(place) == min(map(rank, places))]
    if not best or len(best) > _MOST_PLACES:
        return ""
    ways = [".".join(map(str, (*here[: shared(way)], *way[shared(way) :], key))) for way in best]
    return f", it belongs to {' or '.join(ways)}" if all(best) else ", it belongs to the top level"


def _places(model: type[BaseModel], key: str, at: Keys = ()) -> list[Keys]:
    """The sections of the config, below one at the place `at`, that have this key."""
    places = [at] if key in model.model_fields else []
    for name, field in model.model_fields.items():
        inner, way = _bare(field.annotation), (*at, name)
        while typing.get_origin(inner) is dict:
            inner, way = _bare(typing.get_args(inner)[-1]), (*way, _ANY)
        if _is_section(inner):
            places += _places(inner, key, way)
    return places


def _keys_at(loc: Keys) -> list[str]:
    model = _type_at(loc)
    return list(model.model_fields) if _is_section(model) else []


def _literals(loc: Keys) -> list[str]:
    found = _type_at(loc)
    if typing.get_origin(found) is list:
        (found,) = typing.get_args(found)
    return [str(choice) for choice in typing.get_args(found)]


def _field_at(loc: Keys) -> FieldInfo | None:
    model = _type_at(loc[:-1])
    return model.model_fields.get(str(loc[-1])) if _is_section(model) else None


def _type_at(loc: Keys) -> Any:
    """The type that the models give to a place in the config."""
    found: Any = Config
    for key in loc:
        if _is_section(found):
            field = found.model_fields.get(str(key))
            found = field.annotation if field else None
        elif typing.get_origin(found) in (dict, list):
            found = typing.get_args(found)[-1]
        found = _bare(found)
    return found


def _is_section(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, BaseModel)


def _bare(found: Any) -> Any:
    """A type without its None."""
    if isinstance(found, types.UnionType) or typing.get_origin(found) is typing.Union:
        return next(t for t in typing.get_args(found) if t is not type(None))
    return found
