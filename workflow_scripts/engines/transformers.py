"""Text from a model of Transformers: any image-text-to-text folder, LLaVA's for one, or a language model.

It must also run on the older Transformers that a model's own code may need: see envs/remote.txt.
"""

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoProcessor,
    AutoTokenizer,
    GenerationConfig,
)

from workflow_scripts.engines.interface import Answer, Picture, Request
from workflow_scripts.engines.remote_code import encode_images_alone, loading, loading_options
from workflow_scripts.engines.sampling import processors
from workflow_scripts.engines.weights import require_safetensors
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json
from workflow_scripts.plan import EngineJob, ServingJob

log = logging.getLogger("capsweep")

LARGEST_BATCH = 256  # requests at once, halved for good when the GPU's memory runs out; answers do not depend on it
_IMAGE_CONFIGS = ("processor_config.json", "preprocessor_config.json")


class Engine:
    """One model on one device. Sampling settings are the config's alone: the folder's own defaults are not used.

    A JSON schema is not enforced; `facts` count how many were asked for.
    """

    reads_images = True

    def __init__(self, job: EngineJob, serving: ServingJob, pictures: Sequence[Picture]) -> None:
        folder = job.model.path
        require_safetensors(folder)
        self.facts: dict[str, Any] = {"transformers": {"schemas_not_enforced": 0}}
        self._job = job
        self._waiting: list[Request] = []
        options = loading_options(folder, job.remote_code)
        with_images = any((folder / name).is_file() for name in _IMAGE_CONFIGS)
        with loading(folder, job.remote_code):
            reader = AutoProcessor if with_images else AutoTokenizer
            self._processor = reader.from_pretrained(folder, **options)
            self._model = _load(folder, with_images, options)
        self._tokenizer = self._processor.tokenizer if with_images else self._processor
        self._tokenizer.padding_side = "left"
        # Nobody has tested that code with several images; answers must not depend on a request's neighbours.
        self._batch = 1 if job.remote_code and not encode_images_alone(self._model) else LARGEST_BATCH
        ends = self._model.generation_config.eos_token_id
        if ends is None:
            ends = self._tokenizer.eos_token_id
        self._ends = ends if isinstance(ends, list) else [ends]
        pad = self._tokenizer.pad_token_id
        if pad is None:
            pad = self._tokenizer.pad_token_id = self._ends[0]
        self._model.generation_config = GenerationConfig(do_sample=False, eos_token_id=self._ends, pad_token_id=pad)

    def room(self) -> int:
        """What is left of a batch."""
        return self._batch - len(self._waiting)

    def submit(self, request: Request) -> None:
        """Put a request into the next batch."""
        self.facts["transformers"]["schemas_not_enforced"] += request.schema is not None
        self._waiting.append(request)

    def collect(self) -> list[tuple[Request, Answer]]:
        """Answer the requests that can share a batch with the first: drawn alike, all with images or all without."""
        if not self._waiting:
            return []
        kind = _kind(self._waiting[0])
        batch = [request for request in self._waiting if _kind(request) == kind][: self._batch]
        try:
            answers = self._answer(batch)
        except torch.OutOfMemoryError:
            if len(batch) == 1:
                raise UserError(
                    f"{self._job.model.path}: one request exceeds the GPU's memory; lower max_pixels or max_model_len"
                ) from None
            self._batch = len(batch) // 2
            torch.cuda.empty_cache()
            log.warning("GPU memory ran out, from now on %d requests at once", self._batch)
            return self.collect()
        taken = {id(request) for request in batch}
        self._waiting = [request for request in self._waiting if id(request) not in taken]
        return list(zip(batch, answers, strict=True))

    def count_tokens(self, text: str) -> int:
        """Tokens of a text by the model's tokenizer."""
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def close(self) -> None:
        """Free the model."""
        del self._model

    @torch.inference_mode()
    def _answer(self, requests: Sequence[Request]) -> list[Answer]:
        texts = [self._write(request) for request in requests]
        bos = self._tokenizer.bos_token
        common = {
            "padding": True,
            "return_tensors": "pt",
            "add_special_tokens": not (bos and texts[0].startswith(bos)),
        }
        if requests[0].images:
            images = [image for request in requests for image in request.images]
            inputs = self._processor(text=texts, images=images, **common).to(self._model.device, self._model.dtype)
        else:
            inputs = self._tokenizer(texts, **common).to(self._model.device)
        inputs.pop("token_type_ids", None)
        width = inputs["input_ids"].shape[1]
        lengths = inputs["attention_mask"].sum(1).tolist()
        limits = [
            min(request.max_tokens, self._job.max_model_len - length)
            for request, length in zip(requests, lengths, strict=True)
        ]
        if max(limits) < 1:
            return [self._too_long(length) for length in lengths]
        tokens = self._model.generate(
            **inputs,
            max_new_tokens=max(limits),
            logits_processor=processors(requests[0].sampling, [request.seed for request in requests], width),
        )
        return [
            self._finish(answer, limit, length) if limit > 0 else self._too_long(length)
            for answer, limit, length in zip(tokens[:, width:].tolist(), limits, lengths, strict=True)
        ]

    def _write(self, request: Request) -> str:
        """The request as the chat template writes it."""
        writer, content = self._tokenizer, request.text
        if request.images:
            writer, content = self._processor, [_part(part) for part in request.parts()]
        messages = [{"role": "user", "content": content}]
        if request.system is not None:
            messages.insert(0, {"role": "system", "content": request.system})
        return writer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=False, **self._job.chat_template_kwargs
        )

    def _finish(self, tokens: list[int], limit: int, prompt: int) -> Answer:
        """An answer from generated tokens (an end token and padding may follow it)."""
        end = next((position for position, token in enumerate(tokens) if token in self._ends), math.inf)
        stopped = end < limit
        kept = tokens[: end if stopped else limit]
        text = self._tokenizer.decode(kept, skip_special_tokens=True).strip()
        return Answer(text, len(kept), "stop" if stopped else "length", num_prompt_tokens=prompt)

    def _too_long(self, tokens: int) -> Answer:
        fault = f"prompt of {tokens} tokens fills max_model_len {self._job.max_model_len}"
        return Answer(None, error=fault, too_long=True)


def _kind(request: Request) -> tuple[Any, bool]:
    return request.sampling, bool(request.images)


def _part(part: str | Image.Image) -> dict[str, str]:
    return {"type": "text", "text": part} if isinstance(part, str) else {"type": "image"}


def _load(folder: Path, with_images: bool, options: dict[str, Any]) -> torch.nn.Module:
    """The model of a folder, on the GPU where there is one. Raises UserError where a weight is absent or misshapen."""
    loader = AutoModelForImageTextToText if with_images else AutoModelForCausalLM
    if options["trust_remote_code"] and "AutoModelForCausalLM" in read_json(folder / "config.json").get("auto_map", {}):
        loader = AutoModelForCausalLM  # where LLaVA-OneVision-1.5 names its class, which reads images
    model, loading = loader.from_pretrained(
        folder, use_safetensors=True, torch_dtype="auto", output_loading_info=True, **options
    )
    for key, what in (("missing_keys", "lacks"), ("mismatched_keys", "has a wrong shape of")):
        if loading[key]:
            names = sorted(map(str, loading[key]))
            raise UserError(f"{folder}: the checkpoint {what} {len(names)} weights, such as {names[0]}")
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
