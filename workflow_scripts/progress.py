"""Progress of long work in a log file: how far, how fast, how long still."""

import logging
import time

log = logging.getLogger("capsweep")


class Progress:
    """Log a line at most every `seconds`: done of total, rate, time left.

    >>> progress = Progress(1200, "images")
    >>> progress.update(100)
    """

    def __init__(self, total: int, unit: str, done: int = 0, seconds: float = 10.0) -> None:
        self.total, self.unit, self.done, self.seconds = total, unit, done, seconds
        self._resumed_from = done
        self._started = self._last = time.monotonic()

    def skip(self, count: int) -> None:
        """Count `count` as done by an earlier run: they do not enter the rate."""
        self.done += count
        self._resumed_from += count

    def update(self, count: int) -> None:
        """Count `count` more as done."""
        self.done += count
        now = time.monotonic()
        if now - self._last < self.seconds and self.done < self.total:
            return
        self._last = now
        rate = (self.done - self._resumed_from) / max(now - self._started, 1e-9)
        left = (self.total - self.done) / rate if rate else float("inf")
        log.info("%d of %d %s, %.1f %s/s, %s left", self.done, self.total, self.unit, rate, self.unit, clock(left))


def clock(seconds: float) -> str:
    """Seconds as `h:mm:ss`; `unknown` where they are not finite."""
    if seconds == float("inf"):
        return "unknown time"
    hours, rest = divmod(int(seconds + 0.5), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"
