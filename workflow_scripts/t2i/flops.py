"""Model FLOPs of a text-to-image transformer's training, of the kind where image and text are two streams of tokens
with weights of their own that attend together (Esser et al. 2024).

A weight matrix costs 2 FLOPs an element and token of its stream forward (modulations and the time's embedding: once a
sample), attention 4 x width a pair of tokens and layer; backward costs twice the forward pass, since all weights learn
(6N of Kaplan et al. 2020; Chowdhery et al. 2022, appendix B). Norms and the softmax are left out.
"""

import re

from torch import nn

_ONCE_A_SAMPLE = re.compile(r"norm1|_mod\.|time_text_embed|norm_out")
_OF_TEXT = re.compile(r"context|txt_|add_")


def training_flops(transformer: nn.Module) -> dict[str, float]:
    """Forward and backward FLOPs of one of each thing that a batch counts: `samples`, `image_tokens`, `text_tokens`,
    `pairs` (the sum of squared lengths of both together), `image_pairs`."""
    return {name: 3 * cost for name, cost in forward_flops(transformer).items()}


def forward_flops(transformer: nn.Module) -> dict[str, float]:
    """The forward part of `training_flops`."""
    flops = dict.fromkeys(("samples", "image_tokens", "text_tokens", "pairs", "image_pairs"), 0.0)
    for name, module in transformer.named_modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            unit = (
                "samples" if _ONCE_A_SAMPLE.search(name) else "text_tokens" if _OF_TEXT.search(name) else "image_tokens"
            )
            flops[unit] += 2.0 * getattr(module.weight, "ds_numel", module.weight.numel())
    width = transformer.config.num_attention_heads * transformer.config.attention_head_dim
    for block in transformer.transformer_blocks:
        flops["pairs"] += 4.0 * width
        if getattr(block, "attn2", None) is not None:  # SD3.5's second attention, of the image alone
            flops["image_pairs"] += 4.0 * width
    return flops
