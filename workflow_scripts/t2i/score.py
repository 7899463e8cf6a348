"""Score one benchmark's generated pictures.

    python -m workflow_scripts.t2i.score --spec '{"name": "blocks_geneval", "benchmark": {...}}' \
        --pictures results/blocks/generation/sd3/seed-0/late/blocks_geneval/pictures.parquet \
        --out .../scores.csv --per-picture .../picture_scores.parquet

Files in: the table of pictures, their PNGs, the benchmark's prompts.jsonl. Files out: --per-picture (table
`picture_scores`: one row a picture, with what is wrong with it) and --out (table `benchmark_scores`: one row, G's
share of this benchmark; `num_items` counts pictures), written last.

The blocks world's pictures are read by its exact detector and scored by the real benchmarks' rules.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from workflow_scripts.benchmarks import GENERATION
from workflow_scripts.blocks.scoring import PictureScore, overall, score_picture
from workflow_scripts.blocks.world import detect
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import write_run_record
from workflow_scripts.plan import ScoreImagesJob
from workflow_scripts.records import read_table, write_table
from workflow_scripts.t2i.generate import check_benchmark, read_prompts


def _score(name: str, pictures: pd.DataFrame, prompts: dict[str, dict[str, Any]], folder: Path) -> list[PictureScore]:
    """Each picture's score. Raises UserError where a picture cannot be read or its prompt is another one now."""
    scores = []
    for picture in pictures.itertuples():
        row = prompts.get(picture.prompt_id, {})
        now = row.get("prompt")
        if now != picture.prompt:
            raise UserError(f"{name}: prompt {picture.prompt_id} is {now!r}, the picture's was {picture.prompt!r}")
        try:
            with Image.open(folder / picture.path) as image:
                pixels = np.asarray(image.convert("RGB"))
        except (OSError, SyntaxError) as error:
            raise UserError(f"{folder / picture.path}: not a readable picture ({error})") from None
        scores.append(score_picture(name, row, detect(pixels)))
    return scores


def main(argv: list[str] | None = None) -> None:
    """Score every picture and the benchmark."""
    arguments = parser(__doc__)
    arguments.add_argument("--pictures", type=Path, required=True, help="the table of pictures")
    arguments.add_argument("--out", type=Path, required=True, help="the table of scores")
    arguments.add_argument("--per-picture", type=Path, required=True, help="the table of every picture's score")
    args = arguments.parse_args(argv)
    spec = load_spec(args.spec, ScoreImagesJob)
    check_benchmark(spec.name)
    prompts = read_prompts(spec.benchmark)
    pictures = read_table(args.pictures, "pictures")
    expected = len(prompts) * spec.benchmark.images_per_prompt
    if len(pictures) != expected:
        raise UserError(f"{args.pictures}: {len(pictures)} pictures, expected {expected}")
    scores = _score(spec.name, pictures, prompts, args.pictures.parent)
    per_picture = pictures[["benchmark", "prompt_id", "index"]].assign(
        category=[s.category for s in scores], score=[s.score for s in scores], reason=[s.reason for s in scores]
    )
    benchmark, score = GENERATION[spec.name], overall(scores)
    row = {
        "benchmark": spec.name,
        "variant": None,
        "metric": benchmark.metric,
        "raw": score / 100 * benchmark.raw_max,
        "score": score,
        "std_error": None,
        "chance": benchmark.chance,
        "num_items": len(scores),
        "num_unparsed": 0,
        "harness": "blocks: exact detector",
        "comparable": True,
    }
    write_table(args.per_picture, per_picture, "picture_scores")
    write_run_record(args.out, spec.model_dump(mode="json"), num_pictures=len(scores), num_prompts=len(prompts))
    write_table(args.out, [row], "benchmark_scores")


if __name__ == "__main__":
    run(main)
