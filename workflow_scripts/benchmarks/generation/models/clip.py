"""CLIP: the colours of GenEval's objects, and how alike T2I-CompBench++'s pictures and texts are.

Pictures are scaled to the shorter side, bicubic, and cropped in the middle, as in CLIP's own code. GenEval's authors
run it in mixed precision, T2I-CompBench++'s in float16 on GPUs.
"""

from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from torch.nn.functional import normalize

from workflow_scripts.benchmarks.generation.geneval import COLORS
from workflow_scripts.benchmarks.generation.models.loading import CLIP_MEAN, CLIP_STD, Batches, load, once, pixels
from workflow_scripts.benchmarks.generation.roles import Detection
from workflow_scripts.errors import UserError
from workflow_scripts.spec import ScorerModel

TEMPLATES = ("a photo of a {color} {name}", "a photo of a {color}-colored {name}", "a photo of a {color} object")
BACKGROUND = "#999"


class _Clip:
    """Directions of pictures and texts in CLIP's space."""

    def __init__(self, source: ScorerModel, batch: int, serving: Any = None) -> None:
        from transformers import AutoTokenizer, CLIPModel

        self._model, self._folder = load(source, CLIPModel), source.path
        self._in_batches = Batches(batch, source.path)
        self._tokenizer = AutoTokenizer.from_pretrained(source.path, local_files_only=True)
        self._side = self._model.config.vision_config.image_size

    def _pictures(self, pictures: Sequence[Image.Image]) -> list[torch.Tensor]:
        """The direction of each, (dimensions,) of length 1."""
        return self._in_batches(pictures, self._encode_pictures)

    def _texts(self, texts: Sequence[str]) -> list[torch.Tensor]:
        """The direction of each, (dimensions,) of length 1. Raises UserError for one that CLIP cannot read whole."""
        return self._in_batches(texts, self._encode_texts)

    @torch.inference_mode()
    def _encode_pictures(self, pictures: Sequence[Image.Image]) -> torch.Tensor:
        inputs = torch.stack([pixels(square(picture, self._side), CLIP_MEAN, CLIP_STD) for picture in pictures])
        return normalize(self._model.get_image_features(inputs.to(self._model.device)).pooler_output, dim=-1)

    @torch.inference_mode()
    def _encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        longest = self._model.config.text_config.max_position_embeddings
        inputs = self._tokenizer(list(texts), padding=True, return_tensors="pt").to(self._model.device)
        for text, mask in zip(texts, inputs["attention_mask"], strict=True):
            if mask.sum() > longest:
                raise UserError(f"{self._folder}: CLIP reads {longest} tokens, this text has more: {text!r}")
        return normalize(self._model.get_text_features(**inputs).pooler_output, dim=-1)


class TextSimilarity(_Clip):
    """T2I-CompBench++'s CLIP score."""

    def similarities(self, pairs: Sequence[tuple[Image.Image, str]]) -> list[float]:
        """Cosine of picture and text, -1 to 1. A picture and a text are encoded once."""
        if not pairs:
            return []
        pictures = once([picture for picture, _ in pairs], self._pictures)
        distinct = list(dict.fromkeys(text for _, text in pairs))
        texts = dict(zip(distinct, self._texts(distinct), strict=True))
        return [float(picture @ texts[text]) for picture, (_, text) in zip(pictures, pairs, strict=True)]


class ColorClassifier(_Clip):
    """GenEval's colours: the one whose three texts, averaged, are most like the object cut out."""

    def __init__(self, source: ScorerModel, batch: int, serving: Any = None) -> None:
        super().__init__(source, batch, serving)
        self._of_name: dict[str, torch.Tensor] = {}

    def colors(self, objects: Sequence[tuple[Image.Image, Detection]]) -> list[str]:
        """One of `COLORS` for each object."""
        if not objects:
            return []
        cut = self._pictures([cut_out(picture, detection) for picture, detection in objects])
        return [
            COLORS[int((self._colors_of(detection.label) @ one).argmax())]
            for one, (_, detection) in zip(cut, objects, strict=True)
        ]

    def _colors_of(self, name: str) -> torch.Tensor:
        """(colours, dimensions): the direction of each colour for an object of this name."""
        if name not in self._of_name:
            texts = [template.format(color=color, name=name) for color in COLORS for template in TEMPLATES]
            by_color = torch.stack(self._texts(texts)).unflatten(0, (len(COLORS), len(TEMPLATES)))
            self._of_name[name] = normalize(by_color.mean(dim=1), dim=-1)
        return self._of_name[name]


def cut_out(picture: Image.Image, detection: Detection) -> Image.Image:
    """An object on grey, cropped to its box."""
    picture = picture.convert("RGB")
    if detection.mask is not None:
        blank = Image.new("RGB", picture.size, BACKGROUND)
        picture = Image.composite(picture, blank, Image.fromarray(detection.mask))
    return picture.crop(tuple(round(side) for side in detection.box))


def square(picture: Image.Image, side: int) -> Image.Image:
    """The middle of a picture whose shorter side is `side` pixels."""
    width, height = picture.size
    shorter = min(width, height)
    width, height = int(side * width / shorter), int(side * height / shorter)
    picture = picture.resize((width, height), Image.Resampling.BICUBIC)
    left, top = round((width - side) / 2), round((height - side) / 2)
    return picture.crop((left, top, left + side, top + side))
