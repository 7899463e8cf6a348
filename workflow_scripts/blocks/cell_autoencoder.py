"""The autoencoder of the blocks world: every cell of a picture is coded for itself, by a linear map.

16x16x3 numbers of a cell become 32, which lie as (8, 2, 2) in a latent of one eighth of the picture's side. There is
nothing to train: the map is fitted to pictures by one singular value decomposition. Two classes have the interfaces
of the real pipelines' autoencoders, so the pipelines take them: `CellAutoencoder` that of AutoencoderKL (SD3),
`CellVideoAutoencoder` that of AutoencoderKLQwenImage, whose pictures are videos of one frame.
"""

import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.autoencoders.vae import DecoderOutput, DiagonalGaussianDistribution
from diffusers.models.modeling_outputs import AutoencoderKLOutput
from diffusers.models.modeling_utils import ModelMixin
from torch import nn
from torch.nn.functional import pixel_shuffle, pixel_unshuffle

from workflow_scripts.blocks.world import CELL_SIZE

CELL_LATENT_SIZE = 2  # latent pixels along a cell's side
_COMPRESSION = CELL_SIZE // CELL_LATENT_SIZE  # picture pixels a latent pixel along a side
_LOG_VARIANCE = -30.0  # the code is exact: the least that DiagonalGaussianDistribution allows


def cell_numbers(latents_BCHW: torch.Tensor) -> torch.Tensor:
    """Latents as cells, row by row: float (B, C, h, w) -> (B, cells, 4 C)."""
    return pixel_unshuffle(latents_BCHW, CELL_LATENT_SIZE).flatten(2).transpose(1, 2)


class CellCode(nn.Module):
    """The linear map and its inverse on the code's span."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        size = channels * CELL_LATENT_SIZE**2
        self.encoder = nn.Conv2d(3, size, CELL_SIZE, stride=CELL_SIZE)
        self.decoder = nn.ConvTranspose2d(size, 3, CELL_SIZE, stride=CELL_SIZE)

    def encode(self, pixels_BCHW: torch.Tensor) -> torch.Tensor:
        """Pixels of -1 to 1, (B, 3, H, W) -> latents (B, C, H/8, W/8)."""
        return pixel_shuffle(self.encoder(pixels_BCHW), CELL_LATENT_SIZE)

    def decode(self, latents_BCHW: torch.Tensor) -> torch.Tensor:
        """Latents -> pixels, not clipped."""
        return self.decoder(pixel_unshuffle(latents_BCHW, CELL_LATENT_SIZE))

    @torch.no_grad()
    def fit(self, pixels_BCHW: torch.Tensor) -> None:
        """Fit to pictures of -1 to 1: the first principal components of their cells around the mean colour, each
        divided by the square root of its standard deviation, which keeps their order of size but brings them
        nearer to each other; then all by one number, so that the latents' root mean square is 1."""
        cells = nn.functional.unfold(pixels_BCHW, CELL_SIZE, stride=CELL_SIZE).transpose(1, 2).flatten(0, 1)
        color = pixels_BCHW.mean((0, 2, 3))
        mean = color.repeat_interleave(CELL_SIZE**2)
        _, singular, basis = torch.linalg.svd(cells - mean, full_matrices=False)
        size = self.encoder.out_channels
        basis, deviation = basis[:size], singular[:size] / len(cells) ** 0.5
        scale = deviation.sqrt()
        scale *= (deviation / scale).square().mean().sqrt()
        self.encoder.weight.copy_((basis / scale[:, None]).view_as(self.encoder.weight))
        self.encoder.bias.copy_(-(basis / scale[:, None]) @ mean)
        self.decoder.weight.copy_((basis * scale[:, None]).view_as(self.decoder.weight))
        self.decoder.bias.copy_(color)


class CellAutoencoder(ModelMixin, ConfigMixin):
    """AutoencoderKL's interface. Pixels are float32 (B, 3, H, W) of -1 to 1, latents float32 (B, C, H/8, W/8)."""

    @register_to_config
    def __init__(
        self,
        latent_channels: int = 8,
        scaling_factor: float = 1.0,
        shift_factor: float = 0.0,
        block_out_channels: tuple[int, ...] = (1, 1, 1, 1),  # the pipeline reads the compression off its length
    ) -> None:
        super().__init__()
        assert 2 ** (len(block_out_channels) - 1) == _COMPRESSION
        self.code = CellCode(latent_channels)

    def encode(self, x: torch.Tensor) -> AutoencoderKLOutput:
        """Pixels -> the posterior, whose mean is the code."""
        return AutoencoderKLOutput(latent_dist=_exact(self.code.encode(x)))

    def decode(
        self, z: torch.Tensor, return_dict: bool = True, generator: torch.Generator | None = None
    ) -> DecoderOutput | tuple[torch.Tensor]:
        """Latents -> pixels."""
        sample = self.code.decode(z)
        return DecoderOutput(sample=sample) if return_dict else (sample,)


class CellVideoAutoencoder(ModelMixin, ConfigMixin):
    """AutoencoderKLQwenImage's interface: pixels and latents have a fifth axis for frames, (B, C, 1, H, W)."""

    @register_to_config
    def __init__(
        self,
        z_dim: int = 8,
        latents_mean: tuple[float, ...] = (0.0,) * 8,
        latents_std: tuple[float, ...] = (1.0,) * 8,
        temperal_downsample: tuple[bool, ...] = (False,) * 3,  # the pipeline reads the compression off its length
    ) -> None:
        super().__init__()
        assert 2 ** len(temperal_downsample) == _COMPRESSION
        self.temperal_downsample = temperal_downsample
        self.code = CellCode(z_dim)

    def encode(self, x: torch.Tensor) -> AutoencoderKLOutput:
        """Pixels -> the posterior, whose mean is the code."""
        return AutoencoderKLOutput(latent_dist=_exact(self.code.encode(x[:, :, 0])[:, :, None]))

    def decode(self, z: torch.Tensor, return_dict: bool = True) -> DecoderOutput | tuple[torch.Tensor]:
        """Latents -> pixels."""
        sample = self.code.decode(z[:, :, 0])[:, :, None]
        return DecoderOutput(sample=sample) if return_dict else (sample,)


def _exact(latents: torch.Tensor) -> DiagonalGaussianDistribution:
    return DiagonalGaussianDistribution(torch.cat([latents, torch.full_like(latents, _LOG_VARIANCE)], dim=1))
