"""Draw the figures of all captioners' captions, each as SVG and PNG.

    python -m workflow_scripts.captions.plot --spec '{"captioners": [{"captioner": "late", "family": "LLaVA", ...}]}' \\
        --captions results/captions --out-dir results/figures

Files in: --captions/{captioner}/{statistics,limits,lengths}.csv. Files out, in the folder: caption_faults, and
caption_lengths with the limits of the pipelines that read the captions.
"""

from pathlib import Path

import matplotlib
import pandas as pd

from workflow_scripts.captions import figures
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.drawing import STYLE, save
from workflow_scripts.files import write_run_record
from workflow_scripts.plan import CaptionersJob
from workflow_scripts.records import read_table


def main(argv: list[str] | None = None) -> None:
    """Run the command."""
    arguments = parser(__doc__)
    arguments.add_argument("--captions", required=True, type=Path, help="folder of the captioners' captions")
    arguments.add_argument("--out-dir", required=True, type=Path, help="folder to write the figures into")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, CaptionersJob)
    design = pd.DataFrame(job.captioners).set_index("captioner")

    statistics, limits, lengths = (
        pd.concat([read_table(args.captions / name / f"{table}.csv", f"caption_{table}") for name in design.index])
        for table in ("statistics", "limits", "lengths")
    )
    with matplotlib.rc_context(STYLE):
        drawn = {
            "caption_faults": figures.caption_faults(design, statistics),
            "caption_lengths": figures.caption_lengths(design, lengths, limits),
        }
        write_run_record(args.out_dir / "caption_figures", job.model_dump(mode="json"), figures=list(drawn))
        for name, figure in drawn.items():
            save(figure, args.out_dir / name)


if __name__ == "__main__":
    run(main)
