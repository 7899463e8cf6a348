"""Draw the figures of a sweep, each as SVG and PNG.

    python -m workflow_scripts.analysis.plot --spec '{"pipelines": {...}}' --capeval capeval.csv --scores scores.csv \\
        --captioners captioners.csv --regression regression.csv --influence regression_influence.csv --out-dir figures

`--spec` is that of the regression; `--aggregates` as there. Writes into the folder coverage_precision,
partial_regression (U and G of each pipeline), coefficients, leave_one_out, and a partial regression of each composite,
named after it (for example hallucination).
"""

from pathlib import Path

import matplotlib

from workflow_scripts.analysis import figures
from workflow_scripts.analysis.settings import AnalysisJob, figure_names
from workflow_scripts.analysis.tables import read_tables, table_arguments
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.drawing import STYLE, save
from workflow_scripts.files import write_run_record
from workflow_scripts.records import read_table


def main(argv: list[str] | None = None) -> None:
    """Run the command."""
    arguments = parser(__doc__)
    table_arguments(arguments)
    arguments.add_argument("--regression", required=True, type=Path, help="table `regression` to read")
    arguments.add_argument("--influence", required=True, type=Path, help="table `regression_influence` to read")
    arguments.add_argument("--out-dir", required=True, type=Path, help="folder to write the figures into")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, AnalysisJob)

    _, _, design, outcomes = read_tables(job, args.capeval, args.scores, args.captioners, args.aggregates)
    regression = read_table(args.regression, "regression")
    influence = read_table(args.influence, "regression_influence")
    pipelines = [o for o in outcomes if o.kind == "pipeline"]
    composites = [o for o in outcomes if o.kind == "composite"]

    with matplotlib.rc_context(STYLE):
        drawn = {
            "coverage_precision": figures.coverage_precision(design, job.capeval_confidence),
            "partial_regression": figures.partial_regression(design, pipelines, regression, job.confidence),
            "coefficients": figures.coefficients(regression, pipelines + composites, job.confidence),
            "leave_one_out": figures.leave_one_out(
                design, influence, regression, pipelines + composites, job.confidence
            ),
        }
        for composite in composites:
            drawn[composite.name] = figures.partial_regression(design, [composite], regression, job.confidence)
        write_run_record(args.out_dir / "figures", job.model_dump(mode="json"), figures=list(drawn))
        for name in figure_names(job):
            save(drawn[name], args.out_dir / name)


if __name__ == "__main__":
    run(main)
