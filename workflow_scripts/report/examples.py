"""Example images: what each captioner says of them, and how the checklist judges it."""

from pathlib import Path
from typing import Any

import pandas as pd

from workflow_scripts.capeval.benchmark import Benchmark, read_benchmark
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_run_record
from workflow_scripts.records import read_table
from workflow_scripts.report.images import picture
from workflow_scripts.report.sweep import Sweep

Data = dict[str, Any]
SIDE = 480  # px
VERDICTS = ("yes", "no", "not_mentioned", "unjudged")


def examples(sweep: Sweep) -> list[Data]:
    """`num_examples` images evenly spaced over CAPEval's order, so that nobody picked them.

    Images whose files are absent are passed over (a captioner of engine replay needs none). Raises UserError where a
    caption or the verdict of an item is missing.
    """
    folder = Path(read_run_record(sweep.capeval_file(sweep.captioners[0], "verdicts.parquet"))["spec"]["data"]["path"])
    benchmark = read_benchmark(folder)
    shown = spread([name for name in benchmark.images.index if _file(folder, name).is_file()], sweep.job.num_examples)
    captions, verdicts = {}, {}
    for captioner in sweep.captioners:
        path = sweep.capeval_file(captioner, "captions.parquet")
        captions[captioner] = read_table(path, "captions").set_index("image_id")
        absent = [name for name in shown if name not in captions[captioner].index]
        if absent:
            raise UserError(f"{path}: no caption of {', '.join(absent)}")
        table = read_table(sweep.capeval_file(captioner, "verdicts.parquet"), "verdicts")
        verdicts[captioner] = table.set_index(["image_id", "item_index"]).verdict
    return [_example(sweep, benchmark, name, captions, verdicts) for name in shown]


def spread(things: list[Any], number: int) -> list[Any]:
    """`number` things (or all, if fewer), evenly spaced, the first among them."""
    number = min(number, len(things))
    return [things[index * len(things) // number] for index in range(number)]


def _example(
    sweep: Sweep, benchmark: Benchmark, image: str, captions: dict[str, pd.DataFrame], verdicts: dict[str, pd.Series]
) -> Data:
    items = benchmark.items[benchmark.items.image_id == image]
    judged = {captioner: _judged(sweep, captioner, found, image, items) for captioner, found in verdicts.items()}
    said = []
    for captioner in sweep.captioners:
        row = captions[captioner].loc[image]
        counts = {verdict: judged[captioner].count(verdict) for verdict in VERDICTS}
        said.append(
            {
                "label": sweep.label(captioner),
                "caption": _known(row.caption),
                "error": _known(row.error),
                "counts": counts,
                "cut": row.finish_reason == "length",
            }
        )
    return {
        "name": image,
        "subcategory": benchmark.images.subcategory[image],
        "picture": picture(_file(benchmark.folder, image), SIDE),
        "captions": said,
        "items": [
            {
                "dimension": item.dimension.replace("_", " "),
                "question": item.question,
                "verdicts": [judged[captioner][place] for captioner in sweep.captioners],
            }
            for place, item in enumerate(items.itertuples())
        ],
    }


def _judged(sweep: Sweep, captioner: str, verdicts: pd.Series, image: str, items: pd.DataFrame) -> list[str]:
    """The verdicts of an image's items in their order."""
    keys = [(image, index) for index in items.item_index]
    missing = [index for _, index in keys if (image, index) not in verdicts.index]
    if missing:
        raise UserError(f"{sweep.capeval_file(captioner, 'verdicts.parquet')}: no verdict on {image}, items {missing}")
    return list(verdicts.loc[keys])


def _known(text: str | float | None) -> str | None:
    """A table's null as None."""
    return None if pd.isna(text) else text


def _file(folder: Path, image: str) -> Path:
    return folder / "image" / image
