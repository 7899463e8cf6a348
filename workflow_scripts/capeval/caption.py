"""Caption CAPEval's images with one captioner.

    python -m workflow_scripts.capeval.caption --spec '{"engine": {...}, ...}' --data assets/CAPEval \\
        --out results/capeval/late/captions.parquet

Files in: the benchmark's folder --data. Files out: --out (table `captions`; image_id is the image's `img_path`).
Unfinished work waits in .partial/<fingerprint>/ beside --out.
"""

import logging
from pathlib import Path

import pyarrow as pa

from workflow_scripts import engines
from workflow_scripts.capeval.benchmark import read_benchmark
from workflow_scripts.captions.work import Row, caption_pictures, count_rows, say_counts
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.files import fingerprint, remove_leftovers, sha256_file, write_run_record
from workflow_scripts.plan import CaptionJob, ServingJob
from workflow_scripts.progress import Progress
from workflow_scripts.records import SCHEMAS, write_table

log = logging.getLogger("capsweep")


def main(argv: list[str] | None = None) -> None:
    """Caption the benchmark's images."""
    arguments = parser(__doc__)
    arguments.add_argument("--serving", default="{}", help="how the engine runs, as JSON: GPUs, threads, an address")
    arguments.add_argument("--data", type=Path, required=True, help="folder of the benchmark")
    arguments.add_argument("--out", type=Path, required=True, help="Parquet file of the captions")
    args = arguments.parse_args(argv)
    job, serving = load_spec(args.spec, CaptionJob), load_spec(args.serving, ServingJob)
    engines.check(job.engine, f"captioners.{args.out.parent.name}")
    benchmark = read_benchmark(args.data)
    pictures, contents = benchmark.pictures(), []
    if job.engine.engine != "replay":  # existing captions need no pictures
        benchmark.require_pictures()
        contents = [sha256_file(picture.path) for picture in pictures]
    settings = job.model_dump(mode="json")
    made_from = fingerprint(settings, [picture.image_id for picture in pictures], contents, *engines.inputs(job.engine))
    remove_leftovers(args.out)
    folder, progress = args.out.parent / ".partial" / made_from, Progress(len(pictures), "images")
    rows: dict[int, Row] = {}
    journal, facts = caption_pictures(job, serving, pictures, range(len(pictures)), folder, progress, rows.__setitem__)
    table = pa.Table.from_pylist([rows[number] for number in range(len(pictures))], SCHEMAS["captions"])
    counts = count_rows(table)
    log.info("%s: %s", args.out, say_counts(counts))
    write_run_record(args.out, settings, **counts, **facts)
    write_table(args.out, table, "captions")
    journal.remove()


if __name__ == "__main__":
    run(main)
