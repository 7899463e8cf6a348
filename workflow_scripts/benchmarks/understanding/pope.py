"""POPE: is this object in the image? COCO objects, three ways of choosing the absent ones (Li et al., EMNLP 2023).

Files: `data/test-*.parquet` of the hub, or the authors' `coco_pope_{random,popular,adversarial}.json` beside `images/`.
The headline is F1 of yes over all 9,000 questions; the share of yes is that of the answers, not of the key. The
authors' script takes every answer without a «no» or «not» in its first sentence for a yes; here what says neither is
counted as unparsed and wrong.
"""

from pathlib import Path

from workflow_scripts.benchmarks.understanding.base import Question, Understanding, Variant
from workflow_scripts.benchmarks.understanding.estimates import Estimate, Marks, accuracy, f1, mean, ratio
from workflow_scripts.benchmarks.understanding.forms import YES_OR_NO, ask_yes_or_no, read_yes_or_no
from workflow_scripts.benchmarks.understanding.sources import image_file, one_file, parquet_rows
from workflow_scripts.files import read_jsonl

SETTINGS = ("random", "popular", "adversarial")


def read(folder: Path) -> list[Question]:
    """The 3 x 3,000 questions; `kind` is the way of choosing absent objects."""
    if any(folder.glob("data/test-*.parquet")):
        rows = parquet_rows(folder, "data/test-*.parquet", ("question_id", "question", "answer", "category"))
        return [_question(r["category"], r["question_id"], r["question"], r["answer"], r["image"]) for r in rows]
    return [
        _question(setting, row["question_id"], row["text"], row["label"], image_file(folder / "images", row["image"]))
        for setting in SETTINGS
        for row in read_jsonl(one_file(folder, f"coco_pope_{setting}.json"))
    ]


def yes_share(marks: Marks) -> Estimate:
    """The share of answers that are yes, of those that could be read."""
    return ratio(marks.says("yes"), marks.says("yes") + marks.says("no"))


def _question(setting: str, number: str | int, text: str, answer: str, image: tuple) -> Question:
    return Question(f"{setting}/{number}", text, image, (answer.strip().lower(),), YES_OR_NO, kind=setting)


_F1 = Variant("F1 of yes", lambda marks: f1(marks, "yes"), chance=50.0)

BENCHMARK = Understanding(
    name="pope",
    title="POPE",
    hub="lmms-lab-encoder/POPE",
    split="test",
    num_items=9000,
    published=_F1,
    overall=_F1,
    others={
        "accuracy": Variant("accuracy", accuracy, chance=50.0),
        "mean_f1": Variant("mean F1 of the three settings", lambda marks: mean([_of(marks, s) for s in SETTINGS])),
        "yes_share": Variant("share of yes among the answers", yes_share),
    },
    read=read,
    prompt=ask_yes_or_no,
    extract=read_yes_or_no,
    hallucination=True,
)


def _of(marks: Marks, setting: str) -> Estimate:
    """F1 of yes in one setting."""
    said, wanted, counted = marks.says("yes"), marks.wants("yes"), marks.of_kind(setting)
    return ratio(2 * said * wanted * counted, (said + wanted) * counted)
