"""What a benchmark is: its facts, its questions, how an answer is read, and what is made of all answers.

Each benchmark is a module of this package with one `BENCHMARK`. A question goes through

    prompt(question) -> text for the model; extract(question, raw answer) -> (answer, method); is_correct(...)

and all answers through `score`, which gives one row of table `benchmark_scores` a variant. `published` is the column
as the CAPEval paper (arXiv 2608.02589) seems to have used it, `overall` the benchmark's own headline; `others` are
named figures that go into no mean.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from workflow_scripts.benchmarks.understanding.estimates import Marks, Measure, std_error
from workflow_scripts.benchmarks.understanding.sources import StoredImage
from workflow_scripts.errors import UserError

IMAGE = "<image>"  # where an image stands in a prompt
LETTER = "Answer with the option's letter from the given choices directly."
YES_NO = "Please answer yes or no."


@dataclass(frozen=True)
class Question:
    """One prompt of a benchmark.

    `answers` are the accepted ones: an option's letter, yes or no, or texts. `options` maps letters to texts, empty
    for an open question. `kind` is the category, subcategories after slashes. `group` joins questions that are scored
    together. `shared` names the image for clustering: equal where questions show the same one.
    """

    id: str
    text: str
    images: tuple[StoredImage, ...]
    answers: tuple[str, ...]
    options: dict[str, str] = field(default_factory=dict)
    kind: str = ""
    group: str | None = None
    shared: str | None = None

    @property
    def image_key(self) -> str:
        """What questions that share an image have in common."""
        return self.shared or self.images[0].key


Extracted = tuple[str | None, str | None]  # the answer and the method that found it, both None where nothing did


@dataclass(frozen=True)
class Variant:
    """One figure of a benchmark. `measure` gives the raw figure, `raw_max` of it is 100; `chance` (0-100) is what
    guessing gives on the whole benchmark where that is known without its questions; `only` leaves the kinds that it
    counts, `num_prompts` how many those are (None: all of the benchmark)."""

    metric: str
    measure: Measure
    raw_max: float = 1.0
    chance: float | None = None
    only: str | None = None
    num_prompts: int | None = None


@dataclass(frozen=True)
class Understanding:
    """A benchmark's facts and functions.

    `hub` is the repository on the Hugging Face hub whose files `read` takes (its commit is pinned where it is
    fetched), or the address of the files; `num_items` questions are asked in `num_prompts` prompts. `caution` says
    why a published score cannot be compared with ours even where all questions are answered.
    """

    name: str
    title: str
    hub: str
    split: str
    num_items: int
    published: Variant
    overall: Variant
    read: Callable[[Path], list[Question]]
    prompt: Callable[[Question], str]
    extract: Callable[[Question, str], Extracted]
    others: dict[str, Variant] = field(default_factory=dict)
    num_prompts: int | None = None
    is_correct: Callable[[Question, str], bool] = lambda question, answer: answer in question.answers
    hallucination: bool = False
    caution: str | None = None

    @property
    def variants(self) -> dict[str, Variant]:
        """Every figure by name."""
        return {"published": self.published, "overall": self.overall, **self.others}

    def metrics(self, answers: Sequence[dict[str, Any]]) -> dict[str, float]:
        """The raw figure of every variant, from rows of table `answers`."""
        return {
            name: variant.measure(marks_of(self.name, _counted(answers, variant))).value
            for name, variant in self.variants.items()
        }


def read_questions(benchmark: Understanding, folder: Path) -> list[Question]:
    """All questions of a benchmark in a local folder. Raises UserError naming the folder where there are none, where
    two have one id, or where one has no image or no answer."""
    questions = benchmark.read(folder)
    if not questions:
        raise UserError(f"{folder}: no questions of {benchmark.title}")
    seen = set()
    for question in questions:
        place = f"{folder}: question {question.id!r} of {benchmark.title}"
        if question.id in seen:
            raise UserError(f"{place} occurs more than once")
        seen.add(question.id)
        if not question.images:
            raise UserError(f"{place} has no image")
        if not question.answers or (question.options and question.answers[0] not in question.options):
            raise UserError(f"{place}: the answer {question.answers} is none of {list(question.options)}")
        marks = benchmark.prompt(question).count(IMAGE)
        if marks != len(question.images):
            raise UserError(f"{place}: {marks} places for {len(question.images)} images in its prompt")
    return questions


def answer_row(benchmark: Understanding, question: Question, raw_answer: str) -> dict[str, Any]:
    """A row of table `answers` from what the model wrote."""
    answer, method = benchmark.extract(question, raw_answer)
    expected = question.answers[0] if len(question.answers) == 1 else json.dumps(question.answers, ensure_ascii=False)
    return {
        "benchmark": benchmark.name,
        "question_id": question.id,
        "group": question.group,
        "kind": question.kind,
        "image": question.image_key,
        "raw_answer": raw_answer,
        "answer": answer,
        "extraction": method,
        "expected": expected,
        "correct": answer is not None and benchmark.is_correct(question, answer),
        "guess": 1 / len(question.options) if question.options else 0.0,
    }


def score(benchmark: Understanding, answers: Sequence[dict[str, Any]], harness: str = "capsweep") -> list[dict]:
    """Rows of table `benchmark_scores`, one a variant, from all answers to a benchmark.

    `chance` is what guessing among the options of these very questions gives. `comparable` is false where not the
    whole benchmark was answered or the published figure is of something else. Raises UserError for an answer that is
    missing (a failed request is no wrong answer) or that occurs twice.
    """
    _check(benchmark, answers)
    rows = []
    for name, variant in benchmark.variants.items():
        counted = _counted(answers, variant)
        marks = marks_of(benchmark.name, counted)
        estimate = variant.measure(marks)
        guesses = marks.guessed(np.array([row["guess"] for row in counted], dtype=float))
        scale = 100 / variant.raw_max
        error = std_error(estimate, marks)
        whole = len(counted) == (variant.num_prompts or benchmark.num_prompts or benchmark.num_items)
        rows.append(
            {
                "benchmark": benchmark.name,
                "variant": name,
                "metric": variant.metric,
                "raw": estimate.value,
                "score": scale * estimate.value,
                "std_error": None if error is None else scale * error,
                "chance": scale * variant.measure(guesses).value,
                "num_items": len(counted),
                "num_unparsed": sum(row["answer"] is None for row in counted),
                "harness": harness,
                "comparable": whole and not (name == "published" and benchmark.caution),
            }
        )
    return rows


def marks_of(benchmark: str, answers: Sequence[dict[str, Any]]) -> Marks:
    """Rows of table `answers` by column. An answer without a group is a group of its own."""
    ids = tuple(row["question_id"] for row in answers)
    return Marks(
        benchmark=benchmark,
        ids=ids,
        kinds=tuple(row["kind"] for row in answers),
        groups=tuple(row["group"] if row["group"] is not None else f"question {row['question_id']}" for row in answers),
        images=tuple(row["image"] for row in answers),
        given=tuple(row["answer"] for row in answers),
        expected=tuple(row["expected"] for row in answers),
        correct=np.array([row["correct"] for row in answers], dtype=float),
    )


def listed(options: dict[str, str]) -> str:
    """Options as lines `A. text`."""
    return "\n".join(f"{letter}. {text}" for letter, text in options.items())


def _counted(answers: Sequence[dict[str, Any]], variant: Variant) -> list[dict[str, Any]]:
    return [row for row in answers if variant.only is None or row["kind"].split("/")[0] == variant.only]


def _check(benchmark: Understanding, answers: Sequence[dict[str, Any]]) -> None:
    if not answers:
        raise UserError(f"{benchmark.name}: no answers to score")
    missing = [row["question_id"] for row in answers if row["raw_answer"] is None]
    if missing:
        raise UserError(
            f"{benchmark.name}: {len(missing)} of {len(answers)} questions have no answer ({missing[0]!r} is the "
            "first): a failed request is an error, not a wrong answer; run again, only they are asked"
        )
    ids = [row["question_id"] for row in answers]
    if len(set(ids)) < len(ids):
        repeated = next(i for i in ids if ids.count(i) > 1)
        raise UserError(f"{benchmark.name}: question {repeated!r} is answered more than once")
