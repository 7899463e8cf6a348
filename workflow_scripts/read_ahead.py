"""Decode images in threads ahead of the engine, so that it never waits for a file or a JPEG."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from workflow_scripts.errors import UserError

Item, Images = TypeVar("Item"), TypeVar("Images")


class ReadAhead(Generic[Item, Images]):
    """What `read` makes of items, in their order; at most `ahead` results wait. Pillow decodes without the
    interpreter's lock, so threads are enough."""

    def __init__(self, read: Callable[[Item], Images], items: Iterable[Item], threads: int, ahead: int) -> None:
        self._read, self._left, self._ahead = read, iter(items), ahead
        self._reading: deque[Future[Images]] = deque()
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="decode")

    def next(self) -> Images | Exception:
        """The next result, or why there is none. Raises UserError where `read` does: going on is pointless."""
        while len(self._reading) < self._ahead and (item := next(self._left, None)) is not None:
            self._reading.append(self._threads.submit(self._read, item))
        done = self._reading.popleft()
        fault = done.exception()
        if not self._reading:
            self._threads.shutdown()
        if isinstance(fault, UserError):
            raise fault
        return fault or done.result()

    def take(self) -> Images:
        """The next result. Raises whatever `read` raised."""
        found = self.next()
        if isinstance(found, Exception):
            raise found
        return found
