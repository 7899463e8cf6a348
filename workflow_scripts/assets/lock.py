"""Pin every hub repository of a sweep: its commit, and size and checksum of its files.

    python -m workflow_scripts.assets.lock --spec '{"repositories": [["Qwen/Qwen3-4B", "model", "main"]]}' \\
        --out assets.lock.yaml

Needs the network. Files out: --out, in which repositories of other sweeps stay as they are. Nothing is written unless
every repository could be read.
"""

import logging
from pathlib import Path

from workflow_scripts.assets import hub
from workflow_scripts.assets.lockfile import read_lock, write_lock
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.plan import LockJob

log = logging.getLogger("capsweep")


def main(argv: list[str] | None = None) -> None:
    """Write the lock."""
    arguments = parser(__doc__)
    arguments.add_argument("--out", type=Path, required=True, help="assets.lock.yaml")
    args = arguments.parse_args(argv)
    lock, faults = read_lock(args.out), []
    for name, kind, revision in load_spec(args.spec, LockJob).repositories:
        try:
            new = hub.resolve(name, kind, revision)
        except UserError as error:
            faults.append(str(error))
            continue
        old = lock.get(name)
        log.info("%s %s: %s", name, revision, new.commit if old == new else f"{old and old.commit} -> {new.commit}")
        lock[name] = new
    if faults:
        raise UserError("\n  ".join([f"{args.out} stays as it is, {len(faults)} repositories cannot be read", *faults]))
    write_lock(args.out, lock)


if __name__ == "__main__":
    run(main)
