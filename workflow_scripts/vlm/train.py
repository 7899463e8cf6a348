"""Stage 2 of a vision-language model: train the aligned model on one captioner's captions and fixed conversations.

    python -m workflow_scripts.vlm.train --spec '{"model": {...}, "stage": {...}, "seed": 0}' \\
        --start results/understanding/clip-llama/seed-0/align/model.json --pool results/pool/images.parquet \\
        --captions results/captions/exact/captions.json \\
        --conversations results/conversations/mix665k/index.parquet \\
        --out results/understanding/clip-llama/seed-0/exact/model.json \\
        --log-table results/understanding/clip-llama/seed-0/exact/training.csv

In: the aligned model, the pool, the captions, the conversations stage.data and their index.
Out: the manifest of the trained folder (written last), the loss curve. What is left out is counted in the run
record. A killed job resumes from its checkpoint.
"""

from pathlib import Path

from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.plan import SftJob
from workflow_scripts.vlm.scale import check_training


def main(argv: list[str] | None = None) -> None:
    """Train one pipeline on one captioner's captions."""
    arguments = parser(__doc__)
    arguments.add_argument("--start", type=Path, required=True, help="manifest of the aligned model")
    arguments.add_argument("--pool", type=Path, required=True, help="table of the pool's images")
    arguments.add_argument("--captions", type=Path, required=True, help="captions.json of one captioner")
    arguments.add_argument("--conversations", type=Path, required=True, help="index of the conversations")
    arguments.add_argument("--out", type=Path, required=True, help="manifest of the trained model")
    arguments.add_argument("--log-table", type=Path, required=True, help="loss curve, CSV or Parquet")
    arguments.add_argument("--loader-workers", type=int, default=0, help="processes a GPU that make batches ahead")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, SftJob)
    check_training("sft", job.stage)

    # Only now: torch and transformers take seconds to import.
    from workflow_scripts.captions.read import read_captions
    from workflow_scripts.model_folders import manifest_folder
    from workflow_scripts.records import read_table
    from workflow_scripts.vlm.conversations import Conversations, find_json
    from workflow_scripts.vlm.data import HeldSamples, Samples, caption_samples, question_samples
    from workflow_scripts.vlm.stage import CountTokens, Facts, run_stage

    def read_samples(count_tokens: CountTokens) -> tuple[Samples, Facts]:
        captioned, left_out = caption_samples(
            read_table(args.pool, "images"),
            read_captions(args.captions),
            job.stage.caption_instruction,
            count_tokens,
            job.stage.max_caption_tokens,
        )
        questions = question_samples(captioned, job.seed) if job.stage.questions_from_captions else []
        conversations = Conversations(args.conversations, find_json(job.stage.data.path))
        facts = {
            "num_captions": len(captioned),
            "num_captions_left_out": dict(left_out),
            "num_questions_from_captions": len(questions),
            **conversations.facts(),
        }
        return Samples(HeldSamples(captioned), HeldSamples(questions), conversations), facts

    inputs = [args.start, args.pool, args.captions, args.conversations]
    start = manifest_folder(args.start)
    run_stage(job, start, inputs, read_samples, args.out, args.log_table, args.loader_workers)


if __name__ == "__main__":
    run(main)
