"""Make one benchmark's pictures with a fine-tuned text-to-image model.

    python -m workflow_scripts.t2i.generate --spec '{"family": "sd3", "name": "blocks_geneval", ...}' \
        --model results/blocks/generation/sd3/seed-0/late/model.json \
        --out results/blocks/generation/sd3/seed-0/late/blocks_geneval/pictures.parquet

Files in: the benchmark's prompts.jsonl, the fine-tuned transformer, the pipeline folder. Files out: a PNG a picture
in a folder beside --out, laid out as <prompt>/samples/<number>.png; --out (table `pictures`, paths relative to its
folder), written last. A prompt's id is its line number, five digits, from 00000.

A picture's noise follows from `noise_seed`, the prompt's id and the picture's number alone: it is the same for every
captioner. A run that was ended makes the pictures that are not there or not whole.
"""

from pathlib import Path
from typing import Any

from PIL import Image

from workflow_scripts.benchmarks import GENERATION
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import NotInThisVersion, UserError, unknown
from workflow_scripts.files import atomic, fingerprint, read_jsonl, write_run_record
from workflow_scripts.model_folders import manifest_folder
from workflow_scripts.plan import GenerateJob
from workflow_scripts.progress import Progress
from workflow_scripts.records import write_table
from workflow_scripts.spec import T2iBenchmark


def check_benchmark(name: str) -> None:
    """Raise NotInThisVersion for a benchmark that this version cannot measure, UserError for an unknown one."""
    if name not in GENERATION:
        raise unknown("generation.benchmarks", name, GENERATION)
    if not name.startswith("blocks_"):
        raise NotInThisVersion(
            f"generation.benchmarks.{name}: {GENERATION[name].title} comes in a later version; this one measures the "
            "benchmarks of the blocks world"
        )


def read_prompts(benchmark: T2iBenchmark) -> dict[str, dict[str, Any]]:
    """The rows of a benchmark's prompts.jsonl by prompt id. Raises UserError naming a row without a prompt."""
    path = Path(benchmark.path or "") / "prompts.jsonl"
    rows = read_jsonl(path)
    for number, row in enumerate(rows, 1):
        if not str(row.get("prompt", "")).strip():
            raise UserError(f"{path}: row {number} has no prompt")
    return {f"{number:05d}": row for number, row in enumerate(rows)}


def is_whole(path: Path, side: int) -> bool:
    """Whether a picture of side x side pixels is there and every byte of it can be read."""
    try:
        with Image.open(path) as image:
            image.load()
            return image.size == (side, side)
    except (OSError, SyntaxError):  # what Pillow raises for a broken PNG
        return False


def main(argv: list[str] | None = None) -> None:
    """Make the pictures that are missing and list all."""
    arguments = parser(__doc__)
    arguments.add_argument("--model", type=Path, required=True, help="model.json of the fine-tuned transformer")
    arguments.add_argument("--out", type=Path, required=True, help="the table of pictures")
    args = arguments.parse_args(argv)
    spec = load_spec(args.spec, GenerateJob)
    check_benchmark(spec.name)
    prompts = read_prompts(spec.benchmark)
    transformer = manifest_folder(args.model)

    from workflow_scripts.t2i.families import FAMILIES
    from workflow_scripts.t2i.flow import seed_of

    made_of = fingerprint(spec.model_dump(mode="json"), args.model, [row["prompt"] for row in prompts.values()])
    rows = [
        {
            "benchmark": spec.name,
            "prompt_id": prompt_id,
            "index": index,
            "prompt": row["prompt"],
            "path": f"{made_of}/{prompt_id}/samples/{index:04d}.png",
            "noise_seed": seed_of("noise", spec.noise_seed, prompt_id, index),
        }
        for prompt_id, row in prompts.items()
        for index in range(spec.benchmark.images_per_prompt)
    ]
    pending = [row for row in rows if not is_whole(args.out.parent / row["path"], spec.resolution)]
    progress = Progress(len(rows), "pictures", done=len(rows) - len(pending))
    if pending:
        family = FAMILIES[spec.family].load(spec.model, spec.max_text_tokens, transformer)
    for start in range(0, len(pending), spec.generate.batch):
        some = pending[start : start + spec.generate.batch]
        images = family.make(
            [row["prompt"] for row in some],
            [row["noise_seed"] for row in some],
            spec.resolution,
            spec.generate.steps,
            spec.generate.guidance,
        )
        for row, image in zip(some, images, strict=True):
            with atomic(args.out.parent / row["path"]) as temporary:
                image.save(temporary)
        progress.update(len(some))
    write_run_record(args.out, spec.model_dump(mode="json"), num_pictures=len(rows), num_prompts=len(prompts))
    write_table(args.out, rows, "pictures")


if __name__ == "__main__":
    run(main)
