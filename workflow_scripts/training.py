"""One training run with the Transformers `Trainer`: exact settings, checkpoints that a killed job resumes from."""

import math
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import PrinterCallback, TrainerCallback, TrainingArguments

from workflow_scripts.distributed import agreed, deepspeed_config, is_main, wait_for_all, world_size
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json, write_json
from workflow_scripts.pace import COLUMNS, Pace, PacedTrainer, device_peak
from workflow_scripts.progress import Progress, log
from workflow_scripts.spec import Optimisation

CHECKPOINT_SECONDS = 600.0  # between checkpoints, so at most this much work is lost,
SAVING_SHARE = 0.05  # unless saving takes longer than this share of it
_LOG_ROWS = 100  # of the loss curve
_COMPLETE = "complete.json"  # marks a checkpoint as whole, and holds the pace since the last row


def num_steps(settings: Optimisation, num_samples: int) -> int:
    """Optimiser steps of a run: as set, or `epochs` over the samples, the last batch filled from the next pass."""
    return settings.steps or math.ceil(settings.epochs * num_samples / settings.global_batch)


def warmup_steps(settings: Optimisation, steps: int) -> int:
    """Steps of linear warm-up: as set, or their share of all steps, rounded up."""
    return settings.warmup_steps or math.ceil(settings.warmup_ratio * steps)


class Trained(NamedTuple):
    """What a run leaves."""

    curve: list[dict[str, Any]]  # the rows of table `training`, epoch left out
    weights: dict[str, torch.Tensor]  # by name; empty in all but the main process
    counts: Mapping[str, int]  # of `Pace`, over all batches: a sample counts each time that it was seen


def train(
    model: torch.nn.Module,
    samples: Sequence[Any],
    collate: Callable[[list[Any]], dict[str, Any]],
    settings: Optimisation,
    seed: int,
    folder: Path,
    flops: Mapping[str, float],
    loader_workers: int = 0,
    trainer_class: type[PacedTrainer] = PacedTrainer,
) -> Trained:
    """Train on the samples in their order, one pass.

    `len(samples)` must be steps x global_batch, and every step sees the next global_batch of them, however many
    processes share it. The model takes what `collate` makes of a batch, without its `counts`, and returns {"loss"}.
    Where the model counts learnt tokens, a step's loss is their mean over its global batch, however that is split.
    `flops` is as for `Pace`. `loader_workers` processes make batches ahead; they change no result. Checkpoints lie in
    `folder`; the newest whole one is resumed from, and the result is that of an uninterrupted run. With several
    processes or DeepSpeed, call `distributed.join` before. Raises UserError where the loss is not finite.
    """
    steps = len(samples) // settings.global_batch
    on_gpu = torch.cuda.is_available()
    if loader_workers:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads do not live on in forked workers
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
        dataloader_num_workers=loader_workers,  # of one torch thread each, two batches ahead each
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
    pace = Pace(flops, device_peak(settings.precision))
    if checkpoint:
        pace.resume(read_json(checkpoint / _COMPLETE))
        log.info("resuming from step %d of %d (%s)", done, steps, checkpoint)
    trainer = trainer_class(
        model=model,
        args=arguments,
        train_dataset=range(len(samples)),
        data_collator=partial(_batch, samples, collate),
        callbacks=[_Checkpoints(pace), _Watch(Progress(steps, "steps", done=done))],
        pace=pace,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    columns = ("step", "loss", "learning_rate", "grad_norm", *COLUMNS)
    curve = [{name: row[name] for name in columns} for row in trainer.state.log_history if "loss" in row]
    weights = trainer.accelerator.get_state_dict(trainer.model_wrapped)
    return Trained(curve, weights if is_main() else {}, pace.totals)


def _batch(
    samples: Sequence[Any], collate: Callable[[list[Any]], dict[str, Any]], places: list[int]
) -> dict[str, Any] | UserError:
    """The batch of the samples at these places, or why there is none: a loader worker's error would come buried in a
    traceback."""
    try:
        return collate([samples[place] for place in places])
    except UserError as error:
        return error


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
    """Saves by the clock, and marks a checkpoint once all its files are written. A large model's takes minutes: saving
    it may cost at most SAVING_SHARE of the time."""

    def __init__(self, pace: Pace) -> None:
        self.pace, self.cost = pace, 0.0  # seconds of the last saving
        self.saved = self.began = time.monotonic()  # when it was done, and begun

    def on_step_end(self, args, state, control, **kwargs):
        now = time.monotonic()
        due = now - self.saved >= max(CHECKPOINT_SECONDS, self.cost / SAVING_SHARE)
        control.should_save = agreed(due) and state.global_step < state.max_steps
        self.began = now

    def on_save(self, args, state, control, **kwargs):
        wait_for_all()
        since_last_row = self.pace.state()
        if is_main():
            write_json(Path(args.output_dir) / f"checkpoint-{state.global_step}" / _COMPLETE, since_last_row)
        self.saved = time.monotonic()
        self.cost = self.saved - self.began


class _Watch(TrainerCallback):
    """Logs progress, has the last step logged, stops a run whose loss is lost."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_step_end(self, args, state, control, **kwargs):
        self.progress.update(1)
        if state.global_step == state.max_steps:
            control.should_log = True

    def on_log(self, args, state, control, logs=None, **kwargs):
        loss = (logs or {}).get("loss", 0.0)
        if not math.isfinite(loss):
            raise UserError(f"the loss is {loss} at step {state.global_step}: lower learning_rate or look at the data")
