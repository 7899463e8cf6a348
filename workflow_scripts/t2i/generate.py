"""Make one benchmark's pictures with a fine-tuned text-to-image model.

    python -m workflow_scripts.t2i.generate --spec '{"family": "sd3", "name": "blocks_geneval", ...}' \
        --model results/blocks/generation/sd3/seed-0/late/model.json \
        --out results/blocks/generation/sd3/seed-0/late/blocks_geneval/pictures.parquet

Files in: the benchmark's prompts, the fine-tuned transformer, the pipeline folder. Files out: a PNG a picture, as
<prompt>/<number>.png in a folder beside --out; the same pictures in the folder official/ as the authors' scorer reads
them (further names of the same files; DPG-Bench's grids are files of their own); --out (table `pictures`, paths
relative to its folder), written last.

A picture's noise follows from `noise_seed`, the prompt's id and the picture's number alone: it is the same for every
captioner. A run that was ended makes the pictures that are not there or not whole. Started by `torch.distributed.run`,
each process makes its share.
"""

from pathlib import Path
from typing import Any

from PIL import Image

from workflow_scripts.benchmarks.generation.base import Prompt, read_prompts
from workflow_scripts.benchmarks.generation.layout import lay_out
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.files import atomic, fingerprint, write_run_record
from workflow_scripts.model_folders import manifest_folder
from workflow_scripts.plan import GenerateJob
from workflow_scripts.progress import Progress
from workflow_scripts.records import write_table
from workflow_scripts.t2i.benchmarks import generation_benchmark


def is_whole(path: Path, side: int) -> bool:
    """Whether a picture of side x side pixels is there and every byte of it can be read."""
    try:
        with Image.open(path) as image:
            image.load()
            return image.size == (side, side)
    except (OSError, SyntaxError):  # what Pillow raises for a broken PNG
        return False


def picture_rows(job: GenerateJob, prompts: list[Prompt], folder: str) -> list[dict[str, Any]]:
    """Table `pictures`: every picture that is to be made, in the order of the prompts."""
    from workflow_scripts.t2i.flow import seed_of

    return [
        {
            "benchmark": job.name,
            "prompt_id": prompt.id,
            "index": index,
            "prompt": prompt.text,
            "path": f"{folder}/{prompt.id}/{index:04d}.png",
            "noise_seed": seed_of("noise", job.noise_seed, prompt.id, index),
        }
        for prompt in prompts
        for index in range(job.images_per_prompt)
    ]


def make_pictures(job: GenerateJob, transformer: Path, rows: list[dict[str, Any]], folder: Path, batch: int) -> None:
    """Make this process's share of the pictures that are not there or not whole, `batch` at once, and wait for the
    others."""
    from workflow_scripts.distributed import meet, rank, wait_for_all, world_size

    mine = rows[rank() :: world_size()]
    pending = [row for row in mine if not is_whole(folder / row["path"], job.resolution)]
    progress = Progress(len(mine), "pictures", done=len(mine) - len(pending))
    meet()
    if pending:
        from workflow_scripts.t2i.families import FAMILIES

        family = FAMILIES[job.family].load(job.model, job.max_text_tokens, transformer, job.precision)
    for start in range(0, len(pending), batch):
        some = pending[start : start + batch]
        images = family.make(
            [row["prompt"] for row in some],
            [row["noise_seed"] for row in some],
            job.resolution,
            job.steps,
            job.guidance,
        )
        for row, image in zip(some, images, strict=True):
            with atomic(folder / row["path"]) as temporary:
                image.save(temporary)
        progress.update(len(some))
    wait_for_all()


def main(argv: list[str] | None = None) -> None:
    """Make the pictures that are missing and list all."""
    arguments = parser(__doc__)
    arguments.add_argument("--model", type=Path, required=True, help="model.json of the fine-tuned transformer")
    arguments.add_argument("--batch", type=int, default=8, help="pictures made at once; it decides none of them")
    arguments.add_argument("--out", type=Path, required=True, help="the table of pictures")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, GenerateJob)
    benchmark, folder = generation_benchmark(job.name), args.out.parent
    prompts = read_prompts(benchmark, job.prompts)
    benchmark.files(prompts, job.images_per_prompt)  # what has no official layout stops before anything is made
    transformer = manifest_folder(args.model)
    made_of = fingerprint(job.model_dump(mode="json"), args.model, [(prompt.id, prompt.text) for prompt in prompts])
    rows = picture_rows(job, prompts, made_of)
    make_pictures(job, transformer, rows, folder, args.batch)

    from workflow_scripts.distributed import is_main

    if not is_main():
        return
    pictures = {(row["prompt_id"], row["index"]): folder / row["path"] for row in rows}
    lay_out(benchmark, prompts, job.images_per_prompt, pictures, folder / "official")
    write_run_record(args.out, job.model_dump(mode="json"), num_pictures=len(rows), num_prompts=len(prompts))
    write_table(args.out, rows, "pictures")


if __name__ == "__main__":
    run(main)
