"""Several processes that train one model: how they meet, what DeepSpeed shares out among them, who writes files.

Every process runs the same command, started by `torch.distributed.run`, which tells it its rank.
"""

import logging
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from workflow_scripts.errors import UserError
from workflow_scripts.progress import log
from workflow_scripts.spec import Optimisation

_FOUND_BY_FROM_PRETRAINED: list[Any] = []  # Transformers holds the settings by a weak reference only
_BUCKET = 50_000_000  # parameters that ZeRO sends at once


def world_size() -> int:
    """How many processes the launcher started; 1 without one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Which of the processes this one is."""
    return int(os.environ.get("RANK", "0"))


def is_main() -> bool:
    """Whether this process writes the files that all of them share."""
    return rank() == 0


def meet() -> None:
    """Meet the other processes of a command whose processes share work, but no model."""
    _take_gpu()
    if world_size() > 1 and not dist.is_initialized():
        dist.init_process_group("gloo", timeout=timedelta(days=30))  # one may have much more to do than another


def wait_for_all() -> None:
    """Return once every process is here."""
    if dist.is_initialized() and dist.get_world_size() > 1:
        dist.barrier()


def agreed(choice: bool) -> bool:
    """The main process's choice, in every process: clocks differ."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return choice
    chosen = torch.tensor([int(choice)], device=_device())
    dist.broadcast(chosen, src=0)
    return bool(chosen.item())


def gathered(values: Sequence[float]) -> list[list[float]]:
    """Every process's values, in every process, by rank; all give equally many."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return [list(values)]
    own = torch.tensor(values, dtype=torch.float64, device=_device())
    rows = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, own)
    return [row.tolist() for row in rows]


def check_processes(settings: Optimisation) -> None:
    """Raise UserError where the number of processes is not `devices`."""
    if world_size() != settings.devices:
        raise UserError(
            f"training.devices is {settings.devices}, this command was started as {world_size()} process(es): start it "
            f"with `python -m torch.distributed.run --standalone --nproc-per-node={settings.devices} -m ...`"
        )


def join(settings: Optimisation, load_in_parts: bool = True) -> None:
    """Meet the other processes, take this one's GPU, and get DeepSpeed ready where `zero_stage` asks for it.

    Call it before a model is loaded: under ZeRO-3 Transformers' `from_pretrained` then gives each process its part of
    every weight and never holds the whole model, unless `load_in_parts` is false. Raises UserError as
    `check_processes` does.
    """
    check_processes(settings)
    if not is_main():
        log.setLevel(logging.WARNING)  # all would tell the same
    _take_gpu()
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    if not settings.zero_stage:
        if world_size() > 1 and not dist.is_initialized():
            dist.init_process_group(backend)
        return
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    # One process alone is a group too.
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("MASTER_PORT", "0" if world_size() == 1 else "29500")
    import deepspeed

    if not torch.cuda.is_available():
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # its compilation takes minutes
    if not dist.is_initialized():
        deepspeed.init_distributed(backend, verbose=False)
    if not load_in_parts:
        return
    from transformers.integrations import HfDeepSpeedConfig

    _FOUND_BY_FROM_PRETRAINED[:] = [HfDeepSpeedConfig(deepspeed_config(settings))]


def deepspeed_config(settings: Optimisation) -> dict[str, Any]:
    """DeepSpeed's settings. The optimiser and the schedule stay PyTorch's and Transformers'."""
    zero: dict[str, Any] = {
        "stage": settings.zero_stage,
        "overlap_comm": torch.cuda.is_available(),
        "contiguous_gradients": True,
        "reduce_bucket_size": _BUCKET,
        "allgather_bucket_size": _BUCKET,
    }
    if settings.zero_stage == 3:
        zero |= {
            "stage3_prefetch_bucket_size": _BUCKET,
            "stage3_param_persistence_threshold": 100_000,
            "stage3_gather_16bit_weights_on_model_save": True,
        }
    if settings.offload_optimizer:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": torch.cuda.is_available()}
    return {
        "train_batch_size": settings.global_batch,
        "train_micro_batch_size_per_gpu": settings.per_device_batch,
        "gradient_accumulation_steps": settings.accumulation,
        "gradient_clipping": settings.max_grad_norm,
        "bf16": {"enabled": settings.precision == "bf16"},
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }


def _take_gpu() -> None:
    """Of this machine's GPUs, the one whose number is this process's."""
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))


def _device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
