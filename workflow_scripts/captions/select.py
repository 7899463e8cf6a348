"""Choose the images that models are trained on: those that every captioner describes usably.

    python -m workflow_scripts.captions.select --spec '{"pipelines": {"clip-llama": 1500, "sd3": 1000}, ...}' \\
        --pool results/pool/images.parquet --unusable results/captions/{late,early}/unusable.parquet \\
        --out-dir results/selection/intersection --counts results/selection/intersection/counts.csv

The spec says how many of the pool's first images each pipeline looks at. Files in: --pool and one table `unusable` a
captioner. Files out: --out-dir/<pipeline>.parquet (table `selection`: the images that are left out, and why) and
--counts (table `selection_counts`). A captioner is named by the folder of its table; one table alone gives that
captioner's own selection.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet

from workflow_scripts.captions.read import FAULTS
from workflow_scripts.captions.selection import MADE_FROM, TOO_LONG
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import write_run_record
from workflow_scripts.plan import SelectJob
from workflow_scripts.progress import log
from workflow_scripts.records import read_table, write_table

REASONS = ("failed", *FAULTS, TOO_LONG)


def main(argv: list[str] | None = None) -> None:
    """Write every pipeline's selection and the counts of all."""
    arguments = parser(__doc__)
    arguments.add_argument("--pool", type=Path, required=True, help="images.parquet")
    arguments.add_argument("--unusable", type=Path, nargs="+", required=True, help="a table unusable a captioner")
    arguments.add_argument("--out-dir", type=Path, required=True, help="folder of the tables selection")
    arguments.add_argument("--counts", type=Path, required=True, help="table selection_counts, CSV")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, SelectJob)
    image_ids = pyarrow.parquet.read_table(args.pool, columns=["image_id"])["image_id"].to_pandas()
    tables = {path.parent.name: read_table(path, "unusable") for path in args.unusable}
    made_from = {name: captions_fingerprint(path) for name, path in zip(tables, args.unusable, strict=True)}
    counts, selections = [], {}
    for pipeline, num_images in job.pipelines.items():
        selections[pipeline] = select(pipeline, image_ids[:num_images], tables)
        rows = count(pipeline, num_images, selections[pipeline], list(tables))
        log.info("%s: %d of %d images left out", pipeline, rows[0]["num_any"], num_images)
        if job.trained_on:
            check_some_left(rows)
        counts += rows
    for pipeline, selection in selections.items():
        path = args.out_dir / f"{pipeline}.parquet"
        write_run_record(path, job.model_dump(mode="json"), num_left_out=selection["image_id"].nunique())
        write_table(path, selection, "selection", {MADE_FROM: json.dumps(made_from)})
    write_run_record(args.counts, job.model_dump(mode="json"))
    write_table(args.counts, counts, "selection_counts")


def captions_fingerprint(unusable: Path) -> str:
    """The manifest of captions that a table `unusable` was made from."""
    return pyarrow.parquet.read_schema(unusable).metadata[MADE_FROM.encode()].decode()


def select(pipeline: str, image_ids: pd.Series, tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The rows of table `selection`: a captioner's after the other's, each in the pool's order."""
    considered = pd.Index(image_ids)
    parts = []
    for captioner, table in tables.items():
        holds = table["pipeline"].isna() | (table["pipeline"] == pipeline)
        rows = table[holds & table["image_id"].isin(considered)]
        rows = rows.iloc[considered.get_indexer(rows["image_id"]).argsort()]
        parts.append(rows.assign(captioner=captioner).drop(columns="pipeline"))
    return pd.concat(parts, ignore_index=True)


def count(pipeline: str, num_images: int, selection: pd.DataFrame, captioners: list[str]) -> list[dict[str, Any]]:
    """The rows of table `selection_counts`, one a captioner."""
    num_any = selection["image_id"].nunique()
    alone = ~selection["image_id"].duplicated(keep=False)
    rows = []
    for captioner in captioners:
        own = selection["captioner"] == captioner
        faults = selection["fault"][own].value_counts()
        rows.append(
            {
                "pipeline": pipeline,
                "captioner": captioner,
                "num_images": num_images,
                **{f"num_{reason}": int(faults.get(reason, 0)) for reason in REASONS},
                "num_own": int(own.sum()),
                "num_alone": int((own & alone).sum()),
                "num_any": num_any,
            }
        )
    return rows


def check_some_left(rows: list[dict[str, Any]]) -> None:
    """Raise UserError where no image is left for a pipeline, with each captioner's part."""
    first = rows[0]
    if first["num_any"] < first["num_images"]:
        return
    told = [f"{row['captioner']} costs {row['num_own']:,}, {row['num_alone']:,} of them alone" for row in rows]
    raise UserError(
        f"{first['pipeline']}: none of its {first['num_images']:,} images has a usable caption by every captioner; "
        "take out one or set captioning.train_on to own\n  " + "\n  ".join(told)
    )


if __name__ == "__main__":
    run(main)
