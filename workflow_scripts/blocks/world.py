"""The blocks world: a picture whose every fact is known.

A picture is 32x32 RGB with a plain background and 2x2 cells of 16 px. A cell is empty or holds one block of a
shape, a colour and a size. From a scene follow, exactly, its picture (`render`), its full description
(`describe`) and its caption (`say`); a picture and a caption can be read back into a description (`detect`,
`parse`), so the judge and the scorers of this world are exact. `dial` makes a description worse by known
amounts: what it drops lowers coverage, what it falsifies lowers precision.

Some colours and shapes are "new": the instruction data never names them, so only captions can teach them.
This module needs NumPy and the standard library only. Random numbers come from a `random.Random` that the
caller seeds (a string is a good seed: `random.Random(f"{seed}:{image_id}")` is the same in every process).
"""

import hashlib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

IMAGE_SIZE = 32  # px
CELL_SIZE = 16  # px
CELLS = ("topleft", "topright", "bottomleft", "bottomright")
SHAPES_OLD = ("circle", "square", "triangle")
SHAPES_NEW = ("cross", "ring")
SHAPES = SHAPES_OLD + SHAPES_NEW
COLORS_OLD = ("red", "green", "blue", "yellow")
COLORS_NEW = ("purple", "orange", "cyan", "white")
COLORS = COLORS_OLD + COLORS_NEW
SIZES = ("small", "large")
BACKGROUNDS = ("black", "gray")
ATTRIBUTES = {"size": SIZES, "color": COLORS, "shape": SHAPES}  # in the order in which a caption names them
NEW_WORDS = frozenset(COLORS_NEW + SHAPES_NEW)

COLOR_RGB = {
    "red": (220, 40, 40),
    "green": (40, 170, 60),
    "blue": (50, 80, 225),
    "yellow": (240, 220, 50),
    "purple": (150, 50, 190),
    "orange": (245, 140, 30),
    "cyan": (60, 210, 220),
    "white": (245, 245, 245),
}
BACKGROUND_RGB = {"black": (15, 15, 15), "gray": (110, 110, 110)}
RADIUS = {"small": 4, "large": 7}  # px
BRIGHTNESS = (0.88, 1.0)  # range of the factor on a block's colour
MIN_BLOCK_PIXELS = 10  # the smallest block has more than twice as many

SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>", "<image>")
# "?" stands in no question (see questions.py); the ids of the others are those of the shipped checkpoints.
QUESTION_WORDS = (
    *("?", "on", "is", "there", "a", "what", "color", "shape", "size", "background", "how", "many", "where"),
    *("the", "describe", "briefly", "yes", "no", "1", "2", "3", "4"),
)
VOCABULARY = SPECIAL_TOKENS + QUESTION_WORDS + CELLS + SHAPES + COLORS + SIZES + BACKGROUNDS

Fact = tuple[int, str, str]  # cell (-1: the picture), what it is about, value
OBJECT_COUNTS = (1, 2, 2, 3, 3, 4)  # drawn uniformly: 2.5 objects a picture on average


@dataclass(frozen=True)
class Block:
    """An object in a cell."""

    cell: int  # index into CELLS
    size: str
    color: str
    shape: str


@dataclass(frozen=True)
class Scene:
    """What a picture shows."""

    background: str
    blocks: tuple[Block, ...]  # by cell


@dataclass(frozen=True)
class Description:
    """What a caption says: `background` is None where it is not mentioned, an object has only the attributes
    that are mentioned (keys `size`, `color`, `shape`)."""

    background: str | None
    objects: tuple[tuple[int, dict[str, str]], ...]


def held_out(scene: Scene) -> bool:
    """Whether a scene belongs to the test pictures: one in five does, by a hash of its full caption. So training
    and test pictures never show the same scene, whoever draws them."""
    return hashlib.sha256(say(describe(scene)).encode()).digest()[0] % 5 == 0


def sample_scene(
    rng: random.Random, words: str = "all", counts: Sequence[int] = OBJECT_COUNTS, split: str = "any"
) -> Scene:
    """Draw a scene of `words` "all" or "old" (no new colours and shapes) and of `split` "train", "test" (see
    `held_out`) or "any"; the number of objects is uniform over `counts` (a number may stand more than once)."""
    if words not in ("all", "old"):
        raise ValueError(f"words is {words!r}, expected 'all' or 'old'")
    if split not in ("any", "train", "test"):
        raise ValueError(f"split is {split!r}, expected 'any', 'train' or 'test'")
    colors, shapes = (COLORS, SHAPES) if words == "all" else (COLORS_OLD, SHAPES_OLD)
    while True:
        cells = sorted(rng.sample(range(len(CELLS)), rng.choice(counts)))
        blocks = tuple(Block(cell, rng.choice(SIZES), rng.choice(colors), rng.choice(shapes)) for cell in cells)
        scene = Scene(rng.choice(BACKGROUNDS), blocks)
        if split == "any" or held_out(scene) == (split == "test"):
            return scene


def _mask(shape: str, radius: int) -> np.ndarray:
    """The pixels of a block in its cell: bool (CELL_SIZE, CELL_SIZE)."""
    y, x = np.mgrid[0:CELL_SIZE, 0:CELL_SIZE] - (CELL_SIZE - 1) / 2
    outer = radius + 0.3
    if shape == "circle":
        return x**2 + y**2 <= outer**2
    if shape == "square":
        return np.maximum(abs(x), abs(y)) <= 0.88 * radius
    if shape == "triangle":
        return (abs(y) <= radius) & (abs(x) <= (y + radius + 0.5) / 2)
    if shape == "cross":
        return (np.maximum(abs(x), abs(y)) <= outer) & (np.minimum(abs(x), abs(y)) <= 0.3 * radius)
    return (x**2 + y**2 <= outer**2) & (x**2 + y**2 >= (0.55 * radius) ** 2)  # ring


_MASKS = {(shape, size): _mask(shape, RADIUS[size]) for shape in SHAPES for size in SIZES}


def _window(cell: int) -> tuple[slice, slice]:
    row, column = divmod(cell, 2)
    return (
        slice(row * CELL_SIZE, (row + 1) * CELL_SIZE),
        slice(column * CELL_SIZE, (column + 1) * CELL_SIZE),
    )


def render(scene: Scene, rng: random.Random | None = None) -> np.ndarray:
    """Draw a scene: uint8 (IMAGE_SIZE, IMAGE_SIZE, 3), 0-255. With `rng` each block has its own brightness,
    uniform over BRIGHTNESS; without it every block has its full colour."""
    image = np.empty((IMAGE_SIZE, IMAGE_SIZE, 3), np.uint8)
    image[:] = BACKGROUND_RGB[scene.background]
    for block in scene.blocks:
        brightness = 1.0 if rng is None else rng.uniform(*BRIGHTNESS)
        color = np.rint(np.array(COLOR_RGB[block.color]) * brightness).astype(np.uint8)
        image[_window(block.cell)][_MASKS[block.shape, block.size]] = color
    return image


def describe(scene: Scene) -> Description:
    """Everything that is true of a scene."""
    objects = tuple((block.cell, {name: getattr(block, name) for name in ATTRIBUTES}) for block in scene.blocks)
    return Description(scene.background, objects)


def say(description: Description) -> str:
    """A description as a caption, as `topleft large red circle bottomright small blue square on black`."""
    words = []
    for cell, attributes in description.objects:
        words += [CELLS[cell], *(attributes[name] for name in ATTRIBUTES if name in attributes)]
    if description.background is not None:
        words += ["on", description.background]
    return " ".join(words)


def tell(description: Description) -> str:
    """A description in sentences, as a person would write it; `parse` reads them too."""
    sentences = [] if description.background is None else [f"The background is {description.background}."]
    for cell, attributes in description.objects:
        words = [attributes[name] for name in ATTRIBUTES if name in attributes]
        noun = " ".join(words) if "shape" in attributes else " ".join([*words, "block"])
        sentences.append(f"In the {CELLS[cell]} corner there is a {noun}.")
    return " ".join(sentences)


def parse(text: str) -> Description:
    """Read a caption. Any text can be read: a cell's name opens an object, attributes belong to the object
    before them, the first of two values counts; all other words, case and punctuation are passed over."""
    background, objects = None, []
    for word in re.findall("[a-z]+", text.lower()):
        if word in CELLS:
            objects.append((CELLS.index(word), {}))
        elif word in BACKGROUNDS:
            background = background or word
        elif objects:
            for name, values in ATTRIBUTES.items():
                if word in values:
                    objects[-1][1].setdefault(name, word)
    return Description(background, tuple(objects))


_COLOR_TABLE = np.array(
    [np.array(rgb) * np.mean(BRIGHTNESS) for rgb in COLOR_RGB.values()] + list(BACKGROUND_RGB.values())
)
_TEMPLATES = np.stack(list(_MASKS.values())).reshape(len(_MASKS), -1).astype(np.float64)


def detect(image: np.ndarray) -> Description:
    """Read a picture, rendered or generated: uint8 (32, 32, 3), 0-255 -> description.

    A pixel is of the nearest colour (squared distance in RGB). The background is the one with more pixels. A cell
    with at least MIN_BLOCK_PIXELS pixels of block colours holds a block: its colour is the most frequent one,
    its shape and size those of the mask with the largest intersection over union. Exact on rendered pictures.
    """
    if image.shape != (IMAGE_SIZE, IMAGE_SIZE, 3) or image.dtype != np.uint8:
        expected = f"uint8 ({IMAGE_SIZE}, {IMAGE_SIZE}, 3)"
        raise ValueError(f"a picture of the blocks world is {expected}, got {image.dtype} {image.shape}")
    # |pixel - color|^2 without |pixel|^2, which is the same for all colours
    distance = (_COLOR_TABLE**2).sum(1) - 2 * image.reshape(-1, 3).astype(np.float64) @ _COLOR_TABLE.T
    nearest = distance.argmin(1).reshape(IMAGE_SIZE, IMAGE_SIZE)
    pixels = np.bincount(nearest.ravel(), minlength=len(_COLOR_TABLE))
    background = BACKGROUNDS[int(pixels[len(COLORS) :].argmax())]
    objects = []
    for cell in range(len(CELLS)):
        labels = nearest[_window(cell)].ravel()
        inside = labels < len(COLORS)
        if inside.sum() < MIN_BLOCK_PIXELS:
            continue
        color = COLORS[int(np.bincount(labels[inside]).argmax())]
        overlap = _TEMPLATES @ inside
        union = _TEMPLATES.sum(1) + inside.sum() - overlap
        shape, size = list(_MASKS)[int((overlap / union).argmax())]
        objects.append((cell, {"size": size, "color": color, "shape": shape}))
    return Description(background, tuple(objects))


def facts(description: Description) -> set[Fact]:
    """The single facts of a description: (cell, "object", "present") and (cell, attribute, value) of each object,
    (-1, "background", value)."""
    found: set[Fact] = set()
    for cell, attributes in description.objects:
        found.add((cell, "object", "present"))
        found |= {(cell, name, value) for name, value in attributes.items()}
    if description.background is not None:
        found.add((-1, "background", description.background))
    return found


def dial(description: Description, drop: float, falsify: float, rng: random.Random) -> Description:
    """A worse description of the same picture; `drop` and `falsify` are probabilities (0-1).

    An object is dropped with drop/2; each attribute that is left, and the background, with `drop`. What is then
    still mentioned gets another value with `falsify`. A block is invented in each empty cell with falsify/2; its
    attributes are mentioned as seldom as those of true objects. The same `rng` state gives the same result.
    """
    objects = []
    for cell, attributes in description.objects:
        if rng.random() < drop / 2:
            continue
        kept = {}
        for name, value in attributes.items():
            if rng.random() < drop:
                continue
            wrong = rng.random() < falsify
            kept[name] = rng.choice([v for v in ATTRIBUTES[name] if v != value]) if wrong else value
        objects.append((cell, kept))
    occupied = {cell for cell, _ in description.objects}
    for cell in sorted(set(range(len(CELLS))) - occupied):
        if rng.random() < falsify / 2:
            invented = {name: rng.choice(values) for name, values in ATTRIBUTES.items() if rng.random() >= drop}
            objects.append((cell, invented))
    background = description.background
    if background is not None:
        if rng.random() < drop:
            background = None
        elif rng.random() < falsify:
            background = next(b for b in BACKGROUNDS if b != background)
    return Description(background, tuple(sorted(objects, key=lambda item: item[0])))
