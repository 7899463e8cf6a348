"""What a reader must know before believing a number: faults that were counted on the way."""

from collections.abc import Iterable
from typing import Any

import pandas as pd
from scipy import stats

from workflow_scripts.benchmarks.understanding.harness import ROUNDING
from workflow_scripts.capeval.canaries import EXPECTED_AGREEMENT
from workflow_scripts.captions.read import count_faults
from workflow_scripts.files import read_run_record
from workflow_scripts.records import read_table
from workflow_scripts.report.captions import selection_counts
from workflow_scripts.report.judging import canaries, judge_is_model
from workflow_scripts.report.sweep import Sweep

Data = dict[str, Any]
FAULTS = {
    "failed": "failed",
    "empty": "empty",
    "one_symbol": "of one symbol",
    "repetition": "in endless repetition",
    "refusal": "refused",
    "echo": "echoing the prompt",
    "cut": "cut at the token limit",
}
LARGE_LOSS = 0.1  # of the images, for one captioner's faults alone
CHANCE_LEVEL = 0.05  # one-sided level of the binomial test against chance


def warnings(sweep: Sweep) -> list[Data]:
    """Everything to warn of, as {title, meaning, items}; an empty list where there is nothing."""
    found = [
        _unjudged(sweep),
        _no_intervals(sweep),
        _unparsed(sweep),
        _not_comparable(sweep),
        _harness_differs(sweep),
        _at_chance(sweep),
        _unknown_chance(sweep),
        _constant(sweep),
    ]
    if not sweep.job.published:
        found += [_caption_faults(sweep), _capeval_faults(sweep), _cut_in_training(sweep)]
        found += [_left_out_of_training(sweep), _costly_captioners(sweep), _images_apart(sweep)]
        found += [_conversations_left_out(sweep), _judge_errs(sweep), _talks_to_judge(sweep)]
    return [warning for warning in found if warning["items"]]


def _unjudged(sweep: Sweep) -> Data:
    items = []
    for captioner, row in sweep.capeval.iterrows():
        if row.num_unjudged > 0:
            total = row[["num_yes", "num_no", "num_not_mentioned", "num_unjudged"]].sum()
            items.append(f"{sweep.label(captioner)}: {_share(row.num_unjudged, total)}")
    return _warning("Unjudged checklist items", "They are in neither C nor P.", items)


def _no_intervals(sweep: Sweep) -> Data:
    without = sweep.capeval.index[sweep.capeval[["C_low", "C_high", "P_low", "P_high"]].isna().any(axis=1)]
    items = [", ".join(map(sweep.label, without))] if len(without) else []
    meaning = "The regression takes C and P as exact, and their measurement error cannot be corrected for."
    return _warning("No intervals of C and P", meaning, items)


def _unparsed(sweep: Sweep) -> Data:
    rows = sweep.scores[sweep.scores.num_unparsed > 0]
    items = _by_benchmark(sweep, rows, lambda row: f"{_share(row.num_unparsed, row.num_items)}")
    return _warning("Answers that could not be read", "They count as wrong.", items)


def _not_comparable(sweep: Sweep) -> Data:
    rows = sweep.scores[sweep.scores.comparable == False]  # noqa: E712 (null is not False)
    items = [
        f"{pipeline}, {benchmark}: scored by {harness}"
        for pipeline, benchmark, harness in dict.fromkeys(
            rows[["pipeline", "benchmark", "harness"]].itertuples(index=False, name=None)
        )
    ]
    meaning = "Compare captioners within this sweep by them, not with published scores."
    return _warning("Scores not comparable with published ones", meaning, items)


def _harness_differs(sweep: Sweep) -> Data:
    """Scores by our rules beside lmms-eval's own figure of the same metric, from the same answers."""
    keys = ["captioner", "pipeline", "seed", "benchmark", "metric"]
    rows = sweep.scores.merge(sweep.own_figures[[*keys, "score"]], on=keys, suffixes=("", "_own"))
    rows = rows[(rows.score - rows.score_own).abs() > ROUNDING]
    items = _by_benchmark(sweep, rows, lambda row: f"{row.score:.2f}, lmms-eval {row.score_own:.2f}")
    meaning = "The answers are the same; what is read from them, or what counts as right, is not."
    return _warning("Scores that lmms-eval's own rules give otherwise", meaning, items)


def _at_chance(sweep: Sweep) -> Data:
    """Scores that a guessing model reaches in at least 5 % of runs: normal approximation of the binomial."""
    rows = sweep.scores.dropna(subset=["chance", "num_items"])
    share = rows.chance / 100
    reach = rows.chance + 100 * stats.norm.ppf(1 - CHANCE_LEVEL) * (share * (1 - share) / rows.num_items) ** 0.5
    at_chance = rows[rows.score <= reach]
    items = _by_benchmark(sweep, at_chance, lambda row: f"{row.score:.1f}, chance {row.chance:.1f}")
    meaning = (
        f"Not above guessing at the one-sided {CHANCE_LEVEL:.0%} level (binomial): such scores carry little but noise."
    )
    return _warning("Models at chance level", meaning, items)


def _unknown_chance(sweep: Sweep) -> Data:
    unknown = sweep.scores[["chance", "num_items"]].isna().any(axis=1)
    items = [f"{int(unknown.sum())} of {len(unknown)} scores"] if unknown.any() else []
    meaning = "Whether these models do better than guessing cannot be told."
    return _warning("Chance level or number of questions unknown", meaning, items)


def _constant(sweep: Sweep) -> Data:
    rows = sweep.regression[(sweep.regression.spec == "robust") & sweep.regression.term.isin(["C", "P"])]
    undefined = rows[rows.p_value.isna() & rows.outcome.isin(sweep.declared())]
    items = [f"{row.outcome}: {row.term}" for row in undefined.itertuples()]
    meaning = "The outcome is the same for all captioners, or one captioner alone decides a slope."
    return _warning("Slopes without robust inference", meaning, items)


def _caption_faults(sweep: Sweep) -> Data:
    items = []
    for captioner in sweep.captioners:
        row = read_table(sweep.captions_file(captioner, "statistics.csv"), "caption_statistics").iloc[0]
        items += _faults(sweep.label(captioner), {fault: row[f"num_{fault}"] for fault in FAULTS}, row.num_images)
    return _warning(
        "Captions of the pool",
        "They stay out of training, but for faults that captioning.leave_out does not name.",
        items,
    )


def _capeval_faults(sweep: Sweep) -> Data:
    items = []
    for captioner in sweep.captioners:
        captions = read_table(sweep.capeval_file(captioner, "captions.parquet"), "captions")
        items += _faults(sweep.label(captioner), count_faults(captions), len(captions))
    return _warning(
        "Captions of CAPEval's images",
        "A caption with a fault is judged as it is: an empty one mentions nothing. Without a caption, all is unjudged.",
        items,
    )


def _faults(label: str, counts: dict[str, int], total: int) -> list[str]:
    told = ", ".join(f"{counts[fault]:,} {words}" for fault, words in FAULTS.items() if counts[fault])
    return [f"{label}: {told}, of {total:,}"] if told else []


def _left_out_of_training(sweep: Sweep) -> Data:
    """Images that captions leave out: for everybody, or under `own` each captioner's."""
    counts = selection_counts(sweep)
    if sweep.job.train_on == "own":
        rows = counts[counts.num_own > 0].itertuples()
        items = [f"{row.pipeline}, {sweep.label(row.captioner)}: {_share(row.num_own, row.num_images)}" for row in rows]
        meaning = "Captioners then differ in how many images they are learnt from, not only in what they say of them."
        return _warning("Images left out of training, captioner by captioner", meaning, items)
    items = []
    for pipeline, rows in counts[counts.num_any > 0].groupby("pipeline", sort=False):
        most = rows.sort_values("num_own", ascending=False, kind="stable").iloc[0]
        told = f"{pipeline}: {_share(most.num_any, most.num_images)}"
        items.append(f"{told}, the most of them for {sweep.label(most.captioner)} ({most.num_own:,})")
    meaning = "Some captioner's caption is missing, faulty or too long; no captioner's models are trained on the image."
    return _warning("Images left out of training for all captioners", meaning, items)


def _costly_captioners(sweep: Sweep) -> Data:
    """Captioners that alone cost all others a large share of the images."""
    counts = selection_counts(sweep)
    rows = counts[counts.num_alone > LARGE_LOSS * counts.num_images]
    items = [
        f"{row.pipeline}, {sweep.label(row.captioner)}: {_share(row.num_alone, row.num_images)}"
        for row in rows.itertuples()
        if sweep.job.train_on == "intersection"
    ]
    meaning = (
        "They are left out of everybody's training for this captioner's faults alone; without it they would not be."
    )
    return _warning("A captioner that costs the others many images", meaning, items)


def _images_apart(sweep: Sweep) -> Data:
    table = read_table(sweep.results / "selection/apart.csv", "selections_apart")
    items = [
        f"{row.pipeline}, seed {row.seed}, {sweep.label(row.captioner)}: {row.num_apart:,} ({row.share_apart:.2%})"
        for row in table[table.num_apart > 0].itertuples()
    ]
    meaning = "Captioners came or changed after these models were trained, on images that are not quite the sweep's."
    return _warning("Models trained on other images", meaning, items)


def _cut_in_training(sweep: Sweep) -> Data:
    """What vlm.train counted, by its run records. What text encoders cut stands in a table by captioner and encoder."""
    items = []
    for pipeline in sweep.pipelines("understanding"):
        for seed in sweep.job.analysis.seeds:
            for captioner in sweep.captioners:
                record = read_run_record(sweep.model_folder(pipeline, seed, captioner) / "model.json")
                if number := record["num_cut_samples"]:
                    told = f"{pipeline}, seed {seed}, {sweep.label(captioner)}: {number:,} samples"
                    items.append(f"{told}, {record['num_unlearnt_samples']:,} of them before any answer")
    meaning = "They are longer than max_length; what is beyond it is not learnt, which may be all answers of a sample."
    return _warning("Samples cut in training", meaning, items)


def _conversations_left_out(sweep: Sweep) -> Data:
    """What indexing counted, where faulty_samples is leave_out."""
    items = []
    for name in sweep.job.conversations:
        record = read_run_record(sweep.results / "conversations" / name / "index.parquet")
        told = ", ".join(f"{number:,} {reason.replace('_', ' ')}" for reason, number in record["num_left_out"].items())
        if told:
            items.append(
                f"{name}: {told}, of {record['num_conversations']:,}; all in conversations/{name}/left_out.csv"
            )
    meaning = "No model is trained on them, whoever wrote the captions beside them."
    return _warning("Conversations left out of training", meaning, items)


def _judge_errs(sweep: Sweep) -> Data:
    told = canaries(sweep) if judge_is_model(sweep) else None
    low = told and told["agreeing"] < EXPECTED_AGREEMENT * told["total"]
    items = [f"{told['judge']}: right on {_share(told['agreeing'], told['total'])}"] if low else []
    meaning = f"A judge that knows fewer than {EXPECTED_AGREEMENT:.0%} of these answers is not to be believed."
    return _warning("Questions with known answers", meaning, items)


def _talks_to_judge(sweep: Sweep) -> Data:
    items = []
    for captioner in sweep.captioners:
        flagged = read_table(sweep.capeval_file(captioner, "flagged.csv"), "flagged")
        if len(flagged):
            kinds = ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in flagged.kind.value_counts().items())
            example = f"“{flagged.excerpt.iloc[0]}” ({flagged.image_id.iloc[0]})"
            items.append(
                f"{sweep.label(captioner)}: {flagged.image_id.nunique()} captions ({kinds}), such as {example}"
            )
    meaning = (
        "They were judged like all others, as data. Look at their verdicts, and at the canaries that try the same."
    )
    return _warning("Captions that may be talking to the judge", meaning, items)


def _by_benchmark(sweep: Sweep, rows: pd.DataFrame, tell: Any) -> Iterable[str]:
    """One line a pipeline and benchmark, with its captioners."""
    items = []
    for (pipeline, benchmark), group in rows.groupby(["pipeline", "benchmark"], sort=False):
        seeds = len(sweep.job.analysis.seeds) > 1
        told = [
            f"{sweep.label(row.captioner)}" + f" (seed {row.seed})" * seeds + f" {tell(row)}"
            for row in group.itertuples()
        ]
        items.append(f"{pipeline}, {benchmark}: {'; '.join(told)}")
    return items


def _share(part: float, whole: float) -> str:
    return f"{int(part):,} of {int(whole):,} ({part / whole:.1%})" if whole > 0 else f"{int(part):,}"


def _warning(title: str, meaning: str, items: Iterable[str]) -> Data:
    return {"title": title, "meaning": meaning, "items": list(items)}
