"""OCRBench: 1,000 questions on text in images, ten types (Liu et al., 2023).

Files: `data/test-*.parquet` of the hub. An answer is a hit where it contains one of the accepted texts, case and line
breaks apart; for handwritten formulas (HME100k) case counts and spaces do not.
"""

from pathlib import Path

from workflow_scripts.benchmarks.understanding.base import IMAGE, Extracted, Question, Understanding, Variant
from workflow_scripts.benchmarks.understanding.estimates import Estimate, Marks, accuracy
from workflow_scripts.benchmarks.understanding.sources import parquet_rows

_FORMULAS = "Handwritten Mathematical Expression Recognition"


def read(folder: Path) -> list[Question]:
    """The 1,000 questions; `kind` is the type and the source."""
    rows = parquet_rows(folder, "data/test-*.parquet", ("dataset", "question", "question_type", "answer"))
    questions = []
    for number, row in enumerate(rows):
        answers = row["answer"] if isinstance(row["answer"], list) else [row["answer"]]
        kind = f"{row['question_type']}/{row['dataset']}"
        questions.append(Question(str(number), row["question"], row["image"], tuple(answers), kind=kind))
    return questions


def prompt(question: Question) -> str:
    """The question as it is; how long to answer is part of the test."""
    return f"{IMAGE}\n{question.text.strip()}"


def extract(question: Question, raw_answer: str) -> Extracted:
    """The whole answer."""
    return (raw_answer.strip(), "whole") if raw_answer.strip() else (None, None)


def is_hit(question: Question, answer: str) -> bool:
    """Whether an accepted text is a part of the answer."""
    formulas = question.kind.startswith(_FORMULAS)
    return any(_plain(accepted, formulas) in _plain(answer, formulas) for accepted in question.answers)


def hits(marks: Marks) -> Estimate:
    """The number of hits."""
    return accuracy(marks) * 1000


def _plain(text: str, formulas: bool) -> str:
    text = text.strip().replace("\n", " ")
    return text.replace(" ", "") if formulas else text.lower()


_HITS = Variant("hits of 1,000", hits, raw_max=1000.0, chance=0.0)

BENCHMARK = Understanding(
    name="ocrbench",
    title="OCRBench",
    hub="echo840/OCRBench",
    split="test",
    num_items=1000,
    published=_HITS,
    overall=_HITS,
    read=read,
    prompt=prompt,
    extract=extract,
    is_correct=is_hit,
)
