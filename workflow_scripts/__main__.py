"""Run several commands one after another in one process: `+` stands between them.

    python -m workflow_scripts vlm.train --spec ... --out ... + vlm.evaluate --spec ... --out ...

Small sweeps use it: importing torch takes longer than their work. The commands are the ones that also run alone.
"""

import importlib
import sys

from workflow_scripts.command import run


def split(words: list[str]) -> list[list[str]]:
    """The words between the `+` signs, one list a command."""
    commands: list[list[str]] = [[]]
    for word in words:
        if word == "+":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def main() -> None:
    """Run each command in turn; the first that fails ends the process."""
    for name, *arguments in split(sys.argv[1:]):
        run(importlib.import_module(f"workflow_scripts.{name}").main, arguments)


if __name__ == "__main__":
    main()
