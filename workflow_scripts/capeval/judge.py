"""Judge a captioner's captions of CAPEval's images against their checklists.

    python -m workflow_scripts.capeval.judge --captions results/capeval/late/captions.parquet \\
        --out results/capeval/late/verdicts.parquet \\
        --spec '{"judge": {"engine": "exact"}, "data": {"path": "assets/CAPEval"}}'

Files in: --captions and the benchmark's folder. Files out: --out (table `verdicts`), a row for every checklist item.
Unfinished work waits in .partial/<fingerprint>/ beside --out.

An image without a caption has no verdicts: all its items are `unjudged`, and `reasoning` names the captioner's
error. An empty caption is a caption: it mentions nothing, and no judge is asked.
"""

import logging
from pathlib import Path
from typing import Any

import pandas as pd

from workflow_scripts.blocks.judge import judge_item
from workflow_scripts.capeval.benchmark import Benchmark, read_benchmark
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import NotInThisVersion, UserError
from workflow_scripts.files import fingerprint, write_run_record
from workflow_scripts.partial import Chunks
from workflow_scripts.plan import JudgeJob
from workflow_scripts.progress import Progress
from workflow_scripts.records import read_table, write_table

log = logging.getLogger("capsweep")

CHUNK = 100  # images; what a killed job loses at most


def main(argv: list[str] | None = None) -> None:
    """Judge every checklist item."""
    arguments = parser(__doc__)
    arguments.add_argument("--captions", type=Path, required=True, help="captions of the benchmark's images")
    arguments.add_argument("--out", type=Path, required=True, help="Parquet file of the verdicts")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, JudgeJob)
    if job.judge.engine != "exact":
        raise NotInThisVersion(
            f"capeval.judge.engine: {job.judge.engine!r} is not in this version, its judge is 'exact' (blocks world)"
        )
    benchmark = read_benchmark(job.data.path)
    captions = read_captions_of(benchmark, args.captions)
    settings = job.model_dump(mode="json")
    made_from = fingerprint(settings, args.captions, job.data.path / "checklist.jsonl")
    by_image = list(benchmark.items.groupby("image_id", sort=False))
    chunks = Chunks(args.out.parent / ".partial" / made_from, "verdicts", len(by_image), CHUNK, "verdicts")

    def judge(images: range) -> list[dict[str, Any]]:
        parts = by_image[images.start : images.stop]
        return [row for image_id, items in parts for row in judge_image(*captions[image_id], items)]

    table = chunks.complete(judge, Progress(len(by_image), "images", chunks.num_done()))
    counts = pd.Series(table["verdict"].to_pylist()).value_counts().to_dict()
    log.info("%s: %s", args.out, ", ".join(f"{n} {verdict}" for verdict, n in counts.items()))
    write_run_record(args.out, settings, verdicts=counts)
    write_table(args.out, table, "verdicts")
    chunks.remove()


def judge_image(caption: str | None, error: str | None, items: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of table `verdicts` for the items of one image."""
    rows = items.drop(columns="question").to_dict("records")
    if error == "empty":
        given = {"verdict": "not_mentioned", "votes": 0, "reasoning": "empty caption"}
    elif error is not None:
        given = {"verdict": "unjudged", "votes": 0, "reasoning": f"no caption: {error}"}
    else:
        given = {"votes": 1, "reasoning": None}
    for row, question in zip(rows, items["question"], strict=True):
        row |= {"judge": "exact", **given}
        if error is None:
            row["verdict"] = judge_item(caption, question)
    return rows


def read_captions_of(benchmark: Benchmark, path: Path) -> dict[str, tuple[str | None, str | None]]:
    """Image -> (caption, error). Raises UserError where the images of the file are not the benchmark's, once each."""
    table = read_table(path, "captions")
    known, found = set(benchmark.images.index), set(table["image_id"])
    for what, ids in (("lacks", known - found), ("has unknown", found - known)):
        if ids:
            raise UserError(
                f"{path}: {what} {len(ids)} images, such as {min(ids)}; {benchmark.folder} has {len(known)}"
            )
    if len(table) != len(found):
        raise UserError(f"{path}: {len(table) - len(found)} images stand more than once")
    errors = table["error"].astype(object).where(table["error"].notna(), None)
    return dict(zip(table["image_id"], zip(table["caption"], errors, strict=True), strict=True))


if __name__ == "__main__":
    run(main)
