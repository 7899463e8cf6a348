"""The pace of a training run: tokens a second, model FLOPs used, time spent waiting for data, samples cut.

A collator puts `counts` beside the model's inputs: numbers of its batch, at least `samples`, `cut` and `tokens`, and
`unlearnt`, the samples that teach nothing, if there may be any. They travel with the batch, so that they are right
though loader workers make batches ahead in processes of their own. Every row of the loss curve tells of the steps since
the last one, over all processes.
"""

import re
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import torch
from transformers import Trainer

from workflow_scripts.distributed import gathered, is_main
from workflow_scripts.errors import UserError

COLUMNS = ("tokens_per_second", "model_tflops", "mfu", "share_waiting", "share_truncated")
# Dense bfloat16 on tensor cores with float32 sums, 10^12 a second, from NVIDIA's data sheets.
_PEAK_TFLOPS = {
    r"\bB200\b": 2250.0,
    r"\bH200 NVL\b": 835.5,
    r"\bG?H200\b": 989.5,
    r"\bH100 NVL\b": 835.5,
    r"\bH100 PCIe\b": 756.5,
    r"\bH100 \d+GB HBM3\b": 989.5,
    r"\bA100\b": 312.0,
    r"\bL40S\b": 362.0,
}


def peak_tflops(device: str) -> float | None:
    """The most 10^12 bfloat16 FLOPs a second of a GPU that torch calls so; None where it is not in the table."""
    return next((peak for pattern, peak in _PEAK_TFLOPS.items() if re.search(pattern, device)), None)


class Pace:
    """Counts since the last row of the loss curve.

    `flops` is what one of each counted thing costs in model FLOPs, forward and backward: those that the model needs
    for real tokens, not what padding or recomputed activations add. `peak` is the device's 10^12 FLOPs a second, if
    known. Seconds are wall time with all that lies between two rows, checkpoints too. The time that a process waited
    is what it spent in the data loader: of several the longest, since all wait for the last; on a GPU it is an upper
    bound of the device's idle time, which still works on what it was given.
    """

    def __init__(self, flops: Mapping[str, float], peak: float | None) -> None:
        self._flops, self._peak = flops, peak
        self._counts: Counter[str] = Counter()
        self._waited = self._earlier = 0.0  # `_earlier`: seconds of the process that this one resumes
        self._since: float | None = None
        self.totals: Counter[str] = Counter()  # counts of the whole run, up to the last row

    def counted(self, batches: Generator[Any, None, None]) -> Iterator[dict[str, Any]]:
        """The batches without their counts. Raises the UserError that stands in a batch's place."""
        while True:
            started = time.monotonic()
            if self._since is None:
                self._since = started
            batch = next(batches, None)
            self._waited += time.monotonic() - started
            if batch is None:
                return
            if isinstance(batch, UserError):
                batches.close()  # now: loader workers that the garbage collector ends do so after seconds
                raise batch
            self._counts.update(batch.pop("counts"))
            yield batch

    def row(self) -> dict[str, float | None]:
        """The columns of a row; counting starts again. To be called in every process at once. Raises UserError where no
        sample has taught anything yet."""
        state = self.state()
        counts, seconds, num_processes = state["counts"], state["seconds"], state["num_processes"]
        flops = sum(cost * counts[name] for name, cost in self._flops.items())
        tflops = flops / seconds / num_processes / 1e12
        self._counts.clear()
        self._waited = self._earlier = 0.0
        self._since = time.monotonic()
        self.totals.update({name: int(number) for name, number in counts.items()})
        if self.totals["unlearnt"] == self.totals["samples"]:
            raise UserError(
                f"nothing is learnt: of {self.totals['samples']} samples none has an answer that begins within "
                "max_length tokens; raise it or look at the data"
            )
        return {
            "tokens_per_second": counts["tokens"] / seconds,
            "model_tflops": tflops,
            "mfu": tflops / self._peak if self._peak else None,
            "share_waiting": min(state["waited"] / seconds, 1.0),
            "share_truncated": counts["cut"] / counts["samples"],
        }

    def state(self) -> dict[str, Any]:
        """What a resumed run goes on from, as JSON values, of all processes. To be called in every process at once."""
        names = sorted(self._counts)
        rows = gathered([self._waited, *(self._counts[name] for name in names)])
        return {
            "counts": {
                name: sum(values) for name, values in zip(names, list(zip(*rows, strict=True))[1:], strict=True)
            },
            "seconds": self._earlier + (time.monotonic() - self._since if self._since else 0.0),
            "waited": max(row[0] for row in rows),
            "num_processes": len(rows),
            "totals": dict(self.totals),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from `state`: what all processes had counted is the main one's now."""
        self._counts = Counter({name: number * is_main() for name, number in state["counts"].items()})
        self._waited, self._earlier, self.totals = state["waited"], state["seconds"], Counter(state["totals"])


class PacedTrainer(Trainer):
    """A `Trainer` whose log rows have the columns of its pace."""

    def __init__(self, *args: Any, pace: Pace, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pace = pace

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        """The batches of a step, counted."""
        return super().get_batch_samples(self.pace.counted(epoch_iterator), num_batches, device)

    def log(self, logs, start_time=None):
        """Rows of the loss curve get their pace; checkpoints keep them."""
        super().log(logs | self.pace.row() if "loss" in logs else logs, start_time)


def device_peak(precision: str) -> float | None:
    """`peak_tflops` of this process's device, for bf16 on a GPU; else None."""
    if precision != "bf16" or not torch.cuda.is_available():
        return None
    return peak_tflops(torch.cuda.get_device_name())
