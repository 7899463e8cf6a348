"""Everything that the page shows, as plain data."""

import re
from pathlib import Path
from typing import Any

from workflow_scripts.analysis.settings import figure_names
from workflow_scripts.report import estimates, scores
from workflow_scripts.report.captions import captions
from workflow_scripts.report.cautions import warnings
from workflow_scripts.report.conditions import what_was_run
from workflow_scripts.report.curves import HEIGHT, WIDTH, training_curves
from workflow_scripts.report.examples import examples
from workflow_scripts.report.images import figure
from workflow_scripts.report.judging import judging
from workflow_scripts.report.pictures import generated
from workflow_scripts.report.provenance import provenance
from workflow_scripts.report.sweep import Sweep

Data = dict[str, Any]


def gather(sweep: Sweep, figures: Path) -> Data:
    """The template's variables. A part that this sweep cannot have is None, and `left_out` says why."""
    job, left_out = sweep.job, []
    page: Data = {
        "sweep": job.sweep,
        "published": job.published,
        "world": job.world,
        "confidence": job.analysis.confidence,
        "capeval_confidence": job.analysis.capeval_confidence,
        "lines": [_headed(line) for line in sweep.summary["lines"]],
        "key": scores.key_table(sweep),
        "tables": scores.score_tables(sweep),
        "categories": scores.category_tables(sweep),
        "caveats": estimates.caveats(sweep),
        "estimates": estimates.estimates(sweep),
        "single_benchmarks": estimates.single_benchmarks(sweep),
        "variants": estimates.named_variants(sweep),
        "ranges": estimates.left_out(sweep),
        "figures": {path.stem: figure(path) for path in _figure_files(sweep, figures)},
        "composites": list(job.analysis.composites),
        "warnings": warnings(sweep),
        "provenance": provenance(sweep),
        "conditions": None,
        "captions": None,
        "judging": None,
        "examples": None,
        "generated": None,
        "curves": None,
        "curve_size": (WIDTH, HEIGHT),
    }
    if job.published:
        left_out.append("Captions, judging, pictures and training: this sweep takes its scores from published tables.")
    else:
        page |= {"conditions": what_was_run(sweep), "captions": captions(sweep), "judging": judging(sweep)}
        page["curves"] = training_curves(sweep)
        if job.num_examples:
            page["examples"] = examples(sweep)
        else:
            left_out.append("Example images: report.num_examples is 0.")
        if not sweep.pipelines("generation"):
            left_out.append("Generated pictures: this sweep has no generation pipeline.")
        elif job.num_prompts:
            page["generated"] = generated(sweep)
        else:
            left_out.append("Generated pictures: report.num_prompts is 0.")
    page["left_out"] = left_out
    return page


def _figure_files(sweep: Sweep, figures: Path) -> list[Path]:
    of_captions = [] if sweep.job.published else ["caption_faults", "caption_lengths"]
    return [figures / f"{name}.svg" for name in (*figure_names(sweep.job.analysis), *of_captions)]


def _headed(line: str) -> tuple[str, str]:
    """A summary line as its head and the rest: `U (understanding), points per point` and what follows the colon."""
    head, _, rest = line.partition(": ")
    rest = rest[:1].upper() + rest[1:]
    return head, re.sub(r"\[[-+.\d]+, [-+.\d]+\]|(?<!\w)[-+]\d[.\d]*", lambda found: _typeset(found[0]), rest)


def _typeset(number: str) -> str:
    """Minus signs as such, and no line break within an interval."""
    return number.replace("-", "−").replace(" ", "\u00a0")
