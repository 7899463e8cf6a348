"""HallusionBench: yes/no questions on figures and edited figures (Guan et al., CVPR 2024), the 951 that show an image.

Files: `data/image-*.parquet` of the hub, or the authors' HallusionBench.json beside the folders of its file names.
aAcc counts questions, fAcc figures and qAcc questions over all figures of a set; the last two need every answer of a
group. A category and its subcategory name a group together: `ocr` occurs in both categories. The paper's column fits
qAcc; leaderboards print the mean of the three.
"""

from pathlib import Path
from typing import Any

from workflow_scripts.benchmarks.understanding.base import Question, Understanding, Variant
from workflow_scripts.benchmarks.understanding.estimates import Estimate, Marks, accuracy, all_correct, mean
from workflow_scripts.benchmarks.understanding.forms import YES_OR_NO, ask_yes_or_no, read_yes_or_no
from workflow_scripts.benchmarks.understanding.sources import image_file, parquet_rows, read_json

_COLUMNS = ("category", "subcategory", "set_id", "figure_id", "question_id", "question", "gt_answer")


def read(folder: Path) -> list[Question]:
    """The questions with an image; `group` joins a question's figures, `shared` is the figure."""
    if any(folder.glob("data/image-*.parquet")):
        return [_question(row, row["image"]) for row in parquet_rows(folder, "data/image-*.parquet", _COLUMNS)]
    rows = read_json(folder, "HallusionBench.json")
    return [_question(row, image_file(folder, row["filename"])) for row in rows if row["filename"]]


def question_accuracy(marks: Marks) -> Estimate:
    """qAcc: the share of questions that are right on every figure they are asked about."""
    return all_correct(marks, marks.groups)


def figure_accuracy(marks: Marks) -> Estimate:
    """fAcc: the share of figures about which every question is right."""
    return all_correct(marks, marks.images)


def _mean_of_three(marks: Marks) -> Estimate:
    return mean([accuracy(marks), figure_accuracy(marks), question_accuracy(marks)])


def _question(row: dict[str, Any], image: tuple) -> Question:
    place = f"{row['category']}/{row['subcategory']}/{row['set_id']}"
    return Question(
        id=f"{place}/{row['figure_id']}/{row['question_id']}",
        text=row["question"],
        images=image,
        answers=({"1": "yes", "0": "no"}[str(row["gt_answer"])],),
        options=YES_OR_NO,
        kind=f"{row['category']}/{row['subcategory']}",
        group=f"{place}/question {row['question_id']}",
        shared=f"{place}/figure {row['figure_id']}",
    )


# Chances of the groups: the mean of 2^-size over the 455 questions and the 346 figures of the authors' file.
_Q_ACC = Variant("qAcc", question_accuracy, chance=24.56)

BENCHMARK = Understanding(
    name="hallusionbench",
    title="HallusionBench",
    hub="lmms-lab-encoder/HallusionBench",
    split="image",
    num_items=951,
    published=_Q_ACC,
    overall=Variant("mean of aAcc, fAcc, qAcc", _mean_of_three, chance=31.00),
    others={
        "a_acc": Variant("aAcc", accuracy, chance=50.0),
        "f_acc": Variant("fAcc", figure_accuracy, chance=18.44),
        "q_acc": _Q_ACC,
    },
    read=read,
    prompt=ask_yes_or_no,
    extract=read_yes_or_no,
    hallucination=True,
)
