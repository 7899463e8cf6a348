"""Samples to the tensors that LLaVA reads: token ids with image tokens, label masks, pixels.

Suffixes: N samples of a batch, L tokens of the longest, I samples with an image, S side of the image in pixels.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import LlavaProcessor

from workflow_scripts.errors import UserError
from workflow_scripts.images import require_rgb
from workflow_scripts.vlm.data import Sample

IGNORED = -100  # the label of a token that is not learnt


class Batches:
    """A collator: samples in, a batch of the model's inputs out.

    The chat template writes the turns and marks what the assistant says (`{% generation %}`): those tokens carry
    labels, all others IGNORED. The image mark becomes as many tokens as the tower gives features. A sample longer
    than `max_length` is cut on the right; one of whose answers nothing is left stays, as in LLaVA, and teaches nothing.
    """

    def __init__(self, processor: LlavaProcessor, max_length: int) -> None:
        self.processor, self.tokenizer = processor, processor.tokenizer
        self.max_length = max_length
        self.image_token_id = processor.image_token_id
        blank = processor(images=Image.new("RGB", (8, 8)), text=processor.image_token, return_tensors="pt")
        self.num_image_tokens = int((blank["input_ids"] == self.image_token_id).sum())
        self._blank = blank["pixel_values"]

    def __call__(self, samples: Sequence[Sample]) -> dict[str, Any]:
        """input_ids, attention_mask, labels: int64 (N, L), padded on the right; pixel_values: float32 (I, 3, S, S);
        counts: how many samples, of them cut and unlearnt (no label is left), tokens, pairs of tokens of a sample, and
        images. Raises UserError naming the sample whose image does not read or is cut, or as `encode` does.

        Where no sample has an image, a blank one stands in the first row's padding, where nothing sees it: under
        ZeRO-3 a process that passed over the vision tower would let the others wait for its weights for ever.
        """
        whole = self.encode(samples)
        encoded = [self._cut(sample, ids, labels) for sample, (ids, labels) in zip(samples, whole, strict=True)]
        images = [image for sample in samples for image in self._images(sample)]
        lengths = [len(ids) for ids, _ in encoded]
        longest = max(lengths)
        blank = 0 if images else self.num_image_tokens
        batch: dict[str, Any] = pad([ids for ids, _ in encoded], self.tokenizer.pad_token_id, "right", longest + blank)
        batch["labels"] = pad([labels for _, labels in encoded], IGNORED, "right", longest + blank)["input_ids"]
        if blank:
            batch["input_ids"][0, longest:] = self.image_token_id
        batch["pixel_values"] = self._scaled(images) if images else self._blank.clone()
        batch["counts"] = {
            "samples": len(samples),
            "cut": sum(len(ids) > self.max_length for ids, _ in whole),
            "unlearnt": sum(set(labels) == {IGNORED} for _, labels in encoded),
            "tokens": sum(lengths),
            "pairs": sum(length**2 for length in lengths),
            "images": len(images),
        }
        return batch

    def encode(self, samples: Sequence[Sample]) -> list[tuple[list[int], list[int]]]:
        """(token ids, labels) of each sample, of equal length, uncut. Raises UserError naming a sample whose image
        tokens do not fit its images."""
        chats = [_messages(len(sample.images), sample.turns) for sample in samples]
        written = self.tokenizer.apply_chat_template(
            chats, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
        )
        encoded = []
        for sample, ids, said in zip(samples, written["input_ids"], written["assistant_masks"], strict=True):
            labels = [token if mask else IGNORED for token, mask in zip(ids, said, strict=True)]
            encoded.append(self._expand(sample, ids, labels))
        return encoded

    def _cut(self, sample: Sample, ids: list[int], labels: list[int]) -> tuple[list[int], list[int]]:
        """The first `max_length` tokens. Raises UserError naming a sample whose images they do not hold."""
        if self.image_token_id in ids[self.max_length :]:
            needed = len(sample.images) * self.num_image_tokens
            raise UserError(
                f"sample {sample.key}: its {needed} image tokens are not all in the first {self.max_length} tokens: "
                "raise max_length"
            )
        return ids[: self.max_length], labels[: self.max_length]

    def prompts(self, questions: Sequence[tuple[Path, str]]) -> list[list[int]]:
        """Token ids up to where the answer begins, for (image, question) pairs."""
        samples = [Sample(question, (image,), ((question, ""),)) for image, question in questions]
        chats = [_messages(1, sample.turns)[:1] for sample in samples]
        written = self.tokenizer.apply_chat_template(
            chats, tokenize=True, return_dict=True, add_generation_prompt=True
        )["input_ids"]
        return [self._expand(sample, ids, ids)[0] for sample, ids in zip(samples, written, strict=True)]

    def pixels(self, paths: Sequence[Path]) -> torch.Tensor:
        """float32 (I, 3, S, S), as the processor scales them. Raises UserError naming a file that is no image."""
        return self._scaled([require_rgb(path) for path in paths])

    def _images(self, sample: Sample) -> list[Image.Image]:
        try:
            return [require_rgb(path) for path in sample.images]
        except UserError as error:
            raise UserError(f"sample {sample.key}: {error}") from None

    def _scaled(self, images: Sequence[Image.Image]) -> torch.Tensor:
        processor = self.processor.image_processor
        side = processor.size["height"]
        # Resizing to the same size costs as much as all the rest.
        resize = any(image.size != (side, side) for image in images)
        return processor(images, do_resize=resize, return_tensors="pt")["pixel_values"]

    def _expand(self, sample: Sample, ids: list[int], labels: list[int]) -> tuple[list[int], list[int]]:
        """Each image mark as the tokens of an image."""
        marks = ids.count(self.image_token_id)
        if marks != len(sample.images):
            raise UserError(f"sample {sample.key}: {marks} image tokens in its text for {len(sample.images)} images")
        more = self.num_image_tokens
        times = [more if token == self.image_token_id else 1 for token in ids]
        return (
            [token for token, n in zip(ids, times, strict=True) for _ in range(n)],
            [label for label, n in zip(labels, times, strict=True) for _ in range(n)],
        )


def pad(rows: list[list[int]], value: int, side: str, length: int | None = None) -> dict[str, torch.Tensor]:
    """Rows of tokens as input_ids and attention_mask, int64 (N, L), filled up with `value` on `side`; L is `length`,
    or that of the longest row."""
    length = length or max(map(len, rows))
    left = side == "left"

    def filled(row: list[int], filler: int) -> list[int]:
        gap = [filler] * (length - len(row))
        return gap + row if left else row + gap

    return {
        "input_ids": torch.tensor([filled(row, value) for row in rows]),
        "attention_mask": torch.tensor([filled([1] * len(row), 0) for row in rows]),
    }


def _messages(num_images: int, turns: Sequence[tuple[str, str]]) -> list[dict]:
    """The turns as a chat template reads them; the images stand first."""
    messages = []
    for human, assistant in turns:
        images = [{"type": "image"}] * (num_images if not messages else 0)
        messages.append({"role": "user", "content": [*images, {"type": "text", "text": human}]})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": assistant}]})
    return messages
