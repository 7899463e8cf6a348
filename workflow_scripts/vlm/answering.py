"""A model's answers to questions about images: written freely, or the likeliest of given options."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from transformers import LlavaForConditionalGeneration

from workflow_scripts.vlm.batches import IGNORED, Batches, pad
from workflow_scripts.vlm.data import Sample

_BATCH = 256  # questions at once

Asked = tuple[Path, str]  # image, question


@torch.inference_mode()
def write_answers(
    model: LlavaForConditionalGeneration, batches: Batches, asked: Sequence[Asked], max_new_tokens: int
) -> list[str]:
    """Greedy answers, without special tokens. Batches hold prompts of like length, padded on the left."""
    if not asked:
        return []
    prompts, answers = batches.prompts(asked), [""] * len(asked)
    order = sorted(range(len(asked)), key=lambda i: len(prompts[i]))
    for first in range(0, len(order), _BATCH):
        chosen = order[first : first + _BATCH]
        inputs = pad([prompts[i] for i in chosen], batches.tokenizer.pad_token_id, "left")
        inputs["pixel_values"] = batches.pixels([asked[i][0] for i in chosen])
        inputs = {name: tensor.to(model.device) for name, tensor in inputs.items()}
        tokens = model.generate(**inputs, max_new_tokens=max_new_tokens, do_sample=False)
        texts = batches.tokenizer.batch_decode(tokens[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        for i, text in zip(chosen, texts, strict=True):
            answers[i] = text.strip()
    return answers


@torch.inference_mode()
def choose(
    model: LlavaForConditionalGeneration,
    batches: Batches,
    asked: Sequence[Asked],
    options: Sequence[Sequence[str]],
) -> list[int]:
    """The option, by index, that the model holds for the likeliest whole answer to each question."""
    rows = [
        Sample(f"{question} {option}", (image,), ((question, option),))
        for (image, question), choices in zip(asked, options, strict=True)
        for option in choices
    ]
    likelihoods: list[float] = []
    for first in range(0, len(rows), _BATCH):
        batch = batches(rows[first : first + _BATCH])
        del batch["counts"]
        inputs = {name: tensor.to(model.device) for name, tensor in batch.items()}
        labels = inputs.pop("labels")
        likelihoods += log_likelihoods(model(**inputs).logits, labels).tolist()
    chosen, at = [], 0
    for choices in options:
        scores = likelihoods[at : at + len(choices)]
        chosen.append(scores.index(max(scores)))
        at += len(choices)
    return chosen


def log_likelihoods(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """float (N,): the sum of log-probabilities of the labelled tokens, from logits (N, L, V) and labels (N, L), where
    the logits at a position are about the next token."""
    losses = cross_entropy(
        logits[:, :-1].float().transpose(1, 2), labels[:, 1:], ignore_index=IGNORED, reduction="none"
    )
    return -losses.sum(1)
