"""Errors that a user can act on."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can mend: one message that names the thing, the place and the nearest right value."""


def nearest(name: str, choices: Iterable[str], likeness: float = 0.5) -> str | None:
    """The choice most like `name`, or None where none has this likeness (0-1, by difflib)."""
    found = difflib.get_close_matches(name, list(choices), n=1, cutoff=likeness)
    return found[0] if found else None


def unknown(place: str, name: str, choices: Iterable[str]) -> UserError:
    """The error for a name that is none of `choices`: `place` is where the name stands."""
    choices = list(choices)
    guess = nearest(name, choices)
    hint = f"did you mean {guess!r}?" if guess else f"expected one of {', '.join(map(repr, choices))}"
    return UserError(f"{place}: unknown name {name!r}, {hint}")
