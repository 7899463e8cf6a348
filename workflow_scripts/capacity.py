"""What a job needs of disk and memory, against what there is: too little ends it before anything is loaded.

Memory is what can be computed beforehand: a little less than the truth, so that nothing is refused that would fit. GB
are 10^9 bytes.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import psutil
import torch
from safetensors import safe_open

from workflow_scripts.distributed import is_main, wait_for_all
from workflow_scripts.errors import UserError
from workflow_scripts.model_folders import weight_files
from workflow_scripts.progress import log
from workflow_scripts.spec import Optimisation

Needed = dict[str, float]  # bytes by what they are for

CHECKPOINTS = 3  # on disk at once: two are kept while the next is written
_OWN_GROUP, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def require_disk(folder: Path, needed: Needed) -> None:
    """Raise UserError where the disk of `folder` is too small. What lies in `folder` already counts as free: a run
    that goes on has its files there."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    own = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    _require(f"the disk of {folder}", needed, shutil.disk_usage(there).free + own)


def require_memory(on_gpu: Needed, on_host: Needed) -> None:
    """Raise UserError where a GPU's or the host's memory is too small. `on_gpu` is what each process needs, on the host
    where there is no GPU, `on_host` what all processes of this machine need there together."""
    if torch.cuda.is_available():
        _require("the GPU's memory", on_gpu, torch.cuda.mem_get_info()[0])
    else:
        on_host = on_host | {what: local_processes() * size for what, size in on_gpu.items()}
    _require("the host's memory", on_host, host_memory())
    wait_for_all()  # nobody loads while another still looks


def local_processes() -> int:
    """Processes of this job on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def host_memory() -> float:
    """Bytes of memory that this process and its siblings may still take: what the machine has left, at most the limit
    of their control group (Slurm and containers set one)."""
    limits = [float(psutil.virtual_memory().available)]
    for line in _OWN_GROUP.read_text().splitlines() if _OWN_GROUP.exists() else []:
        _, kinds, path = line.split(":", 2)
        if kinds not in ("", "memory"):
            continue
        group = _GROUPS / kinds / path.lstrip("/")  # version 2 has one tree, version 1 one for memory
        for place in (group, *group.parents):
            for name in ("memory.max", "memory.limit_in_bytes"):
                text = (place / name).read_text().strip() if (place / name).is_file() else "max"
                limits += [float(text)] if text != "max" else []
    return min(limits)


def count_parameters(folder: Path, counts: Callable[[str], bool] = lambda name: True) -> tuple[int, int]:
    """How many numbers the weights of a model's folder are, and its largest tensor, by the headers of their files;
    of all weights, or those whose name `counts`."""
    sizes = []
    for path in weight_files(folder):
        with safe_open(path, "pt") as file:
            shapes = (file.get_slice(name).get_shape() for name in file.keys() if counts(name))  # noqa: SIM118
            sizes += [int(torch.Size(shape).numel()) for shape in shapes]
    return sum(sizes), max(sizes, default=0)


def training_states(parameters: int, largest: int, settings: Optimisation) -> tuple[float, float]:
    """Bytes that weights, gradients and AdamW's states of one process take on its GPU, and on its host, where all
    parameters learn.

    Without DeepSpeed weights, gradients and two moments in float32. With it as DeepSpeed's own estimates
    (`estimate_zero2_model_states_mem_needs` and `estimate_zero3_...`) without their reserve: weights and gradients in
    16 bits, gradients, weights and two moments in 32 bits, shared out over the GPUs or moved to the host.
    """
    if not settings.zero_stage:
        return 16.0 * parameters, 0.0
    share = 1 / settings.devices
    own = 2.0 * parameters if settings.zero_stage == 2 else 4.0 * largest
    if not settings.offload_optimizer:
        return own + 18 * parameters * share, 0.0
    return own + (2 * parameters * share if settings.zero_stage == 3 else 0), 16 * parameters * share


def activations(layers: int, width: int, tokens: int, settings: Optimisation) -> float:
    """Bytes of what one GPU keeps of a transformer's forward pass: 34 a layer, token and channel in 16 bits, attention
    not stored (Korthikanti et al. 2022, table 2); recomputed, 2 a layer and those of one layer."""
    one = tokens * width * settings.per_device_batch * (1 if settings.precision == "bf16" else 2)
    return one * (2 * layers + 34 if settings.gradient_checkpointing else 34 * layers)


def checkpoints(parameters: int, settings: Optimisation) -> float:
    """Bytes of the checkpoints that lie there at once: weights and two moments in float32, and where DeepSpeed trains
    in 16 bits, the weights in those too: once for all processes, and under ZeRO-2 once more."""
    halves = {0: 0, 2: 4, 3: 2}[settings.zero_stage] if settings.precision == "bf16" else 0
    return CHECKPOINTS * (12.0 + halves) * parameters


def _require(place: str, needed: Needed, available: float) -> None:
    total = sum(needed.values())
    figures = ", ".join(f"{what} {_gb(size)}" for what, size in needed.items() if size)
    if total > available:
        raise UserError(f"{place}: {_gb(available)} are free, this needs {_gb(total)} ({figures})")
    if is_main():
        log.info("%s: %s are free, this needs %s (%s)", place, _gb(available), _gb(total), figures or "nothing")


def _gb(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:.3f} MB"
