"""Model FLOPs of LLaVA's training: what the mathematics needs, whatever the hardware does.

A weight matrix costs 2 FLOPs an element and token forward, as much again for the gradient of its input, and as much
for its own (6N of Kaplan et al. 2020). Attention costs 4 x width FLOPs a pair of tokens and layer forward, twice that
backward, the causal mask not taken off (Chowdhery et al. 2022, appendix B). What is frozen has no gradient of its own;
what lies before everything that learns has none at all. Embeddings looked up, norms and the softmax are left out.
"""

import re

from torch import nn
from transformers import LlavaForConditionalGeneration

from workflow_scripts.vlm.model import module_of, num_layers_read

_VISION, _PROJECTOR, _LANGUAGE = range(3)


def training_flops(model: LlavaForConditionalGeneration, num_image_tokens: int) -> dict[str, float]:
    """Forward and backward FLOPs of one of each thing that a batch counts: `tokens` and `pairs` (the sum of squared
    lengths) of the language model, `images`. Which parameters learn is as `freeze` left them."""
    forward, backward = _flops(model, num_image_tokens)
    return {name: forward[name] + backward[name] for name in forward}


def forward_flops(model: LlavaForConditionalGeneration, num_image_tokens: int) -> dict[str, float]:
    """The forward part of `training_flops`."""
    return _flops(model, num_image_tokens)[0]


def _flops(model: LlavaForConditionalGeneration, num_image_tokens: int) -> tuple[dict[str, float], dict[str, float]]:
    vision, text, num_read = model.config.vision_config, model.config.text_config, num_layers_read(model.config)
    first = min(_place(name) for name, parameter in model.named_parameters() if parameter.requires_grad)
    num_patches = (vision.image_size // vision.patch_size) ** 2
    # CLIP has a position more than patches.
    num_positions = next(
        module.num_embeddings for name, module in model.named_modules() if name.endswith("position_embedding")
    )
    forward, backward = ({"tokens": 0.0, "pairs": 0.0, "images": 0.0} for _ in range(2))

    def add(unit: str, cost: float, num_gradients: int) -> None:
        forward[unit] += cost
        backward[unit] += cost * num_gradients

    for name, module in model.named_modules():
        if not isinstance(module, nn.Linear | nn.Conv2d):
            continue
        part, layer = place = _place(f"{name}.")
        if part == _VISION and layer >= num_read:
            continue
        weight = module.weight
        times = {_VISION: num_positions, _PROJECTOR: num_image_tokens, _LANGUAGE: 1}[part]
        times = num_patches if isinstance(module, nn.Conv2d) else times
        cost = 2.0 * getattr(weight, "ds_numel", weight.numel()) * times
        add("tokens" if part == _LANGUAGE else "images", cost, (place >= first) + weight.requires_grad)
    for layer in range(num_read):
        add("images", 4.0 * vision.hidden_size * num_positions**2, 2 * ((_VISION, layer) >= first))
    head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    add("pairs", 4.0 * text.num_attention_heads * head * text.num_hidden_layers, 2)
    return forward, backward


def _place(name: str) -> tuple[int, int]:
    """Where a part lies on the way of an image to the loss: (module, layer); embeddings before layers, heads after."""
    part = {"vision": _VISION, "projector": _PROJECTOR, "language": _LANGUAGE}[module_of(name)]
    layer = re.search(r"\.layers\.(\d+)\.", name)
    if layer:
        return part, int(layer[1])
    return part, -1 if re.search(r"embed|\.pre_layrnorm", name) else 1_000_000
