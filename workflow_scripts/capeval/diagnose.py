"""What each captioner misses or gets wrong, dimension by dimension, against the mean of the sweep, with examples.

    python -m workflow_scripts.capeval.diagnose --folder results/capeval \\
        --spec '{"captioners": ["late", "early"], "data": {"path": "assets/CAPEval"}, "num_examples": 3}'

Files in: --folder/{captioner}/{captions,verdicts}.parquet and the benchmark's folder. Files out:
--folder/{captioner}/diagnosis.csv (table `diagnosis`), the dimension that stands out most first.

`missed` is 100 - C of a dimension, `wrong` is 100 - P, in percent; examples are spread evenly over the checklist's
order, so that nobody picked them.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workflow_scripts.capeval.benchmark import DIMENSIONS, Benchmark, read_benchmark
from workflow_scripts.capeval.score import coverage_precision
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.files import write_run_record
from workflow_scripts.plan import DiagnoseJob
from workflow_scripts.records import read_table, write_table

FAULTS = {"missed": "not_mentioned", "wrong": "no"}
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_WORD = re.compile(r"\w+")
_COMMON = frozenset(
    _WORD.findall(
        "a an and any are as at be been by caption described describe does has have in is it its mention mentioned of "
        "on or that the there this to visible was with"
    )
)


def main(argv: list[str] | None = None) -> None:
    """Write every captioner's diagnosis."""
    arguments = parser(__doc__)
    arguments.add_argument("--folder", type=Path, required=True, help="folder of the captioners' results on CAPEval")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, DiagnoseJob)
    benchmark = read_benchmark(job.data.path)
    verdicts = {name: read_table(args.folder / name / "verdicts.parquet", "verdicts") for name in job.captioners}
    shares = {name: fault_shares(table) for name, table in verdicts.items()}
    means = pd.concat(shares.values()).groupby(level=0).mean()
    for name, table in verdicts.items():
        captions = read_table(args.folder / name / "captions.parquet", "captions").set_index("image_id")["caption"]
        rows = [
            {"captioner": name, **row}
            for row in diagnose(table, captions, benchmark, shares[name], means, job.num_examples)
        ]
        path = args.folder / name / "diagnosis.csv"
        write_run_record(path, job.model_dump(mode="json"), num_rows=len(rows))
        write_table(path, rows, "diagnosis")


def fault_shares(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Percent of faults, columns `missed` and `wrong`, by dimension; NaN where a dimension has nothing to count."""
    counts = pd.crosstab(verdicts["dimension"], verdicts["verdict"])
    counts = counts.reindex(index=list(DIMENSIONS), columns=["yes", "no", "not_mentioned"], fill_value=0)
    return pd.DataFrame(100 - coverage_precision(counts.to_numpy()), counts.index, list(FAULTS))


def diagnose(
    verdicts: pd.DataFrame,
    captions: pd.Series,
    benchmark: Benchmark,
    shares: pd.DataFrame,
    means: pd.DataFrame,
    num_examples: int,
) -> Iterator[dict[str, Any]]:
    """Rows of table `diagnosis` without the captioner: by how far the share is above the mean, examples together."""
    items = verdicts.merge(benchmark.items[["image_id", "item_index", "question"]], on=["image_id", "item_index"])
    ranked = (shares - means).stack().sort_values(ascending=False, kind="stable")
    for dimension, fault in ranked.index:
        faulty = items[(items["dimension"] == dimension) & (items["verdict"] == FAULTS[fault])]
        places = np.unique(np.linspace(0, len(faulty) - 1, min(num_examples, len(faulty))).round().astype(int))
        for number, item in enumerate(faulty.iloc[places].itertuples(), 1):
            yield {
                "dimension": dimension,
                "fault": fault,
                "share": shares.loc[dimension, fault],
                "mean_share": means.loc[dimension, fault],
                "example": number,
                "image_id": item.image_id,
                "item_index": item.item_index,
                "question": item.question,
                "reasoning": None if pd.isna(item.reasoning) else item.reasoning,
                "sentence": nearest_sentence(captions[item.image_id], item.question),
            }


def nearest_sentence(caption: str | None, question: str) -> str | None:
    """The caption's sentence with most of the question's words, the first of equals; None where none has one."""
    if not isinstance(caption, str):
        return None
    wanted = _words(question)
    best = max(_SENTENCE.split(caption.strip()), key=lambda sentence: len(_words(sentence) & wanted))
    return best.strip() if _words(best) & wanted else None


def _words(text: str) -> set[str]:
    return {word.removesuffix("s") for word in _WORD.findall(text.lower())} - _COMMON


if __name__ == "__main__":
    run(main)
