"""What a generation benchmark is: its prompts, where its pictures lie, how one is scored, what is made of all scores.

Each benchmark is a module of this package with one `BENCHMARK`. Every rule is a pure function of what models said about
a picture (`roles` names the models, nothing here loads one) and has two modes: `official` repeats the authors' scorer,
faults included, so that figures compare; `fixed` mends the faults that the module names. A `Scorer` asks the models
about pictures and puts the rule to what they say. All scores go through `score`, which gives rows of table
`benchmark_scores`: the headline, and one a category.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
from PIL.Image import Image

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
    `reason` says what is wrong, empty where nothing is; `seen` is what the models said of the picture, JSON values."""

    prompt_id: str
    index: int
    category: str
    score: float | None
    reason: str = ""
    seen: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Picture:
    """A picture that was made of a prompt, the `index`-th of them."""

    prompt: Prompt
    index: int
    image: Image


Models = Mapping[str, Any]  # one of `roles` by its name
Scorer = Callable[[Sequence[Picture]], list[PictureScore]]


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
    text files beside a prompt's pictures there. `scorer` makes a scorer of the benchmark's folder, its prompts, models
    and mode; `finer` gives further categories that are no part of the headline, share (0-1) and number of answers, from
    the folder, all scores and the mode.
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
    scorer: Callable[[Path, Sequence[Prompt], Models, Mode], Scorer]
    finer: Callable[[Path, Sequence[PictureScore], Mode], dict[str, tuple[float, int]]] = field(
        default=lambda folder, pictures, mode: {}
    )
    notes: Callable[[Prompt], dict[PurePosixPath, str]] = field(default=lambda prompt: {})
    chance: float = 0.0

    @property
    def num_prompts(self) -> int:
        """Prompts of the whole benchmark, 0 where it has no fixed size."""
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
        if benchmark.categories and prompt.category not in benchmark.categories:
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
    finer: Mapping[str, tuple[float, int]] | None = None,
) -> list[dict[str, Any]]:
    """Rows of table `benchmark_scores`: the headline, the plain mean over the categories of the mean over pictures,
    then each category as a variant of its name, then those of `finer`.

    Standard errors cluster the pictures of a prompt. `harness` names the models, `same_models` whether they are the
    official ones. `comparable` is false where they are not, in mode `fixed`, where not the whole benchmark was scored
    or not with the official number of pictures. `num_unparsed` counts what the official scorer drops. Raises UserError
    for a picture that is missing, unknown or occurs twice, and for a score that is no number.
    """
    _check(benchmark, prompts, images_per_prompt, pictures)
    kept = [picture for picture in pictures if picture.score is not None]
    values = np.array([picture.score for picture in kept], dtype=float)
    numbers = {prompt.id: number for number, prompt in enumerate(prompts)}
    clusters = _dense([numbers[picture.prompt_id] for picture in kept])
    common = {
        "benchmark": benchmark.name,
        "chance": benchmark.chance,
        "harness": f"{mode} rules, {harness}",
        "comparable": same_models and mode == "official" and _is_whole(benchmark, prompts, images_per_prompt),
    }
    estimates = {}
    for category in dict.fromkeys(prompt.category for prompt in prompts):
        counted = np.array([picture.category == category for picture in kept], dtype=float)
        if not counted.any():
            raise UserError(f"{benchmark.title}: no picture of category {category!r} has a score")
        estimates[category] = ratio(values * counted, counted)
    rows = [_row(None, benchmark.metric, mean(list(estimates.values())), clusters, pictures, common)]
    if len(estimates) > 1:
        for category, estimate in estimates.items():
            own = np.array([picture.category == category for picture in kept])
            only = Estimate(estimate.value, estimate.influence[own])
            some = [picture for picture in pictures if picture.category == category]
            rows.append(_row(category, "mean", only, _dense(clusters[own]), some, common))
    for category, (share, count) in (finer or {}).items():
        raw = {"raw": share, "score": 100 * share, "std_error": None, "num_items": count, "num_unparsed": 0}
        rows.append({**common, "variant": category, "metric": "share of yes", **raw})
    return rows


def _is_whole(benchmark: Generation, prompts: Sequence[Prompt], images_per_prompt: int) -> bool:
    """Whether all is scored that the authors score; a benchmark without a fixed size always is."""
    if not benchmark.num_prompts:
        return True
    sizes = Counter(prompt.category for prompt in prompts)
    return sizes == benchmark.categories and images_per_prompt == benchmark.images_per_prompt


def _row(
    variant: str | None,
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
