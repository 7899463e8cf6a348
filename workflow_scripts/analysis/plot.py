"""Draw the figures of a sweep, each as SVG and PNG.

    python -m workflow_scripts.analysis.plot --spec '{"pipelines": {...}}' --capeval capeval.csv --scores scores.csv \\
        --captioners captioners.csv --regression regression.csv --influence regression_influence.csv --out-dir figures

`--spec` is that of the regression; `--aggregates` as there. Writes into the folder coverage_precision,
partial_regression (U and G of each pipeline), coefficients, leave_one_out, and a partial regression of each composite,
named after it (for example hallucination).
"""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from workflow_scripts.analysis import figures
from workflow_scripts.analysis.outcomes import read_design, read_outcomes
from workflow_scripts.analysis.settings import AnalysisJob, figure_names
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.files import atomic, write_run_record
from workflow_scripts.records import read_table


def main(argv: list[str] | None = None) -> None:
    """Run the command."""
    arguments = parser(__doc__)
    for name in ("capeval", "scores", "captioners"):
        arguments.add_argument(f"--{name}", required=True, type=Path, help=f"table `{name}` to read")
    arguments.add_argument("--aggregates", type=Path, help="table `aggregates` to read: U and G as printed")
    arguments.add_argument("--regression", required=True, type=Path, help="table `regression` to read")
    arguments.add_argument("--influence", required=True, type=Path, help="table `regression_influence` to read")
    arguments.add_argument("--out-dir", required=True, type=Path, help="folder to write the figures into")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, AnalysisJob)

    captioners = read_table(args.captioners, "captioners")
    design = read_design(read_table(args.capeval, "capeval"), captioners, job.capeval_confidence)
    aggregates = read_table(args.aggregates, "aggregates") if args.aggregates else None
    outcomes = read_outcomes(job, design.index, read_table(args.scores, "scores"), aggregates)
    regression = read_table(args.regression, "regression")
    influence = read_table(args.influence, "regression_influence")
    pipelines = [o for o in outcomes if o.kind == "pipeline"]
    composites = [o for o in outcomes if o.kind == "composite"]

    with matplotlib.rc_context(figures.STYLE):
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


def save(figure: Figure, stem: Path) -> None:
    """Write `<stem>.svg` and `<stem>.png`; equal figures give equal files."""
    for suffix, metadata in ((".svg", {"Date": None}), (".png", {})):
        with atomic(stem.with_name(stem.name + suffix)) as temporary:
            figure.savefig(temporary, metadata=metadata)


if __name__ == "__main__":
    run(main)
