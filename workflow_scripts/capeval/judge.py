"""Judge a captioner's captions of CAPEval's images against their checklists.

    python -m workflow_scripts.capeval.judge --captions results/capeval/late/captions.parquet \\
        --out results/capeval/late/verdicts.parquet --votes results/capeval/late/votes.parquet \\
        --flagged results/capeval/late/flagged.csv \\
        --spec '{"engine": {"engine": "exact", "max_model_len": 32768}, "data": {"path": "assets/CAPEval"}, ...}'

Files in: --captions and the benchmark's folder. Files out: --out (table `verdicts`, a row for every checklist item),
--votes (table `votes`, a row for every item and judgement), --flagged (table `flagged`, captions that talk to the
judge). Unfinished work waits in .partial/<fingerprint>/ beside --out.

An image without a caption has no verdicts: all its items are `unjudged`, and `reasoning` names the captioner's
error. An empty caption is a caption: it mentions nothing, and no judge is asked. A caption with a fault is judged.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from workflow_scripts import engines
from workflow_scripts.capeval.ask import Ballot, judge_ballots, vote_order
from workflow_scripts.capeval.benchmark import Benchmark, read_benchmark
from workflow_scripts.capeval.exact import ExactJudge
from workflow_scripts.capeval.injection import flagged_rows
from workflow_scripts.capeval.votes import settle_votes
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.engines.interface import Engine
from workflow_scripts.errors import UserError
from workflow_scripts.files import fingerprint, write_run_record
from workflow_scripts.partial import Journal
from workflow_scripts.plan import EngineJob, JudgeJob, ServingJob
from workflow_scripts.progress import Progress
from workflow_scripts.records import read_table, write_table

log = logging.getLogger("capsweep")

JOURNAL_ROWS = 500  # judgements; what a killed job loses at most, beside those in flight


def main(argv: list[str] | None = None) -> None:
    """Judge every checklist item."""
    arguments = parser(__doc__)
    arguments.add_argument("--serving", default="{}", help="how the engine runs, as JSON: GPUs, a server's address")
    arguments.add_argument("--captions", type=Path, required=True, help="captions of the benchmark's images")
    arguments.add_argument("--out", type=Path, required=True, help="Parquet file of the verdicts")
    arguments.add_argument("--votes", type=Path, required=True, help="Parquet file of the single judgements")
    arguments.add_argument("--flagged", type=Path, required=True, help="CSV file of captions that talk to the judge")
    args = arguments.parse_args(argv)
    job, serving = load_spec(args.spec, JudgeJob), load_spec(args.serving, ServingJob)
    check_judge(job.engine)
    benchmark = read_benchmark(job.data.path)
    captions = read_captions_of(benchmark, args.captions)
    given = {image_id: verdict for image_id, caption in captions.items() if (verdict := without_judge(*caption))}
    settings = job.model_dump(mode="json")
    made_from = fingerprint(settings, args.captions, job.data.path / "checklist.jsonl", *inputs(job.engine))
    journal = Journal(args.out.parent / ".partial" / made_from, "votes", JOURNAL_ROWS)
    asked = {image_id: caption for image_id, (caption, _) in captions.items() if image_id not in given}
    counts, facts = vote(job, serving, benchmark, asked, journal)
    votes = in_order(journal.read().to_pandas(), benchmark)
    verdicts = settle_votes(benchmark.items, votes, given, judge_name(job.engine))
    flagged = flagged_rows((image_id, caption) for image_id, (caption, _) in captions.items())
    if flagged:
        log.warning(
            "%d captions may be talking to the judge, see %s", len({f["image_id"] for f in flagged}), args.flagged
        )
    tally = verdicts["verdict"].value_counts().to_dict()
    log.info("%s: %s", args.out, ", ".join(f"{n} {verdict}" for verdict, n in tally.items()))
    record = {
        "verdicts": tally,
        "unjudged": unjudged_reasons(verdicts),
        "flags": dict(Counter(row["kind"] for row in flagged)),
        "asked": counts,
        "engine": facts,
    }
    for path, table, name in (
        (args.flagged, flagged, "flagged"),
        (args.votes, votes, "votes"),
        (args.out, verdicts, "verdicts"),
    ):
        write_run_record(path, settings, **record)
        write_table(path, table, name)
    journal.remove()


def vote(
    job: JudgeJob, serving: ServingJob, benchmark: Benchmark, captions: dict[str, str], journal: Journal
) -> tuple[dict[str, int], dict[str, Any]]:
    """Judge the captions' items in every vote, all that the journal does not hold; counts of this run, engine facts."""
    items = {
        image_id: list(zip(part["item_index"], part["question"], strict=True))
        for image_id, part in benchmark.items[benchmark.items["image_id"].isin(captions)].groupby(
            "image_id", sort=False
        )
    }
    done = Counter(journal.read().select(["image_id", "vote"]).to_pandas().itertuples(index=False, name=None))
    left = [
        (image_id, number)
        for image_id in items
        for number in range(job.votes)
        if done[image_id, number] < len(items[image_id])  # a torn ballot is judged anew, its later rows count
    ]
    total = job.votes * sum(map(len, items.values()))
    if not left:
        return {}, {}
    progress = Progress(total, "judgements", total - sum(len(items[image_id]) for image_id, _ in left))

    def ballots() -> Iterator[Ballot]:
        for image_id, number in left:
            ordered = vote_order(items[image_id], image_id, number, job.sampling.seed)
            yield Ballot(image_id, captions[image_id], number, ordered)

    def finish(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            journal.append(row)
        progress.update(len(rows))

    engine = open_judge(job.engine, serving)
    try:
        counts = judge_ballots(job, engine, ballots(), finish)
    finally:
        engine.close()
    journal.flush()
    return counts, engine.facts


def without_judge(caption: str | None, error: str | None) -> tuple[str, str] | None:
    """(verdict, reason) of all items of an image whose caption needs no judge; None where one must be asked."""
    if caption is None:
        return "unjudged", f"no caption: {error}"
    return None if caption.strip() else ("not_mentioned", "empty caption")


def in_order(votes: pd.DataFrame, benchmark: Benchmark) -> pd.DataFrame:
    """Table `votes` by image (in the benchmark's order), vote and position; of a row that stands twice the later."""
    votes = votes.drop_duplicates(["image_id", "vote", "position"], keep="last")
    place = votes["image_id"].map({image_id: place for place, image_id in enumerate(benchmark.images.index)})
    return votes.assign(place=place).sort_values(["place", "vote", "position"], ignore_index=True).drop(columns="place")


def unjudged_reasons(verdicts: pd.DataFrame) -> dict[str, int]:
    """How many items are unjudged for which reason."""
    return verdicts.loc[verdicts["verdict"] == "unjudged", "reasoning"].value_counts().to_dict()


def check_judge(job: EngineJob) -> None:
    """Raise what can be known before any work: an engine without its settings, absent files."""
    if job.engine != "exact":
        engines.check(job, "capeval.judge")


def open_judge(job: EngineJob, serving: ServingJob) -> Engine:
    """The engine of a judge."""
    return ExactJudge() if job.engine == "exact" else engines.open_engine(job, serving, [])


def inputs(job: EngineJob) -> list[str]:
    """Fingerprints of the files that decide verdicts beside captions and checklists."""
    return [] if job.engine == "exact" else engines.inputs(job)


def judge_name(job: EngineJob) -> str:
    """What tables call a judge: its repository or folder, or the server's name of it."""
    if job.model:
        return job.model.hub or job.model.path.name.replace("--", "/")
    return job.server_model or job.engine


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
    columns = (table[name].astype(object).where(table[name].notna(), None) for name in ("caption", "error"))
    return dict(zip(table["image_id"], zip(*columns, strict=True), strict=True))


if __name__ == "__main__":
    run(main)
