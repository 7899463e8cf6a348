"""UniDet through its own package, as T2I-CompBench++'s authors ask it: RS200, confidences above 0.1.

The folder is UniDet_eval of the authors' repository, with the weights in experts/expert_weights/; the licence of some
of its files allows research without profit alone. Its experts/obj_detection, where the package `unidet` lies, must be
on PYTHONPATH, and detectron2 installed. Both open PyTorch pickles, so the folder must be one that you trust. The
authors take RS200 for relations on the picture, and the smaller R50 in depth and for numbers; here RS200 sees all.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from workflow_scripts.benchmarks.generation.models.loading import Batches
from workflow_scripts.benchmarks.generation.models.owlv2 import FRAME, MIN_SCORE
from workflow_scripts.benchmarks.generation.roles import Detection
from workflow_scripts.errors import UserError
from workflow_scripts.model_folders import local_folder
from workflow_scripts.spec import ScorerModel

NAME = "Unified_learned_OCIM_RS200_6x+2x"
PACKAGE = Path("experts/obj_detection")


class ObjectDetector:
    """T2I-CompBench++'s spatial relations and counts, in 722 classes."""

    frame = FRAME

    def __init__(self, source: ScorerModel, batch: int, serving: Any = None) -> None:
        folder = local_folder(source)
        labels, weights = folder / "dataset/detection_features.pt", folder / f"experts/expert_weights/{NAME}.pth"
        for path in (labels, weights):
            if not path.is_file():
                raise UserError(f"{path}: no such file; UniDet's folder is UniDet_eval of T2I-CompBench with weights")
        try:
            from detectron2.config import get_cfg
            from detectron2.engine.defaults import DefaultPredictor
            from unidet.config import add_unidet_config
        except ImportError as error:
            raise UserError(
                "t2i_compbench: `through: unidet` needs detectron2 (pip install "
                f"'git+https://github.com/facebookresearch/detectron2') and PYTHONPATH={folder / PACKAGE} ({error})"
            ) from None
        settings = get_cfg()
        add_unidet_config(settings)
        settings.merge_from_file(str(folder / PACKAGE / f"configs/{NAME}.yaml"))
        settings.MULTI_DATASET.UNIFIED_LABEL_FILE = str(folder / PACKAGE / "datasets/label_spaces/learned_mAP+M.json")
        settings.MODEL.WEIGHTS = str(weights)
        settings.MODEL.ROI_HEADS.SCORE_THRESH_TEST = MIN_SCORE
        settings.MODEL.DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
        self._model, self._in_batches = DefaultPredictor(settings).model, Batches(batch, folder)
        self._labels = torch.load(labels, map_location="cpu", weights_only=True)["labels"]

    def detect(self, pictures: Sequence[Image.Image], names: Sequence[Sequence[str]]) -> list[list[Detection]]:
        """Objects of each picture, best first, whatever is asked for."""
        return self._in_batches(pictures, self._detect)

    @torch.inference_mode()
    def _detect(self, pictures: Sequence[Image.Image]) -> list[list[Detection]]:
        inputs = [{"image": prepare(picture), "height": FRAME[0], "width": FRAME[1]} for picture in pictures]
        found = []
        for output in self._model(inputs):
            seen = output["instances"]
            raw = zip(seen.pred_classes.tolist(), seen.scores.tolist(), seen.pred_boxes.tensor.tolist(), strict=True)
            found.append([Detection(self._labels[number], score, tuple(box)) for number, score, box in raw])
        return found


def prepare(picture: Image.Image) -> torch.Tensor:
    """A picture as the authors hand it over: (3, height, width) of the frame, 0-255, blue first."""
    scaled = picture.convert("RGB").resize(FRAME[::-1], Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(scaled, dtype=np.float32)[:, :, ::-1].transpose(2, 0, 1).copy())
