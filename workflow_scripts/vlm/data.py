"""The samples of a training stage: conversations of a data set, and captions as conversations.

A sample's place in training follows from its key and the seed alone, never from what a caption says: every captioner
is learnt from the same images in the same order.
"""

import hashlib
import random
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from workflow_scripts.captions.read import StoredCaptions
from workflow_scripts.errors import UserError
from workflow_scripts.images import place_of

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


class CaptionSamples:
    """A source of captions as conversations: one sample an image of the pool that is not left out, in the pool's order.

    Image ids and paths are held; a caption is read from its shard when its sample is asked for. Raises UserError where
    an image has no caption or several, an image file is missing, or no image is left.
    """

    def __init__(self, pool: Path, captions: Path, left_out: set[str], instruction: str) -> None:
        images = pyarrow.parquet.read_table(pool, columns=["image_id", "path"]).combine_chunks()
        self._captions, self._instruction = StoredCaptions(captions), instruction
        told = self._captions.image_ids()
        rows = pa.compute.index_in(images["image_id"], value_set=told)
        absent = images["image_id"].filter(rows.is_null())
        twice = pa.compute.value_counts(told)
        twice = twice.field("values").filter(pa.compute.greater(twice.field("counts"), 1))
        for faulty, fault in ((absent, "no caption"), (twice, "several captions")):
            if len(faulty):
                raise UserError(f"{captions}: {len(faulty)} images of the pool have {fault}, first {faulty[0]}")
        kept = pa.compute.invert(pa.compute.is_in(images["image_id"], value_set=pa.array(left_out, pa.string())))
        self._rows = rows.filter(kept).to_numpy()
        self._image_ids, self._paths = (images[name].filter(kept).combine_chunks() for name in ("image_id", "path"))
        if not len(self):
            raise UserError(f"{captions}: none of {len(images)} images is left to train on")
        check_images(path.as_py() for path in self._paths)

    def __len__(self) -> int:
        return len(self._rows)

    def key(self, index: int) -> str:
        """`caption:` and the image's id."""
        return f"caption:{self._image_ids[index]}"

    def sample(self, index: int) -> Sample:
        """The instruction and the caption. Raises UserError where there is none."""
        image_id, caption = self._captions[int(self._rows[index])]
        text = (caption or "").replace(IMAGE_MARK, "").strip()
        if not text:
            raise UserError(f"sample {self.key(index)}: has no caption, and the selection does not leave it out")
        return Sample(f"caption:{image_id}", (Path(self._paths[index].as_py()),), ((self._instruction, text),))


class QuestionSamples:
    """A source of questions that captions answer by rule (blocks world): one sample a caption. A caption that answers
    none is learnt once more as it is: what captions say moves no other sample."""

    def __init__(self, captioned: CaptionSamples, seed: int) -> None:
        self._captioned, self._seed = captioned, seed

    def __len__(self) -> int:
        return len(self._captioned)

    def key(self, index: int) -> str:
        """`questions:` and the image's id."""
        return self._captioned.key(index).replace("caption:", "questions:", 1)

    def sample(self, index: int) -> Sample:
        """Questions drawn by seed and image, and the caption's answers."""
        from workflow_scripts.blocks.questions import questions_from_caption

        sample, key = self._captioned.sample(index), self.key(index)
        draw = random.Random(f"{self._seed}:{key.removeprefix('questions:')}")
        turns = tuple(questions_from_caption(sample.turns[0][1], draw)) or sample.turns
        return Sample(key, sample.images, turns)


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


def check_images(paths: Iterable[str | Path]) -> None:
    """Raise UserError with the number of files (images or their archives) that are missing and the first of them."""
    files, missing = set(), set()
    for path in paths:
        place = place_of(path)
        file = str(place.archive if place else path)
        if place is None or file not in files:  # an archive is looked up once
            files.update([file] if place else [])
            if not Path(file).is_file():
                missing.add(file)
    if missing:
        raise UserError(f"{len(missing)} image files are missing, first {min(missing)}")
