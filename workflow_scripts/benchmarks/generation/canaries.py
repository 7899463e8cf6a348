"""Pictures with known answers, one check a model: asked before a benchmark is scored, so that a model that does not
fit its weights or its labels stops the run in place of scoring near 0.

The pictures are drawn: a red stop sign to the left of a clock, and a road that runs away from the viewer. Each check
takes what a model of `roles` said and returns what is wrong, empty where nothing is.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from workflow_scripts.benchmarks.generation import compbench_spatial, geneval
from workflow_scripts.benchmarks.generation.roles import Detection
from workflow_scripts.errors import UserError

SIZE = 512  # pixels, each side
SIGN, CLOCK = (24, 130, 236, 342), (276, 130, 488, 342)  # boxes of the two things
SIGN_ROW = {
    "tag": "color_attr",
    "include": [
        {"class": "stop sign", "count": 1, "color": "red"},
        {"class": "clock", "count": 1, "position": ["right of", 0]},
    ],
    "exclude": [{"class": "elephant", "count": 1}],
}
SIGN_NAMES = ("clock", "stop sign")
QUESTIONS = {
    "Is there a stop sign?": True,
    "Is the stop sign red?": True,
    "Is there a clock?": True,
    "Is there an elephant?": False,
    "Is the stop sign blue?": False,
}
CHUNKS = {"a red stop sign?": True, "a clock?": True, "a blue elephant?": False}
FITTING = ("a red stop sign and a clock", "a clock beside a stop sign")
OTHERS = ("an elephant in the grass", "a bowl of soup", "two dogs on a beach", "a wooden house at night")
TEXTS = (*FITTING, *OTHERS)


def sign_and_clock() -> Image.Image:
    """A red stop sign on the left, a clock on the right, on light blue."""
    picture = Image.new("RGB", (SIZE, SIZE), (196, 222, 240))
    draw = ImageDraw.Draw(picture)
    left, top, right, bottom = SIGN
    middle, radius = ((left + right) / 2, (top + bottom) / 2), (right - left) / 2 / math.cos(math.pi / 8)
    draw.rectangle((middle[0] - 7, bottom - 4, middle[0] + 7, SIZE), fill=(120, 120, 120))
    for share, color in ((1.0, (200, 16, 24)), (0.94, "white"), (0.88, (200, 16, 24))):
        corners = [math.pi / 8 + math.pi / 4 * corner for corner in range(8)]
        draw.polygon(
            [(middle[0] + share * radius * math.cos(a), middle[1] + share * radius * math.sin(a)) for a in corners],
            fill=color,
        )
    draw.text(middle, "STOP", fill="white", font=ImageFont.load_default(72), anchor="mm", stroke_width=2)
    left, top, right, bottom = CLOCK
    middle, radius = ((left + right) / 2, (top + bottom) / 2), (right - left) / 2
    draw.ellipse(CLOCK, fill="white", outline="black", width=10)
    for hour in range(1, 13):
        angle = math.pi * (hour / 6 - 0.5)
        place = (middle[0] + 0.78 * radius * math.cos(angle), middle[1] + 0.78 * radius * math.sin(angle))
        draw.text(place, str(hour), fill="black", font=ImageFont.load_default(24), anchor="mm")
    for hours, length, width in ((10.15, 0.45, 8), (2.0, 0.62, 5)):  # nine minutes past ten
        angle = math.pi * (hours / 6 - 0.5)
        draw.line(
            (*middle, middle[0] + length * radius * math.cos(angle), middle[1] + length * radius * math.sin(angle)),
            fill="black",
            width=width,
        )
    return picture


def road() -> Image.Image:
    """A grey road between meadows, from the lower edge to the horizon, under a blue sky."""
    picture = Image.new("RGB", (SIZE, SIZE), (135, 190, 235))
    draw = ImageDraw.Draw(picture)
    horizon, middle = SIZE * 2 // 5, SIZE // 2
    draw.rectangle((0, horizon, SIZE, SIZE), fill=(70, 140, 60))
    draw.polygon(((middle - 4, horizon), (middle + 4, horizon), (SIZE - 40, SIZE), (40, SIZE)), fill=(90, 90, 95))
    for near in range(1, 9):  # the dashes of the middle line, closer together and thinner with distance
        top, bottom = (horizon + (SIZE - horizon) / depth for depth in (0.55 + near * 0.6, 0.35 + near * 0.6))
        draw.rectangle((middle - 6 / near, top, middle + 6 / near, min(bottom, SIZE)), fill="white")
    return picture


def check_instances(detections: Sequence[Detection]) -> str:
    """GenEval's detector on `sign_and_clock`."""
    kept = geneval.keep(detections, SIGN_ROW["tag"])
    colors = dict.fromkeys(geneval.to_color(SIGN_ROW, kept), "red")
    return geneval.judge(SIGN_ROW, kept, colors)[1]


def check_colors(colors: Sequence[str]) -> str:
    """GenEval's colours of the stop sign."""
    return "" if list(colors) == ["red"] else f"the red stop sign is {', '.join(colors) or 'nothing'}"


def check_answers(answers: Sequence[str]) -> str:
    """The answers to `QUESTIONS` about `sign_and_clock`."""
    wrong = [
        f"{question} {answer!r}"
        for (question, yes), answer in zip(QUESTIONS.items(), answers, strict=True)
        if (answer == "yes") != yes
    ]
    return "; ".join(wrong)


def check_probabilities(probabilities: Sequence[float]) -> str:
    """The probabilities of yes to `CHUNKS` about `sign_and_clock`."""
    wrong = [
        f"{chunk} {probability:.2f}"
        for (chunk, yes), probability in zip(CHUNKS.items(), probabilities, strict=True)
        if not (probability > 0.5 if yes else probability < 0.5)
    ]
    return "; ".join(wrong)


def check_objects(detections: Sequence[Detection]) -> str:
    """T2I-CompBench++'s detector on `sign_and_clock`: as the 2D rule sees it, which wants both and the right order."""
    right, left = (
        compbench_spatial.score_2d(f"a clock on the {side} of a stop sign", SIGN_NAMES, detections, "fixed")
        for side in ("right", "left")
    )
    if right > 0 and left == 0:
        return ""
    found = ", ".join(f"{detection.label} {detection.score:.2f}" for detection in detections[:5])
    return f"no clock to the right of a stop sign, found {found or 'nothing'}"


def check_depth(depth: np.ndarray) -> str:
    """The depth of `road`, (height, width): nearer below, and much farther at the horizon."""
    rows = np.asarray(depth, dtype=float).mean(axis=1)
    fifth = len(rows) // 5
    near, middle, far = rows[-fifth:].mean(), rows[3 * fifth : 4 * fifth].mean(), rows[:fifth].mean()
    return (
        ""
        if near > middle > far
        else f"a road's near end is at {near:.3g}, its middle at {middle:.3g}, the sky at {far:.3g}"
    )


def check_similarities(similarities: Sequence[float]) -> str:
    """The cosines of `sign_and_clock` with `TEXTS`: the texts that fit are more alike than the others."""
    fitting, others = similarities[: len(FITTING)], similarities[len(FITTING) :]
    if all(-1 <= other < one <= 1 for one in fitting for other in others):
        return ""
    return ", ".join(f"{text!r} {value:.3f}" for text, value in zip(TEXTS, similarities, strict=True))


@dataclass(frozen=True)
class Canary:
    """A picture, what a model is asked about it, and the check of what it says."""

    picture: Callable[[], Image.Image]
    asked: tuple[str, ...]
    check: Callable[[Any], str]


CANARIES: dict[str, dict[str, Canary]] = {
    "geneval": {
        "instances": Canary(sign_and_clock, (), check_instances),
        "colors": Canary(sign_and_clock, (), check_colors),
    },
    "dpg_bench": {"answers": Canary(sign_and_clock, tuple(QUESTIONS), check_answers)},
    "t2i_compbench": {
        "attributes": Canary(sign_and_clock, tuple(CHUNKS), check_probabilities),
        "objects": Canary(sign_and_clock, SIGN_NAMES, check_objects),
        "depth": Canary(road, (), check_depth),
        "similarity": Canary(sign_and_clock, TEXTS, check_similarities),
    },
}


def _ask_depth(models: Mapping[str, Any], picture: Image.Image, asked: Sequence[str]) -> np.ndarray:
    return models["depth"].depths([picture], models["objects"].frame)[0]


def _ask_colors(models: Mapping[str, Any], picture: Image.Image, asked: Sequence[str]) -> list[str]:
    left, top, right, bottom = SIGN
    mask = np.zeros((SIZE, SIZE), dtype=bool)
    mask[top:bottom, left:right] = True
    return models["colors"].colors([(picture, Detection("stop sign", 1.0, SIGN, mask))])


# how each role is asked about its test picture
_ASK: dict[str, Callable[[Mapping[str, Any], Image.Image, Sequence[str]], Any]] = {
    "instances": lambda models, picture, asked: models["instances"].detect([picture])[0],
    "colors": _ask_colors,
    "answers": lambda models, picture, asked: models["answers"].answers([(picture, text) for text in asked]),
    "attributes": lambda models, picture, asked: models["attributes"].probabilities(
        [(picture, text) for text in asked]
    ),
    "objects": lambda models, picture, asked: models["objects"].detect([picture], [asked])[0],
    "depth": _ask_depth,
    "similarity": lambda models, picture, asked: models["similarity"].similarities([(picture, text) for text in asked]),
}


def check(benchmark: str, models: Mapping[str, Any], names: Mapping[str, Any]) -> None:
    """Ask every model of a benchmark about its test picture; `names` says by role what each is. Raises UserError where
    one does not see what it shows. A benchmark without models has nothing to check."""
    for role, canary in CANARIES.get(benchmark, {}).items():
        require(benchmark, role, str(names[role]), _ASK[role](models, canary.picture(), canary.asked))


def require(benchmark: str, role: str, model: str, output: Any) -> None:
    """Raise UserError where what a model said about its canary is wrong."""
    fault = CANARIES[benchmark][role].check(output)
    if fault:
        raise UserError(
            f"{benchmark}: the model {model} for {role} does not see what a test picture shows ({fault}): its weights "
            "or labels do not fit, its scores would mean nothing"
        )
