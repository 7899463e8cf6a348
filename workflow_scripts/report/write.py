"""Write the page of a sweep: one HTML file that needs no network and no server.

    python -m workflow_scripts.report.write --spec '{"sweep": "blocks", "analysis": {"pipelines": {...}}}' \\
        --results results/blocks --figures results/blocks/figures --out results/blocks/report.html

Files in: the final tables, summary.json and the figures of a sweep and, unless its scores are published ones, the
captions, verdicts, pictures, loss curves and run records behind them; `--aggregates` as for the regression. File out:
--out.
"""

import functools
from pathlib import Path

import jinja2

from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.files import code_version, write_run_record, write_text
from workflow_scripts.progress import log
from workflow_scripts.report.gather import gather
from workflow_scripts.report.settings import ReportJob
from workflow_scripts.report.sweep import read_sweep
from workflow_scripts.report.text import FILTERS

TEMPLATES = Path(__file__).parent / "templates"


def render(page: dict) -> str:
    """The page as HTML. Every value is escaped: captions are data, whatever they contain."""
    return _environment().get_template("page.html.j2").render(page)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    return environment


def main(argv: list[str] | None = None) -> None:
    """Run the command."""
    arguments = parser(__doc__)
    arguments.add_argument("--results", required=True, type=Path, help="folder of the sweep's results")
    arguments.add_argument("--figures", required=True, type=Path, help="folder of its figures")
    arguments.add_argument("--aggregates", type=Path, help="table `aggregates`: U and G as printed")
    arguments.add_argument("--out", required=True, type=Path, help="HTML file to write")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, ReportJob)
    html = render(gather(read_sweep(job, args.results, args.aggregates), args.figures) | {"code": code_version()})
    write_run_record(args.out, job.model_dump(mode="json"), num_bytes=len(html.encode()))
    write_text(args.out, html)
    log.info("%s: %.1f MB", args.out, len(html.encode()) / 1e6)


if __name__ == "__main__":
    run(main)
