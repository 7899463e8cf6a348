"""Ask a trained vision-language model the questions of the understanding benchmarks, and score its answers.

    python -m workflow_scripts.vlm.evaluate --spec '{"model": {...}, "benchmarks": {...}, "max_new_tokens": 8}' \\
        --model results/understanding/clip-llama/seed-0/exact/model.json \\
        --answers results/understanding/clip-llama/seed-0/exact/answers.parquet \\
        --out results/understanding/clip-llama/seed-0/exact/scores.csv

In: the model, and per benchmark a folder with questions.jsonl and images/. A question with options is answered by the
likeliest option, one without by greedy generation. Out: every answer as it was given and as it was read; one score a
benchmark (written last).
"""

from pathlib import Path
from typing import Any

from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_jsonl, write_run_record
from workflow_scripts.plan import EvaluateJob
from workflow_scripts.progress import Progress
from workflow_scripts.records import write_table
from workflow_scripts.vlm.scale import check_evaluation
from workflow_scripts.vlm.scoring import extract, score

_FIELDS = ("id", "image", "question", "options", "answer", "kind", "group")


def read_questions(folder: Path) -> list[dict[str, Any]]:
    """The questions of a benchmark, `image` as the path of a file. Raises UserError naming a line that lacks a field,
    an option list without the answer, or an image that is missing."""
    questions = read_jsonl(folder / "questions.jsonl")
    if not questions:
        raise UserError(f"{folder / 'questions.jsonl'}: no questions")
    for question in questions:
        place = f"{folder / 'questions.jsonl'}: question {question.get('id')!r}"
        lacking = [field for field in _FIELDS if field not in question]
        if lacking:
            raise UserError(f"{place} lacks {', '.join(lacking)}")
        if question["options"] is not None and question["answer"] not in question["options"]:
            raise UserError(f"{place}: the answer {question['answer']!r} is none of {question['options']}")
        question["image"] = folder / "images" / question["image"]
        if not question["image"].is_file():
            raise UserError(f"{place}: no image {question['image']}")
    return questions


def main(argv: list[str] | None = None) -> None:
    """Answer and score every benchmark with one model."""
    arguments = parser(__doc__)
    arguments.add_argument("--model", type=Path, required=True, help="manifest of the trained model")
    arguments.add_argument("--answers", type=Path, required=True, help="every answer, Parquet")
    arguments.add_argument("--out", type=Path, required=True, help="one score a benchmark, CSV")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, EvaluateJob)
    check_evaluation(job.model, job.benchmarks)
    asked = {name: read_questions(source.path) for name, source in job.benchmarks.items()}

    # Only now: torch and transformers take seconds to import.
    from workflow_scripts.model_folders import manifest_folder
    from workflow_scripts.vlm.answering import choose, write_answers
    from workflow_scripts.vlm.batches import Batches
    from workflow_scripts.vlm.model import load

    model, processor = load(manifest_folder(args.model), job.model)
    model.eval()
    batches = Batches(processor, job.model.pad_to_square, model.config.text_config.max_position_embeddings)
    progress = Progress(sum(map(len, asked.values())), "questions")
    answers, scores = [], []
    for name, questions in asked.items():
        free = [question for question in questions if question["options"] is None]
        closed = [question for question in questions if question["options"] is not None]
        texts = write_answers(model, batches, [_asked(q) for q in free], job.max_new_tokens)
        choices = choose(model, batches, [_asked(q) for q in closed], [q["options"] for q in closed])
        rows = [_row(name, q, text, extract(q["kind"], text), "word") for q, text in zip(free, texts, strict=True)]
        for question, choice in zip(closed, choices, strict=True):
            option = question["options"][choice]
            rows.append(_row(name, question, option, option, "likelihood"))
        answers += rows
        scores.append(score(name, rows))
        progress.update(len(questions))
    write_table(args.answers, answers, "answers")
    write_run_record(args.out, job.model_dump(mode="json"), num_questions=len(answers))
    write_table(args.out, scores, "benchmark_scores")


def _asked(question: dict[str, Any]) -> tuple[Path, str]:
    return question["image"], question["question"]


def _row(
    benchmark: str, question: dict[str, Any], raw_answer: str, answer: str | None, extraction: str
) -> dict[str, Any]:
    """A row of the table `answers`."""
    return {
        "benchmark": benchmark,
        "question_id": question["id"],
        "group": question["group"],
        "kind": question["kind"],
        "image": question["image"].name,
        "raw_answer": raw_answer,
        "answer": answer,
        "extraction": extraction if answer is not None else None,
        "expected": question["answer"],
        "correct": answer == question["answer"],
        "guess": None,
    }


if __name__ == "__main__":
    run(main)
