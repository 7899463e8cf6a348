"""What every command shares: `--spec`, logging, one torch thread, clear errors."""

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from workflow_scripts.errors import UserError

Spec = TypeVar("Spec", bound=BaseModel)


def parser(doc: str) -> argparse.ArgumentParser:
    """An argument parser that shows the module's docstring and takes `--spec`, the stage's settings as JSON."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--spec", required=True, help="the stage's settings as JSON")
    return made


def load_spec(text: str, model: type[Spec]) -> Spec:
    """Validate the JSON of `--spec`. Raises UserError with every fault."""
    try:
        return model.model_validate(json.loads(text))
    except ValueError as error:
        if isinstance(error, ValidationError):
            faults = [f"{'.'.join(map(str, e['loc'])) or '--spec'}: {e['msg']}" for e in error.errors()]
            raise UserError("--spec is not valid\n  " + "\n  ".join(faults)) from None
        raise UserError(f"--spec is not valid JSON: {error}") from None


def run(main: Callable[[list[str] | None], None], argv: list[str] | None = None) -> None:
    """Run a command's `main`: log to stderr, keep to one thread, turn UserError into one line and exit code 2."""
    set_up()
    try:
        main(argv)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        # All is written. Threads of the libraries that connect processes can abort one that ends the usual way, and
        # its launcher would take the whole job for failed.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def set_up() -> None:
    """Logging with times, and one thread a process unless the environment says otherwise."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
