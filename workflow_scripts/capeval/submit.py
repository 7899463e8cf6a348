"""Judge and score captions of CAPEval's images that were made elsewhere.

    python -m workflow_scripts.capeval.submit --captions theirs.json --name theirs --config config.yaml \\
        --out-dir results/submissions/theirs

Files in: --captions, a list of {"image_id", "caption"} (JSON, JSONL, CSV or Parquet; image ids with or without their
suffix), and the config, whose `capeval` says where the benchmark is and who judges. Files out in --out-dir:
captions.parquet, verdicts.parquet, votes.parquet, flagged.csv, scores.csv, and overall C and P on the screen.
"""

import argparse
import json
import logging
from pathlib import Path

from workflow_scripts import plan
from workflow_scripts.capeval import judge, score
from workflow_scripts.capeval.baselines import caption_rows
from workflow_scripts.capeval.benchmark import Benchmark, read_benchmark
from workflow_scripts.captions.files import read_caption_file
from workflow_scripts.captions.match import PictureIndex
from workflow_scripts.command import run
from workflow_scripts.config import load_config
from workflow_scripts.errors import UserError, nearest
from workflow_scripts.files import sha256_file, write_run_record
from workflow_scripts.records import read_table, write_table

log = logging.getLogger("capsweep")


def main(argv: list[str] | None = None) -> None:
    """Read, judge and score a submission."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--captions", type=Path, required=True, help="the submission")
    arguments.add_argument("--name", required=True, help="what tables call it")
    arguments.add_argument("--config", type=Path, default=Path("config.yaml"), help="sweep whose judge is asked")
    arguments.add_argument("--out-dir", type=Path, required=True)
    args = arguments.parse_args(argv)
    config = load_config(args.config)
    if config.capeval is None:
        raise UserError(f"{args.config}: has no section 'capeval', so no judge")
    job, files = plan.judge_job(config), {name: args.out_dir / name for name in ("captions", "verdicts", "votes")}
    paths = {name: str(path.with_suffix(".parquet")) for name, path in files.items()}
    captions = read_submission(args.captions, read_benchmark(job.data.path))
    write_run_record(paths["captions"], {"file": str(args.captions), "sha256": sha256_file(args.captions)})
    write_table(paths["captions"], caption_rows(captions), "captions")
    judge.main(
        [
            *("--spec", plan.as_param(job), "--serving", plan.as_param(plan.serving_job(config.capeval.judge))),
            *("--captions", paths["captions"], "--out", paths["verdicts"], "--votes", paths["votes"]),
            *("--flagged", str(args.out_dir / "flagged.csv")),
        ]
    )
    scored = args.out_dir / "scores.csv"
    spec = plan.as_param(plan.score_captions_job(config, args.name))
    score.main(["--spec", spec, "--verdicts", paths["verdicts"], "--out", str(scored)])
    print(json.dumps(json.loads(read_table(scored, "capeval").iloc[0].to_json()), indent=1))


def read_submission(path: Path, benchmark: Benchmark) -> dict[str, str]:
    """Image -> caption, in the benchmark's order.

    Raises UserError that names every fault: images that the benchmark does not have, that stand twice, that are
    missing.
    """
    pictures = benchmark.pictures()
    index, found, faults = PictureIndex(pictures), {}, []
    for row in read_caption_file(path, "image_id", "caption"):
        matches = index.find(row.key)
        if len(matches) != 1:
            guess = nearest(row.key, benchmark.images.index)
            hint = f", did you mean {guess}?" if guess else ""
            what = "fits several images" if matches else f"is no image of {benchmark.folder}{hint}"
            faults.append(f"{row.place}: {row.key} {what}")
            continue
        image_id = pictures[matches[0]].image_id
        if image_id in found:
            faults.append(f"{row.place}: {image_id} stands twice")
        found.setdefault(image_id, row.caption)
    faults += [f"{image_id} is missing" for image_id in benchmark.images.index if image_id not in found]
    if faults:
        raise UserError(f"{path}: {len(faults)} fault{'s' * (len(faults) > 1)}\n  " + "\n  ".join(faults))
    return {image_id: found[image_id] for image_id in benchmark.images.index}


if __name__ == "__main__":
    run(main)
