"""mPLUG through ModelScope's package: DPG-Bench's questions as its authors ask them.

The package needs an environment of its own. The folder is what `modelscope download --model` leaves of
damo/mplug_visual-question-answering_coco_large_en. The package opens the PyTorch pickle in it, so it must be one that
you trust.
"""

from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image

from workflow_scripts.errors import UserError
from workflow_scripts.model_folders import local_folder
from workflow_scripts.spec import ScorerModel

TASK = "visual-question-answering"


class QuestionAnswerer:
    """DPG-Bench's questions, one by one: the package takes no batches."""

    def __init__(self, source: ScorerModel, batch: int, serving: Any = None) -> None:
        folder = local_folder(source)
        try:
            from modelscope.pipelines import pipeline
        except ImportError as error:
            raise UserError(
                "dpg_bench: `through: modelscope` needs ModelScope's package, in an environment of its own: "
                f"pip install 'modelscope[multi-modal]' ({error})"
            ) from None
        self._ask = pipeline(TASK, model=str(folder), device="gpu" if torch.cuda.is_available() else "cpu")

    def answers(self, asked: Sequence[tuple[Image.Image, str]]) -> list[str]:
        """What the model says."""
        return [self._ask({"image": picture, "question": question})["text"] for picture, question in asked]
