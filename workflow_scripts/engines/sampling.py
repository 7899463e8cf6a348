"""Draw tokens so that an image's caption depends on the image and the seed, not on its neighbours in the batch.

Sampling from softmax(scores / temperature) equals taking the largest of `scores / temperature - log E`, with one
standard exponential E a token (the Gumbel-max trick; Maddison, Tarlow and Minka 2014). Each row draws its E from a
generator of its own, and plain greedy decoding does the rest.
"""

from collections.abc import Sequence

import torch
from transformers.generation.logits_process import (
    LogitsProcessor,
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from workflow_scripts.spec import Sampling


class PresencePenalty(LogitsProcessor):
    """Subtract a constant from the score of every token that the answer already has, as OpenAI's API and vLLM do."""

    def __init__(self, penalty: float, prompt_length: int) -> None:
        self._penalty, self._prompt_length = penalty, prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """`input_ids` int64 (B, prompt + answer so far), `scores` (B, V) -> (B, V)."""
        seen = torch.zeros_like(scores).scatter_(1, input_ids[:, self._prompt_length :], 1.0)
        return scores - self._penalty * seen


class RowNoise(LogitsProcessor):
    """Add each row's own Gumbel noise, so that the largest score is a draw from the softmax."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """`scores` (B, V) -> float32 (B, V)."""
        draws = [torch.empty(scores.shape[1]).exponential_(generator=generator) for generator in self._generators]
        return scores.float() - torch.stack(draws).log().to(scores.device)


def processors(sampling: Sampling, seeds: Sequence[int], prompt_length: int) -> LogitsProcessorList:
    """What makes the largest of a batch's scores the next token: penalty, temperature, top-k, top-p, noise.

    `seeds` are those of the rows, 0 to 2^63 - 1.
    """
    chain = LogitsProcessorList()
    if sampling.presence_penalty:
        chain.append(PresencePenalty(sampling.presence_penalty, prompt_length))
    if sampling.temperature == 0:
        return chain
    chain.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k:
        chain.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        chain.append(TopPLogitsWarper(sampling.top_p))
    chain.append(RowNoise(seeds))
    return chain
