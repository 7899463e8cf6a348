"""Regress every outcome of a sweep on coverage and precision, with the sensitivity of what comes out.

    python -m workflow_scripts.analysis.regress --spec '{"pipelines": {...}, "seeds": [0]}' --capeval capeval.csv \\
        --scores scores.csv --captioners captioners.csv --regression regression.csv --models regression_models.csv \\
        --influence regression_influence.csv --sensitivity regression_sensitivity.csv --summary summary.json

Reads the three tables (and `--aggregates`, U and G as printed, where the settings ask for them) and joins them by the
captioners' names. Writes the four tables, and summary.json with the lines that a person wants to know. Nothing is
written unless everything could be computed; a missing score stops it, and all missing ones are named.
"""

import logging
from pathlib import Path

from workflow_scripts.analysis.regression import influence_table, regression_tables
from workflow_scripts.analysis.sensitivity import sensitivity_table
from workflow_scripts.analysis.settings import AnalysisJob
from workflow_scripts.analysis.summary import summary
from workflow_scripts.analysis.tables import read_tables, table_arguments
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.files import write_json, write_run_record
from workflow_scripts.records import write_table

log = logging.getLogger("capsweep")


def main(argv: list[str] | None = None) -> None:
    """Run the command."""
    arguments = parser(__doc__)
    table_arguments(arguments)
    for name in ("regression", "models", "influence", "sensitivity"):
        arguments.add_argument(f"--{name}", required=True, type=Path, help="table to write (CSV)")
    arguments.add_argument("--summary", required=True, type=Path, help="JSON to write")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, AnalysisJob)

    _, _, design, outcomes = read_tables(job, args.capeval, args.scores, args.captioners, args.aggregates)
    log.info("%d captioners of %d families, %d outcomes", len(design), design.family.nunique(), len(outcomes))

    regression, models = regression_tables(job, design, outcomes)
    tables = {
        "regression": (args.regression, regression),
        "regression_models": (args.models, models),
        "regression_influence": (args.influence, influence_table(design, outcomes)),
        "regression_sensitivity": (args.sensitivity, sensitivity_table(job, design, outcomes)),
    }
    told = summary(job, design, outcomes, regression)
    for name, (path, table) in tables.items():
        write_run_record(path, job.model_dump(mode="json"), rows=len(table))
        write_table(path, table, name)
    write_json(args.summary, told)
    for line in told["lines"]:
        log.info("%s", line)


if __name__ == "__main__":
    run(main)
