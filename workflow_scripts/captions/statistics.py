"""Measure a captioner's captions: faults, lengths, repetition, distinct words, how many are too long for whom, and
which stay out of training.

    python -m workflow_scripts.captions.statistics --spec '{"captioner": "late", "pipelines": {"sd3": {...}}}' \\
        --captions results/captions/late/captions.json --threads 16 --out results/captions/late/statistics.csv \\
        --limits results/captions/late/limits.csv --lengths results/captions/late/lengths.csv \\
        --unusable results/captions/late/unusable.parquet

Files in: the manifest of captions, its shards, and the tokenizers of the pipelines' models. Files out: --out (table
`caption_statistics`, one row), --limits (table `caption_limits`), --lengths (table `caption_lengths`) and --unusable
(table `unusable`). Shards are read batch by batch by --threads processes, and what they count is small: memory does not
grow with the captions, but for 8 bytes a distinct word.
"""

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet

from workflow_scripts.captions.degenerate import repetition
from workflow_scripts.captions.encoders import Encoder, read_encoders, token_counts
from workflow_scripts.captions.read import FAULTS, count_faults, shard_paths, training_faults
from workflow_scripts.captions.selection import MADE_FROM, TOO_LONG
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.files import fingerprint, read_json, write_run_record
from workflow_scripts.plan import CaptionStatisticsJob
from workflow_scripts.progress import Progress
from workflow_scripts.records import growing_table, write_table
from workflow_scripts.workers import workers

BATCH = 500  # captions in memory at once, a process; their encoded tokens take more room than their text
BINS_PER_OCTAVE = 16
PUNCTUATION = ".,;:!?\"'()[]{}*`…“”‘’—–-"

Row = dict[str, Any]


@dataclass
class Counts:
    """What is counted of some captions. A histogram holds at place n how many usable captions are n long."""

    kinds: Counter = field(default_factory=Counter)  # images, usable, asked_again, at_limit, failed and the faults
    words: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    tokens: np.ndarray = field(default_factory=lambda: np.zeros(0, int))  # the captioner's own
    encoders: list[np.ndarray] = field(default_factory=list)
    repetition: float = 0.0  # sum over usable captions
    distinct: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))  # hashes of distinct words, sorted

    def __add__(self, other: "Counts") -> "Counts":
        pairs = zip(self.encoders, other.encoders, strict=True) if self.encoders else ()
        return Counts(
            self.kinds + other.kinds,
            _add(self.words, other.words),
            _add(self.tokens, other.tokens),
            [_add(*pair) for pair in pairs] or other.encoders,
            self.repetition + other.repetition,
            np.union1d(self.distinct, other.distinct),
        )


def main(argv: list[str] | None = None) -> None:
    """Write the tables of one captioner."""
    arguments = parser(__doc__)
    arguments.add_argument("--captions", type=Path, required=True, help="manifest of the captions")
    arguments.add_argument("--threads", type=int, default=1, help="processes")
    arguments.add_argument("--out", type=Path, required=True, help="table caption_statistics")
    arguments.add_argument("--limits", type=Path, required=True, help="table caption_limits")
    arguments.add_argument("--lengths", type=Path, required=True, help="table caption_lengths")
    arguments.add_argument("--unusable", type=Path, required=True, help="table unusable, Parquet")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, CaptionStatisticsJob)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes share the work

    manifest = read_json(args.captions)
    progress = Progress(sum(shard["rows"] for shard in manifest["shards"]), "captions")
    counts, made_from = Counts(), {MADE_FROM: fingerprint(args.captions)}
    with workers(args.threads) as map_over, growing_table(args.unusable, "unusable", made_from) as add_unusable:
        count = partial(count_shard, job.model_dump_json(), manifest["leave_out"])
        for counted, unusable in map_over(count, shard_paths(args.captions)):
            counts += counted
            add_unusable(unusable)
            progress.update(counted.kinds["images"])
    statistics = statistics_row(job.captioner, counts)
    encoders = _encoders(job.model_dump_json())
    tables = {
        "caption_limits": (args.limits, limit_rows(job.captioner, encoders, counts)),
        "caption_lengths": (args.lengths, length_rows(job.captioner, encoders, counts)),
        "caption_statistics": (args.out, [statistics]),
    }
    for name, (path, rows) in tables.items():
        write_run_record(path, job.model_dump(mode="json"))
        write_table(path, rows, name)


@cache
def _encoders(spec: str) -> list[Encoder]:
    """The encoders of a job, read once a process."""
    return read_encoders(load_spec(spec, CaptionStatisticsJob).pipelines)


def count_shard(spec: str, leave_out: list[str], path: Path) -> tuple[Counts, list[Row]]:
    """What is counted of one shard, for the job with the settings `spec`, and its rows of table `unusable`."""
    counts, unusable = Counts(), []
    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(BATCH):
        counted, rows = count_captions(batch.to_pandas(), leave_out, _encoders(spec))
        counts += counted
        unusable += rows
    return counts, unusable


def count_captions(captions: pd.DataFrame, leave_out: list[str], encoders: list[Encoder]) -> tuple[Counts, list[Row]]:
    """The same of some rows of table `captions`; words are split at spaces, upper case is lower case, and for distinct
    words the punctuation around them is left out."""
    faults = training_faults(captions, leave_out)
    usable = captions[faults.isna()]
    kinds = count_faults(captions) + Counter(
        images=len(captions),
        usable=len(usable),
        asked_again=int((captions["num_attempts"] > 1).sum()),
        at_limit=int((captions["finish_reason"] == "length").sum()),
    )
    texts = [caption.strip() for caption in usable["caption"]]
    lengths = token_counts(encoders, texts)
    unusable: list[Row] = [
        {"image_id": image_id, "pipeline": None, "fault": fault}
        for image_id, fault in zip(captions["image_id"], faults, strict=True)
        if not pd.isna(fault)
    ]
    for encoder, lengths_of_one in zip(encoders, lengths, strict=True):
        if encoder.leaves_out:
            too_long = usable["image_id"][lengths_of_one > encoder.limit]
            unusable += [{"image_id": image, "pipeline": encoder.pipeline, "fault": TOO_LONG} for image in too_long]
    words = [text.lower().split() for text in texts]
    counts = Counts(
        kinds,
        np.bincount(list(map(len, words))) if words else np.zeros(0, int),
        np.bincount(usable["num_tokens"].dropna().astype(int)),
        [np.bincount(lengths_of_one) for lengths_of_one in lengths],
        sum(map(repetition, words)),
        _hashes({word.strip(PUNCTUATION) for word in set().union(*words)} - {""}),
    )
    return counts, unusable


def _hashes(words: Iterable[str]) -> np.ndarray:
    """Distinct 64-bit hashes, sorted: of 10 million words, 2 share one with a probability of 3 in a million."""
    return np.unique(pd.util.hash_array(np.array(list(words), dtype=object)))


def _add(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The sum of two histograms."""
    total = np.zeros(max(len(one), len(other)), int)
    total[: len(one)] += one
    total[: len(other)] += other
    return total


def mean(histogram: np.ndarray) -> float | None:
    """The mean length; None of no captions."""
    return float(np.average(np.arange(len(histogram)), weights=histogram)) if histogram.sum() else None


def quantile(histogram: np.ndarray, share: float) -> float | None:
    """The length below which `share` of the captions lie, exact, between two lengths as numpy does; None of none."""
    if not histogram.sum():
        return None
    place = share * (histogram.sum() - 1)
    below, above = np.searchsorted(histogram.cumsum(), [np.floor(place), np.ceil(place)], side="right")
    return float(below + (place - np.floor(place)) * (above - below))


def statistics_row(captioner: str, counts: Counts) -> Row:
    """The row of table `caption_statistics`."""
    kinds = counts.kinds
    row: Row = {"captioner": captioner}
    row |= {f"num_{kind}": kinds[kind] for kind in ("images", "usable", "asked_again", *FAULTS, "failed")}
    row["share_at_limit"] = kinds["at_limit"] / kinds["images"]
    for name, histogram in (("words", counts.words), ("tokens", counts.tokens)):
        row |= {
            f"{name}_mean": mean(histogram),
            f"{name}_p50": quantile(histogram, 0.5),
            f"{name}_p95": quantile(histogram, 0.95),
            f"{name}_max": len(histogram) - 1 if len(histogram) else None,
        }
    row["distinct_words"] = len(counts.distinct)
    row["repetition"] = counts.repetition / kinds["usable"] if kinds["usable"] else None
    return row


def limit_rows(captioner: str, encoders: list[Encoder], counts: Counts) -> list[Row]:
    """The rows of table `caption_limits`."""
    rows = []
    for encoder, histogram in zip(encoders, counts.encoders, strict=True):
        total, over = int(histogram.sum()), int(histogram[encoder.limit + 1 :].sum())
        rows.append(
            {
                "captioner": captioner,
                "pipeline": encoder.pipeline,
                "encoder": encoder.name,
                "limit": encoder.limit,
                "num_captions": total,
                "num_over": over,
                "share_over": over / total if total else None,
            }
        )
    return rows


def length_rows(captioner: str, encoders: list[Encoder], counts: Counts) -> list[Row]:
    """The rows of table `caption_lengths`, empty bins left out: single tokens first, then a sixteenth of an octave."""
    named = [(encoder.pipeline, encoder.name) for encoder in encoders]
    histograms = [((None, "own"), counts.tokens), *zip(named, counts.encoders, strict=True)]
    rows = []
    for (pipeline, name), histogram in histograms:
        edges = bin_edges(len(histogram))
        for low, high in pairwise(edges):
            if number := int(histogram[low:high].sum()):
                row = {"pipeline": pipeline, "encoder": name, "low": low, "high": high, "num_captions": number}
                rows.append({"captioner": captioner, **row})
    return rows


def bin_edges(stop: int) -> list[int]:
    """The edges of bins for lengths of 0 to below `stop`: one length a bin up to twice BINS_PER_OCTAVE, then
    BINS_PER_OCTAVE bins of equal width from each power of two to the next."""
    edges, width = [0], 1
    while edges[-1] < stop:
        if edges[-1] == 2 * width * BINS_PER_OCTAVE:
            width *= 2
        edges.append(edges[-1] + width)
    return edges


if __name__ == "__main__":
    run(main)
