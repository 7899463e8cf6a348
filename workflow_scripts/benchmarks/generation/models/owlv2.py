"""OWLv2 in place of UniDet: boxes of what the prompt names, in UniDet's frame.

It looks for nothing else, so an object that the prompt does not name cannot be taken for one that it does. As UniDet it
keeps confidences above 0.1 and, of boxes of one name that share more than half, the best.
"""

from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image

from workflow_scripts.benchmarks.generation.boxes import iou
from workflow_scripts.benchmarks.generation.models.loading import CLIP_MEAN, CLIP_STD, Batches, load, pixels
from workflow_scripts.benchmarks.generation.roles import Detection
from workflow_scripts.spec import ScorerModel

FRAME = (479, 479)  # height and width, pixels: what UniDet sees of a square picture
MIN_SCORE, MAX_IOU, MAX_OBJECTS = 0.1, 0.5, 100
QUERY = "a photo of a {name}"
GREY = (128, 128, 128)


class ObjectDetector:
    """T2I-CompBench++'s spatial relations and counts, from an open vocabulary."""

    frame = FRAME

    def __init__(self, source: ScorerModel, batch: int, serving: Any = None) -> None:
        from transformers import AutoTokenizer, Owlv2ForObjectDetection

        self._model, self._in_batches = load(source, Owlv2ForObjectDetection), Batches(batch, source.path)
        self._tokenizer = AutoTokenizer.from_pretrained(source.path, local_files_only=True)
        self._side = self._model.config.vision_config.image_size
        self._length = self._model.config.text_config.max_position_embeddings

    def detect(self, pictures: Sequence[Image.Image], names: Sequence[Sequence[str]]) -> list[list[Detection]]:
        """Objects of each picture that bear one of its names, best first."""
        return self._in_batches(list(zip(pictures, names, strict=True)), self._detect)

    @torch.inference_mode()
    def _detect(self, asked: Sequence[tuple[Image.Image, Sequence[str]]]) -> list[list[Detection]]:
        known = list(dict.fromkeys(name for _, names in asked for name in names))
        if not known:
            return [[] for _ in asked]
        inputs = torch.stack([pixels(self._square(picture), CLIP_MEAN, CLIP_STD) for picture, _ in asked])
        feature_map, _ = self._model.image_embedder(pixel_values=inputs.to(self._model.device))
        features_NPD = feature_map.flatten(1, 2)
        wanted_NQ = torch.tensor([[name in names for name in known] for _, names in asked], device=features_NPD.device)
        queries_NQD = self._queries(known).expand(len(asked), -1, -1)
        logits_NPQ, _ = self._model.class_predictor(features_NPD, queries_NQD, wanted_NQ)
        boxes_NP4 = self._model.box_predictor(features_NPD, feature_map)
        raw = zip(asked, logits_NPQ.sigmoid(), boxes_NP4, strict=True)
        return [self._kept(picture, scores, boxes, known) for (picture, _), scores, boxes in raw]

    def _square(self, picture: Image.Image) -> Image.Image:
        """The picture in the upper left of a square, as OWLv2 was trained."""
        side = max(picture.size)
        whole = Image.new("RGB", (side, side), GREY)
        whole.paste(picture.convert("RGB"))
        return whole.resize((self._side, self._side), Image.Resampling.BILINEAR)

    def _queries(self, names: Sequence[str]) -> torch.Tensor:
        """(Q, dimensions)."""
        inputs = self._tokenizer(
            [QUERY.format(name=name) for name in names],
            padding="max_length",
            truncation=True,
            max_length=self._length,
            return_tensors="pt",
        ).to(self._model.device)
        return self._model.owlv2.get_text_features(**inputs).pooler_output

    @staticmethod
    def _kept(
        picture: Image.Image, scores_PQ: torch.Tensor, boxes_P4: torch.Tensor, names: Sequence[str]
    ) -> list[Detection]:
        """The detections of a picture from each place's confidences and box: middle and size, shares of the square."""
        best_P, which_P = scores_PQ.max(dim=1)
        order = [place for place in best_P.argsort(descending=True, stable=True).tolist() if best_P[place] > MIN_SCORE]
        longer = max(picture.size)
        across, down = FRAME[1] * longer / picture.width, FRAME[0] * longer / picture.height
        kept: list[Detection] = []
        for place in order:
            x, y, width, height = boxes_P4[place].tolist()
            left, right = (min(max((x + side * width / 2) * across, 0), FRAME[1]) for side in (-1, 1))
            top, bottom = (min(max((y + side * height / 2) * down, 0), FRAME[0]) for side in (-1, 1))
            box = (left, top, right, bottom)
            found = Detection(names[int(which_P[place])], float(best_P[place]), box)
            if not any(other.label == found.label and iou(other.box, box) > MAX_IOU for other in kept):
                kept.append(found)
            if len(kept) == MAX_OBJECTS:
                break
        return kept
