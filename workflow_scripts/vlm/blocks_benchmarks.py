"""The understanding benchmarks of the blocks world, answered in this process.

A question with options is answered by the likeliest option, one without by greedy generation.
"""

from pathlib import Path
from typing import Any

from workflow_scripts.errors import UserError
from workflow_scripts.files import read_jsonl
from workflow_scripts.spec import VlmModel
from workflow_scripts.vlm.scoring import Answer, extract

_FIELDS = ("id", "image", "question", "options", "answer", "kind", "group")

BlocksQuestion = dict[str, Any]


def read_questions(folder: Path) -> list[BlocksQuestion]:
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


def answer(
    folder: Path, settings: VlmModel, asked: dict[str, list[BlocksQuestion]], max_new_tokens: int
) -> dict[str, list[Answer]]:
    """Rows of table `answers` by benchmark, from the model in a folder."""
    # Only now: torch and transformers take seconds to import.
    from workflow_scripts.vlm.answering import choose, write_answers
    from workflow_scripts.vlm.batches import Batches
    from workflow_scripts.vlm.model import load

    model, processor = load(folder, settings)
    model.eval()
    batches = Batches(processor, model.config.text_config.max_position_embeddings)
    found = {}
    for name, questions in asked.items():
        free = [question for question in questions if question["options"] is None]
        closed = [question for question in questions if question["options"] is not None]
        texts = write_answers(model, batches, [_asked(q) for q in free], max_new_tokens)
        choices = choose(model, batches, [_asked(q) for q in closed], [q["options"] for q in closed])
        rows = [_row(name, q, text, extract(q["kind"], text), "word") for q, text in zip(free, texts, strict=True)]
        for question, choice in zip(closed, choices, strict=True):
            option = question["options"][choice]
            rows.append(_row(name, question, option, option, "likelihood"))
        found[name] = rows
    return found


def _asked(question: BlocksQuestion) -> tuple[Path, str]:
    return question["image"], question["question"]


def _row(benchmark: str, question: BlocksQuestion, raw_answer: str, answer: str | None, extraction: str) -> Answer:
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
