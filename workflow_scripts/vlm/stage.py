"""A training stage from start to manifest: what `vlm.align` and `vlm.train` share."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from workflow_scripts.capacity import (
    checkpoints,
    count_parameters,
    local_processes,
    require_disk,
    require_memory,
    training_states,
)
from workflow_scripts.distributed import is_main, join
from workflow_scripts.files import fingerprint, write_run_record
from workflow_scripts.model_folders import write_manifest
from workflow_scripts.plan import AlignJob, SftJob
from workflow_scripts.progress import log
from workflow_scripts.records import write_table
from workflow_scripts.spec import VlmStage
from workflow_scripts.training import num_steps, remove_checkpoints, train
from workflow_scripts.vlm.batches import Batches
from workflow_scripts.vlm.data import Samples, in_order
from workflow_scripts.vlm.flops import training_flops
from workflow_scripts.vlm.model import freeze, load, module_of, save
from workflow_scripts.vlm.trainer import LlavaTrainer

Facts = dict[str, Any]


def run_stage(
    job: AlignJob | SftJob,
    start: Path,
    inputs: Sequence[Any],
    read_samples: Callable[[], tuple[Samples, Facts]],
    out: Path,
    log_table: Path,
    loader_workers: int,
) -> None:
    """Train the model in the folder `start` and write the loss curve `log_table` and the manifest `out`.

    `inputs` are what the stage reads besides its spec (parts of a fingerprint); checkpoints and the final model lie
    beside `out` in the folder named by the fingerprint of both, so that a changed spec never resumes an old run.
    `read_samples` gives the samples and facts for the run record.
    """
    spec = job.model_dump(mode="json")
    name = fingerprint(spec, *inputs)
    folder = out.parent / name
    folder.mkdir(parents=True, exist_ok=True)
    join(job.stage)
    _require_room(start, folder, job.stage)
    model, processor = load(start, job.model)
    num_learning = freeze(model, job.stage)

    samples, facts = read_samples()
    steps = num_steps(job.stage, len(samples))
    log.info(
        "%d samples, %d steps of %d, %d parameters learn",
        len(samples),
        steps,
        job.stage.global_batch,
        num_learning,
    )
    batches = Batches(processor, job.stage.max_length)
    ordered = in_order(samples, job.seed, steps * job.stage.global_batch)
    flops = training_flops(model, batches.num_image_tokens)
    curve, weights, counts = train(
        model, ordered, batches, job.stage, job.seed, folder, flops, loader_workers, LlavaTrainer
    )
    if not is_main():
        return
    if counts["cut"]:
        told = "%d of %d samples were longer than max_length %d and cut; %d of them lost all answers and taught nothing"
        log.warning(told, counts["cut"], counts["samples"], job.stage.max_length, counts["unlearnt"])
    save(model, weights, processor, folder / "model")
    for row in curve:
        row["epoch"] = row["step"] * job.stage.global_batch / len(samples)
    write_table(log_table, curve, "training")
    write_run_record(
        out,
        spec,
        num_samples=len(samples),
        num_steps=steps,
        num_learning_parameters=num_learning,
        num_cut_samples=counts["cut"],
        num_unlearnt_samples=counts["unlearnt"],
        **facts,
    )
    write_manifest(out, folder / "model", name)
    remove_checkpoints(folder)


def _require_room(start: Path, folder: Path, stage: VlmStage) -> None:
    """Raise UserError where disk or memory do not hold the training of the model in the folder `start`. How much
    activations take depends on the samples' lengths: they are not in it."""
    learning, largest = count_parameters(start, lambda name: module_of(name) in stage.train)
    saved = (2 if stage.zero_stage and stage.precision == "bf16" else 4) * count_parameters(start)[0]
    require_disk(folder, {"checkpoints": checkpoints(learning, stage), "the trained model": saved})
    on_gpu, on_host = training_states(learning, largest, stage)
    optimiser = local_processes() * on_host
    require_memory({"weights, gradients, optimiser": on_gpu}, {"optimiser": optimiser})
