"""Stage 1 of a vision-language model: align the parts on conversations that no captioner has touched.

    python -m workflow_scripts.vlm.align --spec '{"model": {...}, "stage": {...}, "seed": 0}' \\
        --conversations results/conversations/llava-558k/index.parquet \\
        --out results/understanding/clip-llama/seed-0/align/model.json \\
        --log-table results/understanding/clip-llama/seed-0/align/training.csv

In: the LLaVA folder model.base, or where there is none the assembled model --start; the conversations stage.data and
their index.
Out: the manifest of the trained folder (written last), the loss curve. A killed job resumes from its checkpoint.
"""

from pathlib import Path

from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.plan import AlignJob
from workflow_scripts.vlm.scale import check_training


def main(argv: list[str] | None = None) -> None:
    """Align one pipeline."""
    arguments = parser(__doc__)
    arguments.add_argument("--start", type=Path, help="manifest of the assembled model, where model.base is not given")
    arguments.add_argument("--conversations", type=Path, required=True, help="index of the conversations")
    arguments.add_argument("--out", type=Path, required=True, help="manifest of the trained model")
    arguments.add_argument("--log-table", type=Path, required=True, help="loss curve, CSV or Parquet")
    arguments.add_argument("--loader-workers", type=int, default=0, help="processes a GPU that make batches ahead")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, AlignJob)
    check_training("align", job.stage)
    if (job.model.base is None) != (args.start is not None):
        raise UserError("--start: give the assembled model where model.base is not given, and only there")

    # Only now: torch and transformers take seconds to import.
    from workflow_scripts.model_folders import folder_fingerprint, local_folder, manifest_folder
    from workflow_scripts.vlm.conversations import Conversations, find_json
    from workflow_scripts.vlm.data import Samples
    from workflow_scripts.vlm.stage import Facts, run_stage

    base = manifest_folder(args.start) if args.start else local_folder(job.model.base)

    def read_samples() -> tuple[Samples, Facts]:
        conversations = Conversations(args.conversations, find_json(job.stage.data.path))
        return Samples(conversations), conversations.facts()

    inputs = [folder_fingerprint(base), args.conversations]
    run_stage(job, base, inputs, read_samples, args.out, args.log_table, args.loader_workers)


if __name__ == "__main__":
    run(main)
