"""Worker processes that end with their parent, even where it is killed."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from typing import Any

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


@contextmanager
def workers(number: int) -> Iterator[Map]:
    """A `map` over `number` processes, results in order; the first error cancels what has not begun."""
    if number == 1:
        yield map
        return
    with ProcessPoolExecutor(number, get_context("spawn"), _end_with_parent) as pool:
        yield pool.map


def _end_with_parent() -> None:
    def wait() -> None:
        connection.wait([parent_process().sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
