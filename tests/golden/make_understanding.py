"""Make questions and answers on which the understanding benchmarks are compared with other scorers.

    python tests/golden/make_understanding.py --out FOLDER

Writes a folder of each benchmark (workflow_scripts/benchmarks/understanding/make_tiny.py, 180 items) and beside it
`<benchmark>.jsonl`, one {"question_id", "raw_answer"} a line in the order of `read`. Two thirds of the answers are
right; they are worded in the ways that models answer in, among those on which the other scorers agree what was
answered (`UNAMBIGUOUS`). understanding.json holds what those scorers make of them; they are named in the docstring of
workflow_scripts/benchmarks/understanding/__init__.py and were run in a folder of their own.
"""

import argparse
import json
import random
from pathlib import Path

from workflow_scripts.benchmarks.understanding import BENCHMARKS
from workflow_scripts.benchmarks.understanding.base import Question, Understanding, read_questions
from workflow_scripts.benchmarks.understanding.make_tiny import make

ITEMS, SEED = 180, 7
UNAMBIGUOUS = {
    "yes or no": ("{Word}", "{Word}.", "{word}", "{Word}, it is.", "{WORD}", "{Word}\n"),
    "letter": ("{letter}", "{letter}.", "{letter}. {text}", "{letter}\n"),
    "bracketed": ("{letter}", "{letter}.", "({letter})", "The answer is ({letter})"),  # MMMU's authors know no more
    "formula": ("{text}", "The formula is {text}.", "{spaced}"),
    "text": ("{text}", "It says {text}.", "{TEXT}", "The answer is {text}", "{lines}"),
    "open": ("{text}", "The answer is {text}.", "So the result is {text}", "It is {text}"),
    "short": ("{text}", "{text}.", "{TEXT}"),
}
UNREADABLE = {"yes or no": "I cannot tell", "letter": "?"}  # one answer in twenty


def answer_like_a_model(benchmark: Understanding, question: Question, rng: random.Random) -> str:
    """A raw answer, right two times of three."""
    right = rng.random() < 2 / 3
    accepted = rng.choice(question.answers)
    if set(question.options) == {"yes", "no"}:
        if rng.random() < 0.05:
            return UNREADABLE["yes or no"]
        word = accepted if right else {"yes": "no", "no": "yes"}[accepted]
        template = rng.choice(UNAMBIGUOUS["yes or no"])
        return template.format(word=word, Word=word.title(), WORD=word.upper())
    if question.options:
        if rng.random() < 0.05:
            return UNREADABLE["letter"]
        letter = accepted if right else rng.choice([option for option in question.options if option != accepted])
        form = "bracketed" if benchmark.name == "mmmu" else "letter"
        return rng.choice(UNAMBIGUOUS[form]).format(letter=letter, text=question.options[letter])
    text = accepted if right else "nothing of it"
    form = "open" if benchmark.name == "mmmu" else "short" if benchmark.name == "realworldqa" else "text"
    if question.kind.startswith("Handwritten"):
        form = "formula"
    spaced, lines = text.replace(" ", "  "), text.replace(" ", "\n")
    return rng.choice(UNAMBIGUOUS[form]).format(text=text, TEXT=text.upper(), spaced=spaced, lines=lines)


def answers_of(benchmark: Understanding, questions: list[Question]) -> list[str]:
    """A raw answer for every question, the same ones every time."""
    rng = random.Random(f"{SEED} answers {benchmark.name}")
    return [answer_like_a_model(benchmark, question, rng) for question in questions]


def main() -> None:
    """Write the folders and the answers."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, required=True)
    out = arguments.parse_args().out
    for name, folder in make(out, ITEMS, SEED).items():
        questions = read_questions(BENCHMARKS[name], folder)
        with (out / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for question, raw in zip(questions, answers_of(BENCHMARKS[name], questions), strict=True):
                file.write(json.dumps({"question_id": question.id, "raw_answer": raw}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
