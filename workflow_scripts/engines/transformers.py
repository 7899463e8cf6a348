"""Captions from a vision-language model of Transformers: any image-text-to-text folder, LLaVA's for one."""

import logging
import math
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor, GenerationConfig

from workflow_scripts.engines import Caption, Picture
from workflow_scripts.engines.pictures import read_pictures
from workflow_scripts.engines.sampling import processors
from workflow_scripts.errors import UserError
from workflow_scripts.plan import CaptionJob

log = logging.getLogger("capsweep")

LARGEST_BATCH = 256  # images at once, halved for good when the GPU's memory runs out; captions do not depend on it


class Engine:
    """One model on one device. Sampling settings are the config's alone: the folder's own defaults are not used."""

    def __init__(self, job: CaptionJob, pictures: Sequence[Picture]) -> None:
        self.facts: dict[str, Any] = {}
        self._job, self._batch = job, LARGEST_BATCH
        folder = job.model.path
        if not any(folder.glob("*.safetensors")):
            raise UserError(f"{folder}: holds no .safetensors file; weights in other formats can carry code")
        self._processor = AutoProcessor.from_pretrained(folder, local_files_only=True)
        self._processor.tokenizer.padding_side = "left"
        self._model = _load(folder)
        ends = self._model.generation_config.eos_token_id
        if ends is None:
            ends = self._processor.tokenizer.eos_token_id
        self._ends = ends if isinstance(ends, list) else [ends]
        pad = self._processor.tokenizer.pad_token_id
        self._model.generation_config = GenerationConfig(
            do_sample=False, eos_token_id=self._ends, pad_token_id=self._ends[0] if pad is None else pad
        )
        conversation = [
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": job.prompt}]},
        ]
        self._prompt = self._processor.apply_chat_template(
            conversation, add_generation_prompt=True, tokenize=False, **job.chat_template_kwargs
        )

    def caption(self, pictures: Sequence[Picture]) -> list[Caption]:
        """Batches as large as fit."""
        captions: list[Caption] = []
        while len(captions) < len(pictures):
            batch = pictures[len(captions) : len(captions) + self._batch]
            try:
                captions += self._caption_batch(batch)
            except torch.OutOfMemoryError:
                if self._batch == 1:
                    raise UserError(f"{batch[0].path}: one image exceeds the GPU's memory; lower max_pixels") from None
                self._batch = max(1, len(batch) // 2)
                torch.cuda.empty_cache()
                log.warning("GPU memory ran out, from now on %d images at once", self._batch)
        return captions

    def _caption_batch(self, pictures: Sequence[Picture]) -> list[Caption]:
        images, captions = read_pictures(pictures, self._job.max_pixels)
        if images:
            ids = [pictures[position].image_id for position in images]
            captions |= dict(zip(images, self._generate(list(images.values()), ids), strict=True))
        return [captions[position] for position in range(len(pictures))]

    @torch.inference_mode()
    def _generate(self, images: list[Image.Image], image_ids: list[str]) -> list[Caption]:
        bos = self._processor.tokenizer.bos_token
        inputs = self._processor(
            text=[self._prompt] * len(images),
            images=images,
            padding=True,
            return_tensors="pt",
            add_special_tokens=not (bos and self._prompt.startswith(bos)),
        ).to(self._model.device, self._model.dtype)
        width = inputs["input_ids"].shape[1]
        rooms = (self._job.max_model_len - inputs["attention_mask"].sum(1)).tolist()  # tokens left for each answer
        limits = [min(self._job.max_new_tokens, room) for room in rooms]
        if max(limits) < 1:
            return [self._too_long(room) for room in rooms]
        tokens = self._model.generate(
            **inputs,
            max_new_tokens=max(limits),
            logits_processor=processors(self._job.sampling, image_ids, width),
        )
        answers = tokens[:, width:].tolist()
        return [
            self._finish(answer, limit) if limit > 0 else self._too_long(room)
            for answer, limit, room in zip(answers, limits, rooms, strict=True)
        ]

    def _finish(self, tokens: list[int], limit: int) -> Caption:
        """A caption from generated tokens (an end token and padding may follow it)."""
        end = next((position for position, token in enumerate(tokens) if token in self._ends), math.inf)
        stopped = end < limit
        kept = tokens[: end if stopped else limit]
        text = self._processor.tokenizer.decode(kept, skip_special_tokens=True).strip()
        return Caption(text, len(kept), "stop" if stopped else "length")

    def _too_long(self, room: int) -> Caption:
        tokens = self._job.max_model_len - room
        return Caption(None, error=f"prompt of {tokens} tokens fills max_model_len {self._job.max_model_len}")


def _load(folder: Any) -> torch.nn.Module:
    """The model of a folder, on the GPU where there is one. Raises UserError where a weight is absent or misshapen."""
    model, loading = AutoModelForImageTextToText.from_pretrained(
        folder, local_files_only=True, use_safetensors=True, dtype="auto", output_loading_info=True
    )
    for key, what in (("missing_keys", "lacks"), ("mismatched_keys", "has a wrong shape of")):
        if loading[key]:
            names = sorted(map(str, loading[key]))
            raise UserError(f"{folder}: the checkpoint {what} {len(names)} weights, such as {names[0]}")
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
