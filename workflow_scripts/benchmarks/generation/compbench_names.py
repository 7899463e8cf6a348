"""T2I-CompBench++: what a prompt's object is called in a detector's labels, such as `picture, frame`."""

import re

from workflow_scripts.benchmarks.generation.base import Mode

PERSONS = {"girl", "boy", "man", "woman"}
ALIASES = {  # of mode `fixed`
    "ship": "boat",
    "goldfish": "fish",
    "painting": "picture",
    "television": "tv",
    "sofa": "couch",
    "telephone": "phone",
    "people": "person",
}


def canonical(name: str, mode: Mode) -> str:
    """The name under which an object is sought: a man, woman, girl or boy is a person; `fixed` knows more aliases and
    small letters."""
    if mode == "fixed":
        name = ALIASES.get(name.lower(), name.lower())
    return "person" if name in PERSONS else name


def names_in(label: str) -> set[str]:
    """The names that a label stands for, canonical: the parts between commas and slashes, and the last word of each (a
    dining table is a table, a computer keyboard is no computer)."""
    parts = [part.strip() for part in re.split(r"[,/]", label.lower())]
    return {canonical(name, "fixed") for part in parts for name in (part, *part.split()[-1:])}
