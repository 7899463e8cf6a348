"""Check that fetched files are what was fetched.

    python -m workflow_scripts.assets.verify assets/*.json             # sizes, in a moment
    python -m workflow_scripts.assets.verify --sha256 assets/*.json    # contents, about a second a gigabyte

Files in: manifests and the folders beside them. Ends with an error that lists every file that is absent or another.
"""

import argparse
import logging
from pathlib import Path

from workflow_scripts.assets.manifest import changed_files
from workflow_scripts.command import run
from workflow_scripts.errors import UserError

log = logging.getLogger("capsweep")


def main(argv: list[str] | None = None) -> None:
    """Check the files of every manifest."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sha256", action="store_true", help="read every file, in place of its size alone")
    arguments.add_argument("manifests", type=Path, nargs="+", help="manifests of fetched repositories")
    args = arguments.parse_args(argv)
    manifests = [path for path in args.manifests if not path.name.endswith(".run.json")]
    faults = [fault for path in manifests for fault in changed_files(path, args.sha256)]
    if faults:
        raise UserError("\n  ".join([f"{len(faults)} files are not what was fetched", *faults]))
    log.info("%d repositories are what was fetched", len(manifests))


if __name__ == "__main__":
    run(main)
