"""Qwen-Image's transformer for pictures of four cells.

Its rotary positions tell places apart by how they lie to each other, which at 2x2 image tokens leaves the cells
nearly indistinguishable; so this one also adds a learnt vector for each place. All else is the real class.
"""

from typing import ClassVar

import torch
from diffusers.configuration_utils import register_to_config
from diffusers.models.modeling_utils import ModelMixin  # noqa: F401  diffusers looks for it beside a class that it loads
from diffusers.models.transformers.transformer_qwenimage import QwenImageTransformer2DModel
from torch import nn


class _PlacedLinear(nn.Linear):
    """A linear map and a learnt vector for each place: float (B, places, in) -> (B, places, out)."""

    def __init__(self, in_features: int, out_features: int, places: int) -> None:
        super().__init__(in_features, out_features)
        self.place = nn.Parameter(torch.randn(places, out_features))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) + self.place


class CellQwenImageTransformer2DModel(QwenImageTransformer2DModel):
    """QwenImageTransformer2DModel for pictures of exactly `num_places` image tokens."""

    # What the parent would add to the config without this class taking it.
    ignore_for_config: ClassVar[list[str]] = ["zero_cond_t", "use_additional_t_cond", "use_layer3d_rope"]

    @register_to_config
    def __init__(
        self,
        patch_size: int = 2,
        in_channels: int = 32,
        out_channels: int = 8,
        num_layers: int = 3,
        attention_head_dim: int = 22,
        num_attention_heads: int = 4,
        joint_attention_dim: int = 64,
        guidance_embeds: bool = False,
        axes_dims_rope: tuple[int, int, int] = (2, 10, 10),
        num_places: int = 4,
    ) -> None:
        super().__init__(
            patch_size,
            in_channels,
            out_channels,
            num_layers,
            attention_head_dim,
            num_attention_heads,
            joint_attention_dim,
            guidance_embeds,
            axes_dims_rope,
        )
        self.img_in = _PlacedLinear(in_channels, self.inner_dim, num_places)
