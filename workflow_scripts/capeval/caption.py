"""Caption CAPEval's images with one captioner.

    python -m workflow_scripts.capeval.caption --spec '{"engine": "transformers", ...}' --data assets/CAPEval \\
        --out results/capeval/late/captions.parquet

Files in: the benchmark's folder --data. Files out: --out (table `captions`; image_id is the image's `img_path`).
Unfinished work waits in .partial/<fingerprint>/ beside --out.
"""

import logging
from pathlib import Path

from workflow_scripts import engines
from workflow_scripts.capeval.benchmark import read_benchmark
from workflow_scripts.captions.work import Captioning, count_rows
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.files import fingerprint, sha256_file, write_run_record
from workflow_scripts.plan import CaptionJob
from workflow_scripts.progress import Progress
from workflow_scripts.records import write_table

log = logging.getLogger("capsweep")


def main(argv: list[str] | None = None) -> None:
    """Caption the benchmark's images."""
    arguments = parser(__doc__)
    arguments.add_argument("--data", type=Path, required=True, help="folder of the benchmark")
    arguments.add_argument("--out", type=Path, required=True, help="Parquet file of the captions")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, CaptionJob)
    engines.check(job, args.out.parent.name)
    benchmark = read_benchmark(args.data)
    pictures, contents = benchmark.pictures(), []
    if job.engine != "replay":  # existing captions need no pictures
        benchmark.require_pictures()
        contents = [sha256_file(picture.path) for picture in pictures]
    settings = job.model_dump(mode="json")
    made_from = fingerprint(settings, [picture.image_id for picture in pictures], contents, *engines.inputs(job))
    work = Captioning(job, pictures, args.out.parent / ".partial" / made_from)
    rows = range(len(pictures))
    chunks = work.chunks("captions", rows)
    table = work.complete(chunks, rows, Progress(len(pictures), "images", chunks.num_done()))
    counts = count_rows(table)
    log.info("%s: %s", args.out, ", ".join(f"{key.removeprefix('num_')} {n}" for key, n in counts.items()))
    write_run_record(args.out, settings, **counts, **work.facts)
    write_table(args.out, table, "captions")
    chunks.remove()


if __name__ == "__main__":
    run(main)
