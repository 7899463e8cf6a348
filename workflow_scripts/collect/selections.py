"""Compare the images that each model was trained on with those that the sweep would train it on now.

    python -m workflow_scripts.collect.selections --spec '{"captioners": ["late"], "pipelines": {...}, ...}' \\
        --results results --out results/selection/apart.csv

A captioner that comes later, or is edited, changes the images that every captioner describes usably; models that stand
are not trained again for that. Files in: the sweep's selections and the one kept beside each model. File out: --out
(table `selections_apart`). Too large a difference stops here, with the command that trains those models again.
"""

from pathlib import Path
from typing import Any

from workflow_scripts.captions.selection import left_out
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import write_run_record
from workflow_scripts.plan import CompareSelectionsJob
from workflow_scripts.records import write_table


def main(argv: list[str] | None = None) -> None:
    """Write how far every model's images are from the sweep's."""
    arguments = parser(__doc__)
    arguments.add_argument("--results", type=Path, required=True, help="folder of the sweep's results")
    arguments.add_argument("--out", type=Path, required=True, help="table selections_apart, CSV")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, CompareSelectionsJob)
    rows, far = [], []
    for pipeline, one in job.pipelines.items():
        for captioner in job.captioners:
            now = left_out(args.results / "selection" / one.selection.format(captioner=captioner))
            for seed in job.seeds:
                model = args.results / one.objective / pipeline / f"seed-{seed}" / captioner / "model.json"
                row = compare(left_out(model.with_name("selection.parquet")), now, one.num_images)
                rows.append({"pipeline": pipeline, "seed": seed, "captioner": captioner, **row})
                if row["share_apart"] > job.max_images_apart:
                    far.append((model, rows[-1]))
    if far:
        raise UserError(far_apart(far, job.max_images_apart))
    write_run_record(args.out, job.model_dump(mode="json"))
    write_table(args.out, rows, "selections_apart")


def compare(then: set[str], now: set[str], num_images: int) -> dict[str, Any]:
    """Images that only one of two selections leaves out; a share of those that one of them or both keep."""
    apart, kept = len(then ^ now), num_images - len(then & now)
    return {"num_images": num_images, "num_apart": apart, "share_apart": apart / kept}


def far_apart(models: list[tuple[Path, dict[str, Any]]], limit: float) -> str:
    """The message that names the models and how they are trained again."""
    told = [
        f"{row['captioner']}, {row['pipeline']}, seed {row['seed']}: {row['num_apart']:,} images apart "
        f"({row['share_apart']:.2%})"
        for _, row in models
    ]
    again = " ".join(str(model) for model, _ in models)
    return "\n  ".join(
        [
            f"more of these models' images than captioning.max_images_apart ({limit:.2%}) are not those of the sweep",
            *told,
            f"train them again: repeat your snakemake command with --forcerun {again}",
        ]
    )


if __name__ == "__main__":
    run(main)
