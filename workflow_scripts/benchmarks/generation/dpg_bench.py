"""DPG-Bench: long prompts, each with a graph of yes/no questions (Hu et al., ELLA, 2024).

Files: `prompts/<item>.txt`, and `dpg_bench.csv` with the questions. The authors' scorer reads one picture `<item>.png`
an item: four pictures as tiles, top left, top right, bottom left, bottom right.

A question whose parent counts 0 counts 0 as well. A picture's score is the mean over its questions; the benchmark's,
the mean over pictures. Faults of the authors' scorer, which `fixed` mends:
- the table's first question is not read: where it is a parent, its item is dropped; where it stands alone, as well;
- an item's rows that do not stand together: only the last block counts, and of a question that occurs twice the last;
- the zero of a parent reaches a child only if the parent stands earlier in the table;
- the categories' figures take the last tile alone.
A run of several processes mixes the categories' figures; `official` is what a single process gives.
"""

import csv
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from workflow_scripts.benchmarks.generation.base import (
    Generation,
    Mode,
    Models,
    OfficialFile,
    Picture,
    PictureScore,
    Prompt,
    Scorer,
)
from workflow_scripts.errors import UserError

log = logging.getLogger("capsweep")

COLUMNS = ("item_id", "proposition_id", "dependency", "tuple", "question_natural_language")
QUESTIONS = "dpg_bench.csv"
NO_PARENT = 0
TILES = 4


class MissingParent(UserError):
    """A question depends on one that its item does not have."""


@dataclass(frozen=True)
class Question:
    """A yes/no question about a picture. `category` is the finer one, such as `attribute - color`."""

    id: int
    parents: tuple[int, ...]
    text: str
    category: str

    @property
    def broad_category(self) -> str:
        """The category before the dash."""
        return self.category.split("-")[0].strip()


def read(folder: Path) -> list[Prompt]:
    """The prompts, by number where their names are numbers; the id is the file's name. The questions are read apart,
    by `read_questions`."""
    paths = sorted((folder / "prompts").glob("*.txt"), key=lambda path: (not path.stem.isdigit(), path.stem.zfill(20)))
    return [Prompt(path.stem, path.read_text(encoding="utf-8").strip(), "dpg") for path in paths]


def files(prompts: Sequence[Prompt], images_per_prompt: int) -> list[OfficialFile]:
    """One file an item, up to four pictures as its tiles. Raises UserError for more."""
    if images_per_prompt > TILES:
        raise UserError(
            f"dpg_bench: {images_per_prompt} pictures a prompt, but the official layout has {TILES} tiles, so at most "
            f"{TILES}"
        )
    indexes = tuple(range(images_per_prompt))
    return [OfficialFile(PurePosixPath(f"{prompt.id}.png"), prompt.id, indexes) for prompt in prompts]


def tiled(pictures: Sequence[Image.Image]) -> Image.Image:
    """Up to four square pictures of one size as a 2 x 2 grid, row by row; one alone stays as it is."""
    if len(pictures) == 1:
        return pictures[0]
    width, height = pictures[0].size
    grid = Image.new("RGB", (2 * width, 2 * height))
    for place, picture in enumerate(pictures):
        grid.paste(picture, (place % 2 * width, place // 2 * height))
    return grid


def read_questions(path: Path, mode: Mode) -> dict[str, list[Question]]:
    """The questions by item, in file order. Logs what `official` leaves out. Raises UserError naming the row of a
    number that cannot be read and, in mode `fixed`, of a question that occurs twice in its item."""
    items: dict[str, dict[int, Question]] = {}
    previous = None
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        missing = set(COLUMNS) - set(rows.fieldnames or ())
        if missing:
            raise UserError(f"{path}: no column {', '.join(sorted(missing))}")
        for number, row in enumerate(rows, 2):
            item, question = row["item_id"], _question(row, f"{path}: row {number}")
            if mode == "official" and number == 2:
                log.warning("%s: official scoring does not read question %d of %s", path, question.id, item)
                continue
            if mode == "official" and item != previous:
                if item in items:
                    log.warning("%s: official scoring drops the questions of %s before row %d", path, item, number)
                items[item] = {}
            questions = items.setdefault(item, {})
            if mode == "fixed" and question.id in questions:
                raise UserError(f"{path}: row {number}: {item} has a question {question.id} already")
            questions[question.id] = question
            previous = item
    return {item: list(questions.values()) for item, questions in items.items()}


def _question(row: Mapping[str, str], place: str) -> Question:
    try:
        number = int(row["proposition_id"])
        parents = tuple(int(parent) for parent in row["dependency"].split(","))
    except ValueError:
        raise UserError(
            f"{place}: proposition_id {row['proposition_id']!r}, dependency {row['dependency']!r}: not whole numbers"
        ) from None
    return Question(number, parents, row["question_natural_language"], row["tuple"].split("(")[0].strip())


def credited(questions: Sequence[Question], answers: Mapping[int, str], mode: Mode) -> dict[int, int]:
    """What each question counts for one picture, 1 or 0, by question id. `answers` by question id: only `yes` is a yes.
    Raises MissingParent where a question depends on one that is not there; mode `official` only if it looks that far,
    as it stops at the first parent that counts 0."""
    counts = {question.id: int(answers[question.id] == "yes") for question in questions}
    while True:
        before = dict(counts)
        for question in questions:
            for parent in question.parents:
                if parent == NO_PARENT:
                    continue
                if parent not in counts:
                    raise MissingParent(f"question {question.id} depends on question {parent}, which is missing")
                if counts[parent] == 0:
                    counts[question.id] = 0
                    if mode == "official":
                        break
        if mode == "official" or counts == before:
            return counts


def score_item(
    prompt: Prompt, questions: Sequence[Question], answers: Sequence[Mapping[int, str]], mode: Mode
) -> list[PictureScore]:
    """The scores of an item's pictures, each the mean over the questions. `answers` has one mapping a picture, by
    question id. In mode `official` an item without questions, or with a parent that is missed, has no score for any
    of its pictures; in mode `fixed` that raises UserError."""
    try:
        if not questions:
            raise MissingParent("no questions")
        counts = [credited(questions, given, mode) for given in answers]
    except MissingParent as error:
        if mode == "fixed":
            raise UserError(f"dpg_bench: item {prompt.id!r}: {error}") from None
        return [PictureScore(prompt.id, index, prompt.category, None, str(error)) for index in range(len(answers))]
    return [
        PictureScore(
            prompt.id,
            index,
            prompt.category,
            float(np.mean(list(count.values()))),
            "; ".join(question.text for question in questions if not count[question.id]),
        )
        for index, count in enumerate(counts)
    ]


def category_scores(
    questions: Mapping[str, Sequence[Question]],
    answers: Mapping[str, Sequence[Mapping[int, str]]],
    pictures: Sequence[PictureScore],
    mode: Mode,
) -> dict[str, tuple[float, int]]:
    """The share of yes by category, 0-1, and how many answers it is of; broad categories first, then the finer ones.

    `answers` as for `score_item`, by item; `pictures` are its scores. Parents do not matter here. `official` takes each
    item's last picture, and nothing of an item without a score.
    """
    dropped = {picture.prompt_id for picture in pictures if picture.score is None}
    tallies: dict[str, list[bool]] = {}
    for item in [item for item in answers if item not in dropped]:
        for given in answers[item][-1:] if mode == "official" else answers[item]:
            for question in questions[item]:
                for category in {question.broad_category, question.category}:
                    tallies.setdefault(category, []).append(given[question.id] == "yes")
    ordered = sorted(tallies, key=lambda category: ("-" in category, category))
    return {category: (float(np.mean(tallies[category])), len(tallies[category])) for category in ordered}


def scorer(folder: Path, prompts: Sequence[Prompt], models: Models, mode: Mode) -> Scorer:
    """Each picture by itself, the mean over its item's questions. Models: `answers`."""
    questions = read_questions(folder / QUESTIONS, mode)

    def scores(pictures: Sequence[Picture]) -> list[PictureScore]:
        asked = [(picture.image, q.text) for picture in pictures for q in questions.get(picture.prompt.id, [])]
        said = iter(models["answers"].answers(asked) if asked else [])
        found = []
        for picture in pictures:
            of_item = questions.get(picture.prompt.id, [])
            answers = {question.id: next(said) for question in of_item}
            (one,) = score_item(picture.prompt, of_item, [answers], mode)
            seen = {"answers": {str(number): answer for number, answer in answers.items()}}
            found.append(replace(one, index=picture.index, seen=seen))
        return found

    return scores


def finer(folder: Path, pictures: Sequence[PictureScore], mode: Mode) -> dict[str, tuple[float, int]]:
    """`category_scores` of pictures that `scorer` scored, in the order of their items and numbers."""
    answers: dict[str, list[dict[int, str]]] = {}
    for picture in sorted(pictures, key=lambda picture: picture.index):
        given = {int(number): answer for number, answer in picture.seen["answers"].items()}
        answers.setdefault(picture.prompt_id, []).append(given)
    return category_scores(read_questions(folder / QUESTIONS, mode), answers, pictures, mode)


BENCHMARK = Generation(
    name="dpg_bench",
    title="DPG-Bench",
    metric="score",
    source="TencentQQGYLab/ELLA",
    commit="3c228f1dc6c4d3cad0a47493816151a419f14db3",
    categories={"dpg": 1065},
    images_per_prompt=TILES,
    read=read,
    files=files,
    scorer=scorer,
    finer=finer,
)
