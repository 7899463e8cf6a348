"""Coverage and precision of one captioner from the verdicts on its captions, with intervals.

    python -m workflow_scripts.capeval.score --verdicts results/capeval/late/verdicts.parquet \\
        --out results/capeval/late/scores.csv --spec '{"captioner": "late", "data": {"path": "assets/CAPEval"}, ...}'

Files in: --verdicts and the benchmark's folder. Files out: --out (table `capeval`): overall, by domain, dimension,
subcategory and tag.

C = 100 (yes + no) / (yes + no + not_mentioned) and P = 100 yes / (yes + no), counts summed over the items of all
images of a group before dividing (the CAPEval paper, arXiv 2608.02589). P is missing where nothing is mentioned, and
unjudged items are in neither. Intervals: percentiles of a bootstrap that draws images, because the items of one
image share its caption.
"""

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from workflow_scripts.capeval.benchmark import DIMENSIONS, Benchmark, read_benchmark, split_tags
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import write_run_record
from workflow_scripts.plan import ScoreCaptionsJob
from workflow_scripts.records import read_table, write_table

log = logging.getLogger("capsweep")

VERDICTS = ("yes", "no", "not_mentioned", "unjudged")
_DRAWS_AT_ONCE = 2_000_000  # image draws held in memory together


def main(argv: list[str] | None = None) -> None:
    """Write the scores of one captioner."""
    arguments = parser(__doc__)
    arguments.add_argument("--verdicts", type=Path, required=True, help="verdicts of one captioner")
    arguments.add_argument("--out", type=Path, required=True, help="CSV file of the scores")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, ScoreCaptionsJob)
    benchmark = read_benchmark(job.data.path)
    verdicts = settle(read_table(args.verdicts, "verdicts"), job.missing_verdict)
    require_items(args.verdicts, verdicts, benchmark)
    unjudged = int((verdicts["verdict"] == "unjudged").sum())
    if unjudged > job.max_unjudged_share * len(verdicts):
        images = verdicts.loc[verdicts["verdict"] == "unjudged", "image_id"].unique()
        raise UserError(
            f"captioner {job.captioner}: {unjudged} of {len(verdicts)} checklist items "
            f"({unjudged / len(verdicts):.1%}) are unjudged, on {len(images)} images such as {images[0]}; "
            f"capeval.max_unjudged_share allows {job.max_unjudged_share:.1%}. "
            f"The column `reasoning` of {args.verdicts} says why"
        )
    scores = score(verdicts, benchmark, job.resamples, job.confidence, job.seed)
    scores.insert(0, "captioner", job.captioner)
    overall = scores.iloc[0]
    log.info("%s: C %.1f, P %.1f, %d unjudged", job.captioner, overall["C"], overall["P"], unjudged)
    write_run_record(args.out, job.model_dump(mode="json"), num_items=len(verdicts), num_unjudged=unjudged)
    write_table(args.out, scores, "capeval")


def settle(verdicts: pd.DataFrame, missing_verdict: str) -> pd.DataFrame:
    """Verdicts with every value one of VERDICTS: one that is none of them was misspelt and counts as unjudged.

    With `missing_verdict` "not_mentioned", as in the published code: a missing or misspelt verdict becomes
    not_mentioned, except on images without any readable verdict, which the published code leaves out of every
    count; they stay unjudged here.
    """
    readable = verdicts["verdict"].isin(VERDICTS[:3])
    misspelt = ~readable & (verdicts["verdict"] != "unjudged")
    if misspelt.any():
        log.warning(
            "%d verdicts are none of %s, such as %r",
            misspelt.sum(),
            ", ".join(VERDICTS),
            verdicts.loc[misspelt, "verdict"].iloc[0],
        )
    settled = verdicts["verdict"].where(readable, "unjudged")
    if missing_verdict == "not_mentioned":
        answered = readable.groupby(verdicts["image_id"]).transform("any")
        settled = settled.where(readable | ~answered, "not_mentioned")
    return verdicts.assign(verdict=settled)


def require_items(path: Path, verdicts: pd.DataFrame, benchmark: Benchmark) -> None:
    """Raise UserError unless every item of the benchmark has one verdict, and nothing else has."""
    keys = ["image_id", "item_index"]
    twice = verdicts.duplicated(keys).sum()
    if twice:
        raise UserError(f"{path}: {twice} checklist items have more than one verdict")
    merged = verdicts[keys].merge(benchmark.items[keys], how="outer", indicator="where")
    for side, what in (("right_only", "lacks verdicts on"), ("left_only", "has verdicts on unknown")):
        odd = merged[merged["where"] == side]
        if len(odd):
            first = odd.iloc[0]
            raise UserError(
                f"{path}: {what} {len(odd)} checklist items, such as item {first['item_index']} of "
                f"{first['image_id']}; {benchmark.folder} has {len(benchmark.items)}"
            )


def score(verdicts: pd.DataFrame, benchmark: Benchmark, resamples: int, confidence: float, seed: int) -> pd.DataFrame:
    """Table `capeval` without the captioner; percent. The first row is `overall`."""
    items = verdicts.join(benchmark.images, on="image_id")
    for verdict in VERDICTS:
        items[verdict] = (items["verdict"] == verdict).astype(np.int64)
    rows = []
    for kind, group, members in _groups(items):
        counts = members.groupby("image_id", sort=True)[list(VERDICTS)].sum().to_numpy()
        numbers = np.random.default_rng(_group_seed(seed, kind, group))
        yes, no, not_mentioned, unjudged = counts.sum(0).tolist()
        intervals = bootstrap(counts[:, :3], resamples, confidence, numbers)
        (c, p), ((c_low, p_low), (c_high, p_high)) = coverage_precision(counts[:, :3].sum(0)), intervals
        rows.append(
            {
                "group_kind": kind,
                "group": group,
                "C": c,
                "C_low": c_low,
                "C_high": c_high,
                "P": p,
                "P_low": p_low,
                "P_high": p_high,
                "num_yes": yes,
                "num_no": no,
                "num_not_mentioned": not_mentioned,
                "num_unjudged": unjudged,
            }
        )
    return pd.DataFrame(rows)


def coverage_precision(counts: np.ndarray) -> np.ndarray:
    """(..., 3) counts of yes, no, not_mentioned -> float64 (..., 2): C and P in percent, NaN where undefined."""
    yes, no, not_mentioned = np.moveaxis(np.asarray(counts, np.float64), -1, 0)
    mentioned = yes + no
    with np.errstate(invalid="ignore"):
        return 100 * np.stack([mentioned / (mentioned + not_mentioned), yes / mentioned], axis=-1)


def bootstrap(counts: np.ndarray, resamples: int, confidence: float, numbers: np.random.Generator) -> np.ndarray:
    """Percentile intervals of C and P from drawing images with replacement: (low, high) x (C, P), percent.

    `counts` is (images, 3) as in `coverage_precision`; images without any judged item are not drawn. NaN for fewer
    than two images. Draws in which P is undefined do not count for P.
    """
    counts = counts[counts.sum(1) > 0]
    if len(counts) < 2:
        return np.full((2, 2), np.nan)
    draws, at_once = [], max(1, _DRAWS_AT_ONCE // len(counts))
    for first in range(0, resamples, at_once):
        shape = (min(at_once, resamples - first), len(counts))
        drawn = numbers.integers(0, len(counts), shape)
        draws.append(np.stack([counts[:, verdict][drawn].sum(1) for verdict in range(3)], axis=-1))
    values = coverage_precision(np.concatenate(draws))
    tail = (1 - confidence) / 2
    return np.stack([_quantiles(values[:, which], [tail, 1 - tail]) for which in range(2)], axis=1)


def _quantiles(values: np.ndarray, shares: list[float]) -> np.ndarray:
    defined = values[~np.isnan(values)]
    return np.quantile(defined, shares) if len(defined) else np.full(len(shares), np.nan)


def _groups(items: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """(kind, group, its items), in the order of table `capeval`; a tag has every item that bears it."""
    yield "overall", "all", items
    order = {"domain": None, "dimension": DIMENSIONS.index, "subcategory": None}
    for kind, key in order.items():
        members = dict(list(items.groupby(kind)))
        for group in sorted(members, key=key):
            yield kind, group, members[group]
    tagged = items.assign(tag=items["tags"].map(split_tags)).explode("tag")
    for tag, members in tagged.groupby("tag", sort=True):
        yield "tag", tag, members


def _group_seed(seed: int, kind: str, group: str) -> int:
    """Every group draws numbers of its own: the same ones for all captioners, and whatever other groups there are."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{kind}:{group}".encode()).digest()[:8], "big")


if __name__ == "__main__":
    run(main)
