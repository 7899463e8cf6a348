"""Captions that say where C and P can lie: people's own, people's of another image, and one sentence for all.

    python -m workflow_scripts.capeval.baselines --spec '{"data": {"path": "assets/CAPEval"}, "seed": 0}' \\
        --out-dir results/capeval

Files in: the benchmark's folder. Files out: --out-dir/{human,shuffled,template}/captions.parquet (table `captions`).
They are judged and scored like any captioner's, and never enter the regression.
"""

import random
from pathlib import Path

from workflow_scripts.capeval.benchmark import read_benchmark
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_jsonl, write_run_record
from workflow_scripts.plan import BaselinesJob
from workflow_scripts.records import write_table

TEMPLATE = "This is a picture of a scene with several things in it."


def main(argv: list[str] | None = None) -> None:
    """Write the captions of every baseline."""
    arguments = parser(__doc__)
    arguments.add_argument("--out-dir", type=Path, required=True, help="folder of the captioners' results on CAPEval")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, BaselinesJob)
    human = read_human_captions(job.data.path, list(read_benchmark(job.data.path).images.index))
    baselines = {"human": human, "shuffled": shuffled(human, job.seed), "template": dict.fromkeys(human, TEMPLATE)}
    for name, captions in baselines.items():
        path = args.out_dir / name / "captions.parquet"
        write_run_record(path, job.model_dump(mode="json"), num_images=len(captions))
        write_table(path, caption_rows(captions), "captions")


def read_human_captions(folder: Path, image_ids: list[str]) -> dict[str, str]:
    """Image -> gt_caption, in the order of `image_ids`. Raises UserError naming file and image where one is missing."""
    path = folder / "gt_caption.jsonl"
    captions = {row.get("img_path"): row.get("gt_caption") for row in read_jsonl(path)}
    absent = [image_id for image_id in image_ids if not captions.get(image_id)]
    if absent:
        raise UserError(f"{path}: no gt_caption of {len(absent)} images, such as {absent[0]}")
    return {image_id: captions[image_id] for image_id in image_ids}


def shuffled(captions: dict[str, str], seed: int) -> dict[str, str]:
    """Every image with the caption of another one, each caption used once: one cycle through all (Sattolo 1986).

    Raises UserError for a single image.
    """
    if len(captions) < 2:
        raise UserError("captions of other images: the benchmark has one image only")
    numbers, givers = random.Random(seed), list(captions)
    for last in range(len(givers) - 1, 0, -1):
        other = numbers.randrange(last)
        givers[last], givers[other] = givers[other], givers[last]
    return {image_id: captions[giver] for image_id, giver in zip(captions, givers, strict=True)}


def caption_rows(captions: dict[str, str]) -> list[dict]:
    """Rows of table `captions` for captions that nobody generated here."""
    return [
        {
            "image_id": image_id,
            "caption": caption,
            "num_tokens": None,
            "finish_reason": None,
            "num_attempts": 1,
            "error": None if caption.strip() else "empty",
        }
        for image_id, caption in captions.items()
    ]


if __name__ == "__main__":
    run(main)
