"""The models that the scorers ask, by what they do. Nothing here loads one.

A role is a protocol; `MODELS` says by benchmark and role how it can be filled: with the model that the authors use, or
with one that stands in. A stand-in gives other figures than the published ones, so what it scores is marked
`comparable: false`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from PIL.Image import Image

from workflow_scripts.benchmarks.generation.boxes import Box


@dataclass(frozen=True, eq=False)
class Detection:
    """An object that a detector found: its class, confidence 0-1, box in pixels of the detector's frame and, where the
    detector gives one, its mask, (height, width) of bool. Two detections are equal only if they are one."""

    label: str
    score: float
    box: Box
    mask: np.ndarray | None = None


class InstanceDetector(Protocol):
    """GenEval's detector: 80 COCO classes by GenEval's names, with masks, in pixels of the picture."""

    def detect(self, pictures: Sequence[Image]) -> list[list[Detection]]:
        """All instances of each picture, of any confidence, at most 100 a picture."""
        ...


class ColorClassifier(Protocol):
    """GenEval's colours."""

    def colors(self, objects: Sequence[tuple[Image, Detection]]) -> list[str]:
        """One of `geneval.COLORS` for each object: the object on #999, cropped to its box."""
        ...


class QuestionAnswerer(Protocol):
    """DPG-Bench's questions."""

    def answers(self, asked: Sequence[tuple[Image, str]]) -> list[str]:
        """What the model says; only `yes` counts as yes."""
        ...


class YesProbability(Protocol):
    """T2I-CompBench++'s attribute binding."""

    def probabilities(self, asked: Sequence[tuple[Image, str]]) -> list[float]:
        """P(yes) / (P(yes) + P(no)) at the answer's first token, 0-1."""
        ...


class ObjectDetector(Protocol):
    """T2I-CompBench++'s spatial relations and counts."""

    frame: tuple[int, int]  # height and width, pixels, that boxes refer to

    def detect(self, pictures: Sequence[Image], names: Sequence[Sequence[str]]) -> list[list[Detection]]:
        """Objects of each picture with a confidence above 0.1, best first. `names` are those that the prompt asks for:
        an open vocabulary needs them, a closed one does not look at them."""
        ...


class DepthEstimator(Protocol):
    """T2I-CompBench++'s 3D relations."""

    def depths(self, pictures: Sequence[Image], frame: tuple[int, int]) -> list[np.ndarray]:
        """How near each point is, (height, width) of the detector's frame; more is nearer, the unit does not matter."""
        ...


class TextSimilarity(Protocol):
    """T2I-CompBench++'s CLIP score."""

    def similarities(self, pairs: Sequence[tuple[Image, str]]) -> list[float]:
        """Cosine of picture and text, -1 to 1."""
        ...


@dataclass(frozen=True)
class Way:
    """A way to fill a role, a config's `through`. `official` is the model that the authors ask, by its name on the hub
    or where else it is from; empty for a stand-in, whose figures stand beside no published ones. `on_hub` is false
    where its files come from elsewhere."""

    how: str
    official: str = ""
    on_hub: bool = True


MODELS: dict[str, dict[str, dict[str, Way]]] = {
    "geneval": {
        "instances": {
            # mmdet's own training of the model, converted; on the hub are weights of its authors' training.
            "mask2former": Way(
                "transformers, instances made of the raw logits as mmdet does",
                "mask2former_swin-s-p4-w7-224_lsj_8x2_50e_coco",
            ),
        },
        "colors": {"clip": Way("transformers, three templates", "openai/clip-vit-large-patch14")},
    },
    "dpg_bench": {
        "answers": {
            "modelscope": Way(
                "ModelScope's own package", "damo/mplug_visual-question-answering_coco_large_en", on_hub=False
            ),
            "vllm": Way("a vision-language model through engine vllm"),
            "transformers": Way("a vision-language model through engine transformers"),
        },
    },
    "t2i_compbench": {
        "attributes": {
            "blip": Way(
                "transformers at 480 pixels with [ENC] as the question's first token",
                "Salesforce/blip-vqa-capfilt-large",
            ),
        },
        "objects": {
            # The authors take RS200 for relations on the picture, R50 in depth and for numbers.
            "unidet": Way("UniDet's own package, RS200 for all", on_hub=False),
            "owlv2": Way("an open-vocabulary detector of transformers"),
        },
        "depth": {"dpt": Way("transformers", "Intel/dpt-hybrid-midas")},
        "similarity": {"clip": Way("transformers", "openai/clip-vit-base-patch32")},
    },
}
