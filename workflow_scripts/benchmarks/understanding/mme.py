"""MME: two yes/no questions an image, one of each answer, in fourteen subtasks (Fu et al., 2023).

Files: `data/test-*.parquet` of the hub. A subtask's score is its accuracy (questions) plus its accuracy+ (images with
both answers right), in percent: 200 each, ten of perception (2000) and four of cognition (800).
"""

from collections.abc import Sequence
from pathlib import Path

from workflow_scripts.benchmarks.understanding.base import Question, Understanding, Variant
from workflow_scripts.benchmarks.understanding.estimates import Estimate, Marks, Measure, accuracy, all_correct
from workflow_scripts.benchmarks.understanding.forms import YES_OR_NO, ask_yes_or_no, read_yes_or_no
from workflow_scripts.benchmarks.understanding.sources import parquet_rows
from workflow_scripts.errors import UserError

PERCEPTION = (
    "existence", "count", "position", "color", "posters", "celebrity", "scene", "landmark", "artwork", "OCR",
)  # fmt: skip
COGNITION = ("commonsense_reasoning", "numerical_calculation", "text_translation", "code_reasoning")


def read(folder: Path) -> list[Question]:
    """The 2,374 questions; `group` joins an image's two. Raises UserError for an image without exactly two."""
    questions: list[Question] = []
    num_asked: dict[str, int] = {}
    for row in parquet_rows(folder, "data/test-*.parquet", ("question_id", "question", "answer", "category")):
        group = f"{row['category']}/{row['question_id']}"
        num_asked[group] = num_asked.get(group, 0) + 1
        key = f"{group}/{num_asked[group]}"
        answer = row["answer"].strip().rstrip(".").lower()
        asked = Question(key, row["question"], row["image"], (answer,), YES_OR_NO, row["category"], group)
        questions.append(asked)
    odd = [group for group, number in num_asked.items() if number != 2]
    if odd:
        raise UserError(f"{folder}: image {odd[0]!r} of MME has {num_asked[odd[0]]} questions, expected 2")
    return questions


def sum_of(subtasks: Sequence[str]) -> Measure:
    """A measure: the sum over subtasks of accuracy and accuracy+, in percent each."""

    def measure(marks: Marks) -> Estimate:
        total = Estimate(0.0, 0.0 * marks.correct)
        for subtask in subtasks:
            total = total + (accuracy(marks, subtask) + all_correct(marks, marks.groups, subtask)) * 100
        return total

    return measure


_SUM = Variant("sum of accuracy and accuracy+", sum_of(PERCEPTION + COGNITION), raw_max=2800.0, chance=37.5)

BENCHMARK = Understanding(
    name="mme",
    title="MME",
    hub="lmms-lab-encoder/MME",
    split="test",
    num_items=2374,
    published=_SUM,
    overall=_SUM,
    others={
        "perception": Variant("sum of perception", sum_of(PERCEPTION), raw_max=2000.0, chance=37.5),
        "cognition": Variant("sum of cognition", sum_of(COGNITION), raw_max=800.0, chance=37.5),
    },
    read=read,
    prompt=ask_yes_or_no,
    extract=read_yes_or_no,
)
