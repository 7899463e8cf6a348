"""The processor: an image is four patches of one pixel."""

import numpy as np
import torch
from transformers import AutoTokenizer, BatchFeature


class ToldProcessor:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    @classmethod
    def register_for_auto_class(cls, auto_class="AutoProcessor"):
        pass

    @classmethod
    def from_pretrained(cls, folder, **kwargs):
        return cls(AutoTokenizer.from_pretrained(folder, local_files_only=True))

    def apply_chat_template(self, messages, **kwargs):
        return self.tokenizer.apply_chat_template(messages, **kwargs)

    def __call__(self, text, images, padding, return_tensors, add_special_tokens):
        patches = [np.asarray(image.resize((2, 2))).reshape(4, 3) / 255 for image in images]
        text = [line.replace("<image>", "<image> <image> <image> <image>") for line in text]
        tokens = self.tokenizer(text, padding=padding, return_tensors="pt", add_special_tokens=add_special_tokens)
        pixels = torch.tensor(np.concatenate(patches), dtype=torch.float32)
        return BatchFeature(
            {**tokens, "pixel_values": pixels, "image_grid_thw": torch.tensor([[1, 2, 2]] * len(images))}
        )
