"""Stage 2 of a vision-language model: train the aligned model on one captioner's captions and fixed conversations.

    python -m workflow_scripts.vlm.train --spec '{"model": {...}, "stage": {...}, "seed": 0}' \\
        --start results/understanding/clip-llama/seed-0/align/model.json --pool results/pool/images.parquet \\
        --captions results/captions/exact/captions.json \\
        --selection results/selection/intersection/settled/clip-llama.parquet \\
        --kept-selection results/understanding/clip-llama/seed-0/exact/selection.parquet \\
        --conversations results/conversations/mix665k/index.parquet \\
        --out results/understanding/clip-llama/seed-0/exact/model.json \\
        --log-table results/understanding/clip-llama/seed-0/exact/training.csv

In: the aligned model, the pool, the captions, the images that are left out, the conversations stage.data and their
index. Captions are read from their shards one by one.
Out: the manifest of the trained folder (written last), the loss curve, a copy of the selection that it was trained by.
What is left out is counted in the run record. A killed job resumes from its checkpoint.
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
    arguments.add_argument("--selection", type=Path, required=True, help="table of the images that are left out")
    arguments.add_argument("--kept-selection", type=Path, required=True, help="where its copy goes")
    arguments.add_argument("--conversations", type=Path, required=True, help="index of the conversations")
    arguments.add_argument("--out", type=Path, required=True, help="manifest of the trained model")
    arguments.add_argument("--log-table", type=Path, required=True, help="loss curve, CSV or Parquet")
    arguments.add_argument("--loader-workers", type=int, default=0, help="processes a GPU that make batches ahead")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, SftJob)
    check_training("sft", job.stage)

    # Only now: torch and transformers take seconds to import.
    from workflow_scripts.captions.selection import keep_selection, read_selection, selection_facts
    from workflow_scripts.distributed import is_main
    from workflow_scripts.model_folders import manifest_folder
    from workflow_scripts.vlm.conversations import Conversations, find_json
    from workflow_scripts.vlm.data import CaptionSamples, QuestionSamples, Samples
    from workflow_scripts.vlm.stage import Facts, run_stage

    left_out = read_selection(args.selection, args.captions)

    def read_samples() -> tuple[Samples, Facts]:
        captioned = CaptionSamples(args.pool, args.captions, left_out, job.stage.caption_instruction)
        questions = [QuestionSamples(captioned, job.seed)] if job.stage.questions_from_captions else []
        conversations = Conversations(args.conversations, find_json(job.stage.data.path))
        facts = {
            "selection": selection_facts(left_out, len(captioned) + len(left_out)),
            "num_captions": len(captioned),
            "num_questions_from_captions": sum(map(len, questions)),
            **conversations.facts(),
        }
        return Samples(captioned, *questions, conversations), facts

    inputs = [args.start, args.pool, args.captions, sorted(left_out), args.conversations]
    if is_main():
        keep_selection(args.selection, args.kept_selection)
    start = manifest_folder(args.start)
    run_stage(job, start, inputs, read_samples, args.out, args.log_table, args.loader_workers)


if __name__ == "__main__":
    run(main)
