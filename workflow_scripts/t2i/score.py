"""Score one benchmark's generated pictures.

    python -m workflow_scripts.t2i.score --spec '{"name": "geneval", "benchmark": {"path": "data/geneval", ...}}' \
        --serving '{"gpus": 1, "threads": 8}' \
        --pictures results/generation/sd3.5-medium/seed-0/qwen3-vl-8b/geneval/pictures.parquet \
        --out .../scores.csv --per-picture .../picture_scores.parquet

Files in: the table of pictures, their PNGs, the benchmark's files, the models that the benchmark asks. Files out:
--per-picture (table `picture_scores`: one row a picture, with what is wrong with it and what the models said) and --out
(table `benchmark_scores`: the headline, which is G's share of this benchmark, and each category; `num_items` counts
pictures), written last.

Before anything is scored, each model is asked about a picture with a known answer: one that does not see it stops the
run. Scores wait in picture_scores/ beside --out: a killed run goes on where it was. Pictures of the blocks world are
read by its exact detector.
"""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd
from PIL import Image

from workflow_scripts.benchmarks.generation import canaries
from workflow_scripts.benchmarks.generation.base import Generation, Picture, PictureScore, Prompt, read_prompts, score
from workflow_scripts.benchmarks.generation.models import close_models, comparable, harness, open_models
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import fingerprint, write_run_record
from workflow_scripts.model_folders import folder_fingerprint
from workflow_scripts.partial import Journal
from workflow_scripts.plan import ScoreImagesJob, ServingJob
from workflow_scripts.progress import Progress
from workflow_scripts.read_ahead import ReadAhead
from workflow_scripts.records import read_table, write_table
from workflow_scripts.t2i.benchmarks import generation_benchmark

AT_ONCE = 32  # pictures that the models are asked about together; what a killed job loses at most

Waiting = tuple[Prompt, int, str]  # prompt, number and path of a picture


def read_pictures(path: Path, name: str, prompts: Sequence[Prompt], images_per_prompt: int) -> list[Waiting]:
    """The pictures of all prompts in their order. Raises UserError where one is missing or its prompt is another one
    now, with what to do."""
    again = f"delete {path} and run again, which makes what is missing"
    table = read_table(path, "pictures")
    expected = len(prompts) * images_per_prompt
    if len(table) != expected:
        raise UserError(f"{path}: {len(table)} pictures, expected {expected}; {again}")
    rows = table.set_index(["prompt_id", "index"])
    found = []
    for prompt in prompts:
        for index in range(images_per_prompt):
            if (prompt.id, index) not in rows.index:
                raise UserError(f"{path}: picture {index} of prompt {prompt.id} is missing; {again}")
            row = rows.loc[(prompt.id, index)]
            if row.prompt != prompt.text:
                was = f"the picture's was {row.prompt!r}"
                raise UserError(f"{name}: prompt {prompt.id} is {prompt.text!r}, {was}; {again}")
            found.append((prompt, index, row.path))
    return found


def score_pictures(
    benchmark: Generation,
    job: ScoreImagesJob,
    serving: ServingJob,
    prompts: Sequence[Prompt],
    pictures: Sequence[Waiting],
    folder: Path,
    journal: Journal,
) -> list[PictureScore]:
    """Every picture's score; `journal` holds and keeps them, `folder` is that of the pictures' paths. Raises UserError
    for a picture that cannot be read and for a model that does not see what its test picture shows."""
    found = {(row["prompt_id"], row["index"]): _from_row(row) for row in journal.read().to_pylist()}
    left = [picture for picture in pictures if (picture[0].id, picture[1]) not in found]
    progress = Progress(len(pictures), "pictures", len(pictures) - len(left))
    if left:
        models = open_models(job.name, job.benchmark.models, AT_ONCE, serving)
        try:
            canaries.check(job.name, models, {role: model.path for role, model in job.benchmark.models.items()})
            scorer = benchmark.scorer(job.benchmark.path, prompts, models, job.benchmark.mode)
            images = ReadAhead(partial(_read, folder), left, serving.threads, 2 * AT_ONCE)
            for start in range(0, len(left), AT_ONCE):
                some = left[start : start + AT_ONCE]
                for one in scorer([Picture(prompt, index, images.take()) for prompt, index, _ in some]):
                    found[one.prompt_id, one.index] = one
                    journal.append(_to_row(job.name, one))
                progress.update(len(some))
        finally:
            journal.flush()
            close_models(models)
    return [found[prompt.id, index] for prompt, index, _ in pictures]


def _read(folder: Path, picture: Waiting) -> Image.Image:
    path = folder / picture[2]
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (OSError, SyntaxError) as error:
        raise UserError(
            f"{path}: not a readable picture ({error}); delete {folder / 'pictures.parquet'} and run again: only what "
            "is broken is made again"
        ) from None


def _to_row(benchmark: str, one: PictureScore) -> dict:
    """A row of table `picture_scores`."""
    return {
        "benchmark": benchmark,
        "prompt_id": one.prompt_id,
        "index": one.index,
        "category": one.category,
        "score": one.score,
        "reason": one.reason,
        "seen": json.dumps(one.seen),
    }


def _from_row(row: dict) -> PictureScore:
    seen = json.loads(row["seen"])
    return PictureScore(row["prompt_id"], row["index"], row["category"], row["score"], row["reason"], seen)


def main(argv: list[str] | None = None) -> None:
    """Score every picture and the benchmark."""
    arguments = parser(__doc__)
    arguments.add_argument("--serving", default="{}", help="how the models run, as JSON: GPUs, threads")
    arguments.add_argument("--pictures", type=Path, required=True, help="the table of pictures")
    arguments.add_argument("--out", type=Path, required=True, help="the table of scores")
    arguments.add_argument("--per-picture", type=Path, required=True, help="the table of every picture's score")
    args = arguments.parse_args(argv)
    job, serving = load_spec(args.spec, ScoreImagesJob), load_spec(args.serving, ServingJob)
    benchmark, settings = generation_benchmark(job.name), job.benchmark
    prompts = read_prompts(benchmark, settings.path)
    pictures = read_pictures(args.pictures, job.name, prompts, settings.images_per_prompt)
    read = [settings.path, *(model.path for model in settings.models.values())]
    made_of = fingerprint(job.model_dump(mode="json"), args.pictures, [folder_fingerprint(path) for path in read])
    journal = Journal(args.out.parent / "picture_scores" / made_of, "picture_scores", AT_ONCE)
    scores = score_pictures(benchmark, job, serving, prompts, pictures, args.pictures.parent, journal)
    rows = score(
        benchmark,
        prompts,
        settings.images_per_prompt,
        scores,
        settings.mode,
        harness(job.name, settings.models),
        comparable(job.name, settings.models),
        benchmark.finer(settings.path, scores, settings.mode),
    )
    write_table(args.per_picture, pd.DataFrame([_to_row(job.name, one) for one in scores]), "picture_scores")
    write_run_record(args.out, job.model_dump(mode="json"), num_pictures=len(scores), num_prompts=len(prompts))
    write_table(args.out, rows, "benchmark_scores")
    journal.remove()


if __name__ == "__main__":
    run(main)
