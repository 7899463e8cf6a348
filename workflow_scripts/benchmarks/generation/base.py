"""What a generation benchmark is: its prompts, where its pictures lie, and what is made of all scores.

Each benchmark is a module of this package with one `BENCHMARK`. Every rule is a pure function of what models said about
a picture (`roles` names the models, nothing here loads one) and has two modes: `official` repeats the authors' scorer,
faults included, so that figures compare; `fixed` mends the faults that the module names. All scores go through `score`,
which gives rows of table `benchmark_scores`: the headline, and one a category.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np

from workflow_scripts.benchmarks.understanding.estimates import Estimate, clustered_error, mean, ratio
from workflow_scripts.errors import UserError

Mode = Literal["official", "fixed"]
MODES: tuple[Mode, ...] = ("official", "fixed")


@dataclass(frozen=True)
class Prompt:
    """A text to make pictures of. `facts` is what its benchmark's rules need beside the text."""

    id: str
    text: str
    category: str
    facts: Any = None


@dataclass(frozen=True)
class PictureScore:
    """One picture's score, 0-1 (a raw cosine may be below 0); None where the official scorer drops the picture.
    `reason` says what is wrong, empty where nothing is."""

    prompt_id: str
    index: int
    category: str
    score: float | None
    reason: str = ""


@dataclass(frozen=True)
class OfficialFile:
    """A file of the layout that the authors' scorer reads: one picture of a prompt, or several as tiles."""

    path: PurePosixPath
    prompt_id: str
    indexes: tuple[int, ...]


@dataclass(frozen=True)
class Generation:
    """A benchmark's facts and functions.

    `source` holds the files that `read` takes, at `commit`; `categories` says how many prompts each has; the authors
    make `images_per_prompt` pictures. `files` lists the official layout for a number of pictures a prompt, `notes` the
    text files beside a prompt's pictures there.
    """

    name: str
    title: str
    metric: str
    source: str
    commit: str
    categories: dict[str, int]
    images_per_prompt: int
    read: Callable[[Path], list[Prompt]]
    files: Callable[[Sequence[Prompt], int], list[OfficialFile]]
    notes: Callable[[Prompt], dict[PurePosixPath, str]] = field(default=lambda prompt: {})
    chance: float = 0.0

    @property
    def num_prompts(self) -> int:
        """Prompts of the whole benchmark."""
        return sum(self.categories.values())


def read_prompts(benchmark: Generation, folder: Path) -> list[Prompt]:
    """All prompts of a benchmark in a local folder. Raises UserError naming the folder where there are none, where two
    have one id, one has no text or a category is unknown."""
    prompts = benchmark.read(folder)
    if not prompts:
        raise UserError(f"{folder}: no prompts of {benchmark.title}")
    for prompt_id, count in Counter(prompt.id for prompt in prompts).items():
        if count > 1:
            raise UserError(f"{folder}: prompt {prompt_id!r} of {benchmark.title} occurs {count} times")
    for prompt in prompts:
        if not prompt.text:
            raise UserError(f"{folder}: prompt {prompt.id!r} of {benchmark.title} has no text")
        if prompt.category not in benchmark.categories:
            known = ", ".join(benchmark.categories)
            raise UserError(f"{folder}: prompt {prompt.id!r} is of {prompt.category!r}, which is none of {known}")
    return prompts


def score(
    benchmark: Generation,
    prompts: Sequence[Prompt],
    images_per_prompt: int,
    pictures: Sequence[PictureScore],
    mode: Mode,
    harness: str,
    same_models: bool,
) -> list[dict[str, Any]]:
    """Rows of table `benchmark_scores`: the headline, the plain mean over the categories of the mean over pictures, as
    variant `mode`, and each category as variant `mode/category`.

    Standard errors cluster the pictures of a prompt. `harness` names the models, `same_models` whether they are the
    official ones. `comparable` is false where they are not, where not the whole benchmark was scored or not with the
    official number of pictures. `num_unparsed` counts what the official scorer drops. Raises UserError for a picture
    that is missing, unknown or occurs twice, and for a score that is no number.
    """
    _check(benchmark, prompts, images_per_prompt, pictures)
    kept = [picture for picture in pictures if picture.score is not None]
    values = np.array([picture.score for picture in kept], dtype=float)
    numbers = {prompt.id: number for number, prompt in enumerate(prompts)}
    clusters = _dense([numbers[picture.prompt_id] for picture in kept])
    whole = Counter(prompt.category for prompt in prompts) == benchmark.categories
    common = {
        "benchmark": benchmark.name,
        "chance": benchmark.chance,
        "harness": harness,
        "comparable": same_models and whole and images_per_prompt == benchmark.images_per_prompt,
    }
    estimates = {}
    for category in dict.fromkeys(prompt.category for prompt in prompts):
        counted = np.array([picture.category == category for picture in kept], dtype=float)
        if not counted.any():
            raise UserError(f"{benchmark.title}: no picture of category {category!r} has a score")
        estimates[category] = ratio(values * counted, counted)
    rows = [_row(mode, benchmark.metric, mean(list(estimates.values())), clusters, pictures, common)]
    if len(estimates) > 1:
        for category, estimate in estimates.items():
            own = np.array([picture.category == category for picture in kept])
            only = Estimate(estimate.value, estimate.influence[own])
            some = [picture for picture in pictures if picture.category == category]
            rows.append(_row(f"{mode}/{category}", category, only, _dense(clusters[own]), some, common))
    return rows


def _row(
    variant: str,
    metric: str,
    estimate: Estimate,
    clusters: np.ndarray,
    pictures: Sequence[PictureScore],
    common: dict[str, Any],
) -> dict[str, Any]:
    error = clustered_error(estimate, clusters)
    return {
        **common,
        "variant": variant,
        "metric": metric,
        "raw": estimate.value,
        "score": 100 * estimate.value,
        "std_error": None if error is None else 100 * error,
        "num_items": len(pictures),
        "num_unparsed": sum(picture.score is None for picture in pictures),
    }


def _dense(numbers: Sequence[int] | np.ndarray) -> np.ndarray:
    """The same clusters numbered 0 to G - 1."""
    return np.unique(np.asarray(numbers), return_inverse=True)[1]


def _check(
    benchmark: Generation, prompts: Sequence[Prompt], images_per_prompt: int, pictures: Sequence[PictureScore]
) -> None:
    categories = {prompt.id: prompt.category for prompt in prompts}
    expected = {(prompt_id, index) for prompt_id in categories for index in range(images_per_prompt)}
    seen = Counter((picture.prompt_id, picture.index) for picture in pictures)
    for (prompt_id, index), count in seen.items():
        if (prompt_id, index) not in expected:
            raise UserError(f"{benchmark.title}: picture {index} of prompt {prompt_id!r} was not asked for")
        if count > 1:
            raise UserError(f"{benchmark.title}: picture {index} of prompt {prompt_id!r} is scored {count} times")
    missing = sorted(expected - set(seen))
    if missing:
        prompt_id, index = missing[0]
        raise UserError(
            f"{benchmark.title}: {len(missing)} of {len(expected)} pictures have no score, the first is picture "
            f"{index} of prompt {prompt_id!r}"
        )
    for picture in pictures:
        place = f"{benchmark.title}: picture {picture.index} of prompt {picture.prompt_id!r}"
        if picture.category != categories[picture.prompt_id]:
            raise UserError(f"{place} is of {picture.category!r}, its prompt of {categories[picture.prompt_id]!r}")
        if picture.score is not None and not np.isfinite(picture.score):
            raise UserError(f"{place}: its score is {picture.score}")
