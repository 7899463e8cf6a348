"""DPT-hybrid's depth, as T2I-CompBench++ asks for it.

It sees 480 pixels a side; the map is stretched to 0-255, kept as whole numbers in the picture's size, then scaled to
the detector's frame.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import interpolate

from workflow_scripts.benchmarks.generation.models.loading import Batches, load, pixels
from workflow_scripts.errors import UserError
from workflow_scripts.spec import ScorerModel

SIDE = 480  # pixels
HALF = (0.5, 0.5, 0.5)


class DepthEstimator:
    """T2I-CompBench++'s 3D relations."""

    def __init__(self, source: ScorerModel, batch: int, serving: Any = None) -> None:
        from transformers import DPTForDepthEstimation

        # The first stage of fusion has nothing to add to: transformers makes the weights, no checkpoint has them.
        unused = r"^neck\.fusion_stage\.layers\.0\.residual_layer1\."
        self._model, self._in_batches = load(source, DPTForDepthEstimation, unused), Batches(batch, source.path)
        if not self._model.config.is_hybrid:
            raise UserError(f"{source.path}: is no DPT-hybrid (its config says is_hybrid: false)")
        self._model.dpt.embeddings.image_size = (SIDE, SIDE)  # transformers scales the positions, then

    def depths(self, pictures: Sequence[Image.Image], frame: tuple[int, int]) -> list[np.ndarray]:
        """How near each point is, 0-1 in steps of 1/255: (height, width) of the frame, more is nearer."""
        raw = self._in_batches(pictures, self._raw)
        return [in_frame(one_HW, picture.size, frame) for one_HW, picture in zip(raw, pictures, strict=True)]

    @torch.inference_mode()
    def _raw(self, pictures: Sequence[Image.Image]) -> torch.Tensor:
        """(N, height, width)."""
        scaled = [picture.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR) for picture in pictures]
        inputs = torch.stack([pixels(picture, HALF, HALF) for picture in scaled]).to(self._model.device)
        return self._model(pixel_values=inputs).predicted_depth


def in_frame(raw_HW: torch.Tensor, size: tuple[int, int], frame: tuple[int, int]) -> np.ndarray:
    """A raw depth map in the frame (height, width); `size` is the picture's, width and height. A flat one is zero."""
    spread = raw_HW.max() - raw_HW.min()
    stretched = (raw_HW - raw_HW.min()) / torch.where(spread > 0, spread, torch.ones_like(spread))
    stretched = interpolate(stretched[None, None], size=size[::-1], mode="bilinear", align_corners=True)[0, 0]
    kept = Image.fromarray((255 * stretched).cpu().numpy().astype(np.uint8))
    return np.asarray(kept.resize(frame[::-1], Image.Resampling.BILINEAR), dtype=np.float32) / 255
