"""How far judgements of the same items agree: over orders, repeated, with a second judge, with people.

    python -m workflow_scripts.capeval.reliability --folder results/capeval --out results/reliability.csv \\
        --confusion results/confusion.csv --spec '{"captioners": ["late"], "second_judged": [], "retested": [], ...}'

Files in: --folder/{captioner}/{votes,verdicts}.parquet, second/verdicts.parquet and retest/verdicts.parquet beside
them where the spec says so, and the file of labels. Files out: --out (table `reliability`), --confusion (table
`confusion`). A kind of comparison that the sweep does not have has no row.

Agreement is the share of equal verdicts; kappa is Cohen's (1960), unweighted, over yes, no and not_mentioned.
Intervals: percentiles of a bootstrap that draws images. Votes are compared pair by pair, all pairs pooled.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from workflow_scripts.capeval.benchmark import read_benchmark
from workflow_scripts.capeval.labels import read_labels
from workflow_scripts.capeval.prompt import VERDICTS
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.files import write_run_record
from workflow_scripts.plan import ReliabilityJob
from workflow_scripts.records import read_table, write_table

_KEYS = ["image_id", "item_index"]


def main(argv: list[str] | None = None) -> None:
    """Write both tables."""
    arguments = parser(__doc__)
    arguments.add_argument("--folder", type=Path, required=True, help="folder of the captioners' results on CAPEval")
    arguments.add_argument("--out", type=Path, required=True, help="CSV file of agreement and kappa")
    arguments.add_argument("--confusion", type=Path, required=True, help="CSV file of the counts behind them")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, ReliabilityJob)
    rows, confusion = [], []
    for captioner, kind, pairs in comparisons(job, args.folder):
        counts = confusion_by_image(pairs)
        total = counts.sum(0)
        unjudged = len(pairs) - int(total.sum())
        measured = agreement_kappa(total)
        low, high = kappa_interval(counts, job.resamples, job.confidence, job.seed)
        names = ("agreement", "kappa", "kappa_low", "kappa_high")
        rows.append(
            {"captioner": captioner, "kind": kind, "num_items": int(total.sum()), "num_unjudged": unjudged}
            | dict(zip(names, (*measured.tolist(), low, high), strict=True))
        )
        confusion += [
            {
                "captioner": captioner,
                "kind": kind,
                "verdict": one,
                "other_verdict": other,
                "num_items": int(total[i, j]),
            }
            for (i, one), (j, other) in itertools.product(enumerate(VERDICTS), repeat=2)
        ]
    for path, table, name in ((args.confusion, confusion, "confusion"), (args.out, rows, "reliability")):
        write_run_record(path, job.model_dump(mode="json"), comparisons=len(rows))
        write_table(path, table, name)


def comparisons(job: ReliabilityJob, folder: Path) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """(captioner, kind, pairs): one row of `pairs` a compared item, with columns image_id, verdict, other_verdict."""
    labels = read_labels(job.labels, read_benchmark(job.data.path), job.captioners) if job.labels else None
    for captioner in job.captioners:
        verdicts = read_table(folder / captioner / "verdicts.parquet", "verdicts")
        votes = read_table(folder / captioner / "votes.parquet", "votes")
        ballots = [part for _, part in votes.groupby("vote")]
        if len(ballots) > 1:
            pairs = [paired(one, other) for one, other in itertools.combinations(ballots, 2)]
            yield captioner, "orders", pd.concat(pairs, ignore_index=True)
        for kind, other, wanted in (
            ("retest", "retest", captioner in job.retested),
            ("second_judge", "second", captioner in job.second_judged),
        ):
            if wanted:
                again = read_table(folder / captioner / other / "verdicts.parquet", "verdicts")
                yield captioner, kind, paired(verdicts, again)
        if labels is not None and captioner in set(labels["captioner"]):
            yield captioner, "labels", paired(verdicts, labels[labels["captioner"] == captioner])


def paired(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Items that both tables have, with the verdict of each."""
    columns = [*_KEYS, "verdict"]
    return one[columns].merge(other[columns].rename(columns={"verdict": "other_verdict"}), on=_KEYS)


def confusion_by_image(pairs: pd.DataFrame) -> np.ndarray:
    """(images, 3, 3) counts: [i, a, b] items of image i are VERDICTS[a] in the first and VERDICTS[b] in the second
    judgement. Items without a verdict on either side do not count."""
    judged = pairs[pairs["verdict"].isin(VERDICTS) & pairs["other_verdict"].isin(VERDICTS)]
    images, names = pd.factorize(judged["image_id"])
    counts = np.zeros((len(names), 3, 3), np.int64)
    np.add.at(counts, (images, judged["verdict"].map(VERDICTS.index), judged["other_verdict"].map(VERDICTS.index)), 1)
    return counts


def agreement_kappa(counts: np.ndarray) -> np.ndarray:
    """(..., 3, 3) counts -> (..., 2): agreement and Cohen's kappa; NaN without items, kappa also without variation."""
    counts = np.asarray(counts, np.float64)
    total = counts.sum((-2, -1))
    with np.errstate(invalid="ignore", divide="ignore"):
        agreement = np.trace(counts, axis1=-2, axis2=-1) / total
        chance = (counts.sum(-1) * counts.sum(-2)).sum(-1) / total**2
        return np.stack([agreement, np.where(chance < 1, (agreement - chance) / (1 - chance), np.nan)], axis=-1)


def kappa_interval(counts: np.ndarray, resamples: int, confidence: float, seed: int) -> tuple[float, float]:
    """Percentile interval of kappa from drawing images with replacement; NaN for fewer than two images.

    Draws in which kappa is undefined do not count.
    """
    num_images = len(counts)
    if num_images < 2:
        return np.nan, np.nan
    drawn = np.random.default_rng(seed).multinomial(num_images, np.full(num_images, 1 / num_images), resamples)
    kappas = agreement_kappa((drawn @ counts.reshape(num_images, 9)).reshape(-1, 3, 3))[:, 1]
    kappas = kappas[~np.isnan(kappas)]
    tail = (1 - confidence) / 2
    return tuple(np.quantile(kappas, [tail, 1 - tail]).tolist()) if len(kappas) else (np.nan, np.nan)


if __name__ == "__main__":
    run(main)
