"""Turn the published tables into the tables of a sweep, so that the analysis runs on real measurements.

    python -m workflow_scripts.analysis.published --spec '{"tables": "resources/published"}' \\
        --captioners captioners.csv --capeval capeval.csv --scores scores.csv

Reads captioners.csv, table3_capeval.csv and table4_benchmarks.csv of the folder. The paper prints no intervals, counts,
seeds or numbers of questions: those columns are empty, and the one run stands as seed 0. U and G as printed
(table4_aggregates.csv) are no benchmark and so not in scores.csv; the regression reads them from their own file.
"""

from pathlib import Path

import pandas as pd

from workflow_scripts.analysis.settings import PublishedTables
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import write_run_record
from workflow_scripts.records import SCHEMAS, write_table

DOMAINS = {"SO": "scene_object", "PA": "people_activity", "TI": "text_interface", "DK": "design_knowledge"}


def captioner_rows(published: pd.DataFrame) -> pd.DataFrame:
    """captioners.csv (captioner, model, family) as table `captioners`."""
    return published.rename(columns={"model": "label"})[["captioner", "family", "label"]]


def capeval_rows(published: pd.DataFrame) -> pd.DataFrame:
    """table3_capeval.csv as table `capeval`: overall and the four domains, percent, without intervals and counts."""
    groups = [("overall", "all", "C", "P")]
    groups += [("domain", code, f"C_{name}", f"P_{name}") for code, name in DOMAINS.items()]
    parts = [
        pd.DataFrame(
            {"captioner": published.captioner, "group_kind": kind, "group": group, "C": published[c], "P": published[p]}
        )
        for kind, group, c, p in groups
    ]
    return pd.concat(parts, ignore_index=True).reindex(columns=SCHEMAS["capeval"].names)


def score_rows(published: pd.DataFrame, captioners: pd.DataFrame) -> pd.DataFrame:
    """table4_benchmarks.csv as table `scores`, with the families of `captioners` joined by name."""
    families = captioners.set_index("captioner").family
    strangers = sorted(set(published.captioner) - set(families.index))
    if strangers:
        raise UserError(f"table4_benchmarks.csv has captioners that captioners.csv lacks: {', '.join(strangers)}")
    rows = published.assign(
        family=published.captioner.map(families),
        seed=0,
        metric="as published",
        raw=published.score,
        harness="published",
        comparable=True,
    )
    return rows.reindex(columns=SCHEMAS["scores"].names)


def main(argv: list[str] | None = None) -> None:
    """Run the command."""
    arguments = parser(__doc__)
    for name in ("captioners", "capeval", "scores"):
        arguments.add_argument(f"--{name}", required=True, type=Path, help=f"table `{name}` to write (CSV)")
    args = arguments.parse_args(argv)
    spec = load_spec(args.spec, PublishedTables)
    captioners = _read(spec.tables / "captioners.csv")
    capeval = capeval_rows(_read(spec.tables / "table3_capeval.csv"))
    scores = score_rows(_read(spec.tables / "table4_benchmarks.csv"), captioners)
    write_run_record(args.scores, spec.model_dump(mode="json"), captioners=len(captioners), scores=len(scores))
    write_table(args.captioners, captioner_rows(captioners), "captioners")
    write_table(args.capeval, capeval, "capeval")
    write_table(args.scores, scores, "scores")


def _read(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise UserError(f"{path}: no such file; published.tables names the folder of the published tables")
    return pd.read_csv(path)


if __name__ == "__main__":
    run(main)
