"""The samples of a training stage: conversations of a data set, and captions as conversations.

A sample's place in training follows from its key and the seed alone, never from what a caption says: every captioner
is learnt from the same images in the same order.
"""

import hashlib
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd

from workflow_scripts.errors import UserError
from workflow_scripts.images import container

IMAGE_MARK = "<image>"


@dataclass(frozen=True, slots=True)
class Sample:
    """A conversation: (human, assistant) turns about images, most often one, or none."""

    key: str
    images: tuple[Path, ...]
    turns: tuple[tuple[str, str], ...]


class SampleSource(Protocol):
    """Samples that are read when they are asked for. Data loader workers get a copy: it must pickle, and a copy opens
    its own files."""

    def __len__(self) -> int:
        """How many samples there are."""

    def key(self, index: int) -> str:
        """What names a sample, the same in every run. Cheap: training asks for all keys before it begins."""

    def sample(self, index: int) -> Sample:
        """Read one sample. Raises UserError naming it where it is broken."""


@dataclass(frozen=True)
class HeldSamples:
    """A source whose samples are in memory."""

    samples: Sequence[Sample]

    def __len__(self) -> int:
        return len(self.samples)

    def key(self, index: int) -> str:
        """The sample's own key."""
        return self.samples[index].key

    def sample(self, index: int) -> Sample:
        """The sample itself."""
        return self.samples[index]


class Samples(Sequence[Sample]):
    """Sources one after another. Indexing reads one sample."""

    def __init__(self, *sources: SampleSource) -> None:
        self._sources = sources
        self._ends = list(accumulate(map(len, sources)))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> Sample:
        source, index = self._find(index)
        return source.sample(index)

    def key(self, index: int) -> str:
        """The key of one sample, which is not read."""
        source, index = self._find(index)
        return source.key(index)

    def _find(self, index: int) -> tuple[SampleSource, int]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        number = bisect_right(self._ends, index)
        return self._sources[number], index - (self._ends[number - 1] if number else 0)


class Ordered(Sequence[Sample]):
    """Samples in another order; `order` holds their numbers, int32 (N,)."""

    def __init__(self, samples: Samples, order: np.ndarray) -> None:
        self._samples, self.order = samples, order

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, place: int) -> Sample:
        return self._samples[int(self.order[place])]

    def keys(self) -> list[str]:
        """The keys in order; no sample is read."""
        return [self._samples.key(int(index)) for index in self.order]


def caption_samples(
    pool: pd.DataFrame,
    captions: pd.DataFrame,
    instruction: str,
    num_tokens: Callable[[list[str]], list[int]],
    max_tokens: int,
) -> tuple[list[Sample], Counter]:
    """One sample an image of the pool whose caption is usable, in pool order, and why the others are left out
    (`error`, `empty`, `too_long`: counts).

    `pool` is a table `images`, `captions` a table `captions`; `num_tokens` counts the trained model's tokens of texts.
    Raises UserError where an image has no caption or several, or none is usable.
    """
    rows = pool.merge(captions, on="image_id", how="left", indicator=True, validate="one_to_many")
    absent = rows.loc[rows["_merge"] == "left_only", "image_id"]
    twice = rows.loc[rows["image_id"].duplicated(), "image_id"]
    for images, fault in ((absent, "no caption"), (twice, "several captions")):
        if len(images):
            raise UserError(f"captions: {len(images)} images of the pool have {fault}, first {images.iloc[0]}")
    texts = ["" if pd.isna(caption) else caption.strip() for caption in rows["caption"]]
    samples, left_out = [], Counter()
    for row, text, length in zip(rows.itertuples(), texts, num_tokens(texts), strict=True):
        fault = (
            "error" if not pd.isna(row.error) else "empty" if not text else "too_long" if length > max_tokens else None
        )
        if fault:
            left_out[fault] += 1
        else:
            samples.append(Sample(f"caption:{row.image_id}", (Path(row.path),), ((instruction, text),)))
    if not samples:
        raise UserError(f"captions: none of {len(rows)} is usable: {dict(left_out)}")
    check_images(image for sample in samples for image in sample.images)
    return samples, left_out


def question_samples(captioned: Sequence[Sample], seed: int) -> list[Sample]:
    """Questions that each caption answers by rule (blocks world): one sample a caption that answers any."""
    from workflow_scripts.blocks.questions import questions_from_caption

    samples = []
    for sample in captioned:
        image_id = sample.key.removeprefix("caption:")
        turns = questions_from_caption(sample.turns[0][1], random.Random(f"{seed}:{image_id}"))
        if turns:
            samples.append(Sample(f"questions:{image_id}", sample.images, tuple(turns)))
    return samples


def in_order(samples: Samples, seed: int, count: int) -> Ordered:
    """`count` samples: passes over all of them, each in an order of its own, a hash of seed, pass and key. Leaving a
    sample out moves the others up and changes nothing else. 36 bytes a sample are held while a pass is sorted."""
    passes = []
    for number in range(-(-count // len(samples))):
        digests = (
            hashlib.sha256(f"{seed}:{number}:{samples.key(index)}".encode()).digest() for index in range(len(samples))
        )
        passes.append(np.fromiter(digests, "S32", len(samples)).argsort(kind="stable").astype(np.int32))
    return Ordered(samples, np.concatenate(passes)[:count])


def check_images(paths: Iterable[Path]) -> None:
    """Raise UserError with the number of files (images or their archives) that are missing and the first of them."""
    files = {container(path) for path in paths}
    missing = sorted(path for path in files if not path.is_file())
    if missing:
        raise UserError(f"{len(missing)} image files are missing, first {missing[0]}")
