"""Run several commands one after another in one process: `+` stands between them.

    python -m workflow_scripts --specs '[{...}, {...}]' vlm.train --out ... + vlm.evaluate --out ...

Small sweeps use it: importing torch takes longer than their work. The commands are the ones that also run alone;
`--specs` holds the `--spec` of each in turn.
"""

import importlib
import json
import sys

from workflow_scripts.command import run
from workflow_scripts.errors import UserError


def split(words: list[str]) -> list[list[str]]:
    """The words between the `+` signs, one list a command."""
    commands: list[list[str]] = [[]]
    for word in words:
        if word == "+":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def main(argv: list[str] | None = None) -> None:
    """Run each command in turn; the first that fails ends the process."""
    words = sys.argv[1:] if argv is None else argv
    if len(words) < 3 or words[0] != "--specs":
        raise UserError(f"expected --specs JSON COMMAND ... [+ COMMAND ...]\n{__doc__}")
    specs, commands = json.loads(words[1]), split(words[2:])
    if len(specs) != len(commands):
        raise UserError(f"--specs holds {len(specs)} specs for {len(commands)} commands")
    for spec, (name, *arguments) in zip(specs, commands, strict=True):
        importlib.import_module(f"workflow_scripts.{name}").main(["--spec", json.dumps(spec), *arguments])


if __name__ == "__main__":
    run(main)
