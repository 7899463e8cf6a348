"""One training run with the Transformers `Trainer`: exact settings, checkpoints that a killed job resumes from."""

import math
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from workflow_scripts.distributed import agreed, deepspeed_config, is_main, wait_for_all, world_size
from workflow_scripts.errors import UserError
from workflow_scripts.progress import Progress, log
from workflow_scripts.spec import Optimisation

CHECKPOINT_SECONDS = 600.0  # at most this much work is lost
_LOG_ROWS = 100  # of the loss curve
_COMPLETE = "complete"  # the file that marks a checkpoint as whole


def num_steps(settings: Optimisation, num_samples: int) -> int:
    """Optimiser steps of a run: as set, or `epochs` over the samples, the last batch filled from the next pass."""
    return settings.steps or math.ceil(settings.epochs * num_samples / settings.global_batch)


def warmup_steps(settings: Optimisation, steps: int) -> int:
    """Steps of linear warm-up: as set, or their share of all steps, rounded up."""
    return settings.warmup_steps or math.ceil(settings.warmup_ratio * steps)


def train(
    model: torch.nn.Module,
    samples: Sequence[Any],
    collate: Callable[[list[Any]], dict[str, Any]],
    settings: Optimisation,
    seed: int,
    folder: Path,
    trainer_class: type[Trainer] = Trainer,
) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor]]:
    """Train on the samples in their order, one pass: the rows of the loss curve (table `training`, epoch left out),
    and the trained weights by name (empty in all but the main process).

    `len(samples)` must be steps x global_batch, and every step sees the next global_batch of them, however many
    processes share it. The model takes what `collate` makes of a batch and returns {"loss"}. Where the model counts
    learnt tokens, a step's loss is their mean over its global batch, however that is split. Checkpoints lie in
    `folder`; the newest whole one is resumed from, and the result is that of an uninterrupted run. With several
    processes or DeepSpeed, call `distributed.join` before. Raises UserError where the loss is not finite.
    """
    steps = len(samples) // settings.global_batch
    on_gpu = torch.cuda.is_available()
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=settings.per_device_batch,
        gradient_accumulation_steps=settings.accumulation,
        train_sampling_strategy="sequential",
        learning_rate=settings.learning_rate,
        lr_scheduler_type=settings.schedule,
        warmup_steps=warmup_steps(settings, steps),
        weight_decay=settings.weight_decay,
        adam_beta1=settings.betas[0],
        adam_beta2=settings.betas[1],
        max_grad_norm=settings.max_grad_norm,
        bf16=settings.precision == "bf16",
        gradient_checkpointing=settings.gradient_checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        seed=seed,
        use_cpu=not on_gpu,
        dataloader_pin_memory=on_gpu,
        remove_unused_columns=False,
        logging_steps=max(1, steps // _LOG_ROWS),
        logging_nan_inf_filter=False,
        save_strategy="no",  # _Checkpoints saves by the clock
        save_total_limit=2,
        deepspeed=deepspeed_config(settings) if settings.zero_stage else None,
        ddp_backend="gloo" if world_size() > 1 and not on_gpu else None,
        report_to="none",
        disable_tqdm=True,
    )
    checkpoint = _last_checkpoint(folder)
    done = int(checkpoint.name.split("-")[1]) if checkpoint else 0
    if checkpoint:
        log.info("resuming from step %d of %d (%s)", done, steps, checkpoint)
    trainer = trainer_class(
        model=model,
        args=arguments,
        train_dataset=samples,
        data_collator=collate,
        callbacks=[_Checkpoints(), _Watch(Progress(steps, "steps", done=done))],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    columns = ("step", "loss", "learning_rate", "grad_norm")
    curve = [{name: row[name] for name in columns} for row in trainer.state.log_history if "loss" in row]
    weights = trainer.accelerator.get_state_dict(trainer.model_wrapped)
    return curve, weights if is_main() else {}


def remove_checkpoints(folder: Path) -> None:
    """Delete the checkpoints of a finished run."""
    for checkpoint in folder.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)


def _last_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint; one that was cut short by the end of its process is deleted."""
    whole = [checkpoint for checkpoint in folder.glob("checkpoint-*") if (checkpoint / _COMPLETE).exists()]
    wait_for_all()
    if is_main():
        for checkpoint in set(folder.glob("checkpoint-*")) - set(whole):
            shutil.rmtree(checkpoint)
    return max(whole, key=lambda path: int(path.name.split("-")[1]), default=None)


class _Checkpoints(TrainerCallback):
    """Saves every CHECKPOINT_SECONDS, and marks a checkpoint once all its files are written."""

    def __init__(self) -> None:
        self.saved = time.monotonic()

    def on_step_end(self, args, state, control, **kwargs):
        due = time.monotonic() - self.saved >= CHECKPOINT_SECONDS
        control.should_save = agreed(due) and state.global_step < state.max_steps

    def on_save(self, args, state, control, **kwargs):
        wait_for_all()
        if is_main():
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / _COMPLETE).touch()
        self.saved = time.monotonic()


class _Watch(TrainerCallback):
    """Logs progress, stops a run whose loss is lost."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_step_end(self, args, state, control, **kwargs):
        self.progress.update(1)

    def on_log(self, args, state, control, logs=None, **kwargs):
        loss = (logs or {}).get("loss", 0.0)
        if not math.isfinite(loss):
            raise UserError(f"the loss is {loss} at step {state.global_step}: lower learning_rate or look at the data")
