"""Flow matching: what a text-to-image transformer is trained on, the same for every captioner but for the caption.

A noisy latent is x = (1 - s) x0 + s e with noise e and noise level s; the transformer learns the velocity e - x0
(Lipman et al. 2023, Esser et al. 2024). Training goes through a fixed order of visits. Visit v shows one image with
noise, noise level and caption dropout that follow from the seed, the image's id and v alone: never from the captions,
the batch size or the number of processes.
"""

from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer

from workflow_scripts.files import fingerprint
from workflow_scripts.spec import T2iTraining
from workflow_scripts.t2i.families import Family, Text

COUNTED, IGNORED = 0, -100  # `Trainer` counts the labels of a global batch that are not IGNORED


def seed_of(*parts: Any) -> int:
    """A seed of 63 bits that the parts (JSON values) name."""
    return int(fingerprint(*parts), 16) >> 1


def draw_u(training: T2iTraining, count: int, generator: torch.Generator) -> torch.Tensor:
    """Positions in the table of noise levels, float32 (count,) of 0-1: uniform, or the sigmoid of a normal."""
    if training.timestep_sampling == "uniform":
        return torch.rand(count, generator=generator)
    return torch.sigmoid(training.logit_mean + training.logit_std * torch.randn(count, generator=generator))


class Visits(Dataset):
    """The training samples in their fixed order: every epoch shows each image once, in an order of its own.

    `mean_NChw` and `log_variance_NChw` are the posterior of each image, `texts` its encoded caption, None where there
    is no usable one: such a visit stays in its place and counts nothing, so that all other visits are as they would
    be with it. `no_text` is the encoded empty caption.
    """

    def __init__(
        self,
        family: Family,
        training: T2iTraining,
        seed: int,
        num_visits: int,
        image_ids: list[str],
        mean_NChw: torch.Tensor,
        log_variance_NChw: torch.Tensor,
        texts: list[Text | None],
        no_text: Text,
    ) -> None:
        self.family, self.training, self.seed, self.num_visits = family, training, seed, num_visits
        self.image_ids, self.mean, self.log_variance = image_ids, mean_NChw, log_variance_NChw
        self.texts, self.no_text = texts, no_text
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.long)

    def __len__(self) -> int:
        return self.num_visits

    def image_of(self, visit: int) -> int:
        """Which image (its row) a visit shows."""
        epoch, position = divmod(visit, len(self.image_ids))
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(seed_of("order", self.seed, epoch))
            self._epoch, self._order = epoch, torch.randperm(len(self.image_ids), generator=generator)
        return int(self._order[position])

    def __getitem__(self, visit: int) -> dict[str, Any]:
        image = self.image_of(visit)
        generator = torch.Generator().manual_seed(seed_of("visit", self.seed, self.image_ids[image], visit))
        mean, deviation = self.mean[image].float(), (0.5 * self.log_variance[image].float()).exp()
        latents = mean + deviation * torch.randn(mean.shape, generator=generator)
        noise = torch.randn(mean.shape, generator=generator)
        sigma = self.family.sigmas(draw_u(self.training, 1, generator))[0]
        dropped = bool(torch.rand(1, generator=generator) < self.training.caption_dropout)
        text = self.texts[image]
        return {
            "latents": latents,
            "noise": noise,
            "sigma": sigma,
            "labels": COUNTED if text is not None else IGNORED,
            "text": self.no_text if dropped or text is None else text,
        }

    def collate(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Samples as one batch for `FlowMatching`."""
        batch: dict[str, Any] = {key: torch.stack([s[key] for s in samples]) for key in ("latents", "noise", "sigma")}
        batch["latents"] = self.family.normalise(batch["latents"])
        batch["labels"] = torch.tensor([s["labels"] for s in samples])
        return {**batch, "text": self.family.collate([s["text"] for s in samples])}


class FlowMatching(nn.Module):
    """A transformer with its loss."""

    def __init__(self, family: Family, transformer: nn.Module) -> None:
        super().__init__()
        self.transformer, self._velocity = transformer, family.velocity

    def gradient_checkpointing_enable(self, **_: Any) -> None:
        """What `Trainer` calls where activations are to be recomputed; how, diffusers decides."""
        self.transformer.enable_gradient_checkpointing()

    def forward(
        self,
        latents: torch.Tensor,
        noise: torch.Tensor,
        sigma: torch.Tensor,
        labels: torch.Tensor,
        text: Text,
        num_items_in_batch: torch.Tensor | int | None = None,
        **_: Any,
    ) -> dict[str, torch.Tensor]:
        """Latents and noise (B, C, h, w), sigma (B,), all float32, labels (B,) -> {"loss"}: the squared error of the
        velocity, a mean over the counted samples of the global batch (`num_items_in_batch`; default: of this one)."""
        level = sigma.view(-1, 1, 1, 1)
        dtype = next(self.transformer.parameters()).dtype  # bfloat16 under DeepSpeed; noise levels stay float32
        noisy = ((1 - level) * latents + level * noise).to(dtype)
        text = {key: value.to(dtype) if value.is_floating_point() else value for key, value in text.items()}
        velocity = self._velocity(self.transformer, noisy, sigma, text)
        error_B = (velocity.float() - (noise - latents)).square().mean((1, 2, 3))
        counted = labels != IGNORED
        total = num_items_in_batch if num_items_in_batch is not None else counted.sum()
        return {"loss": (error_B * counted).sum() / torch.as_tensor(total, device=error_B.device).clamp(min=1)}


class FlowTrainer(Trainer):
    """Inputs keep their number format: with DeepSpeed's bfloat16 the usual trainer would round noise levels too."""

    def _prepare_input(self, data: Any) -> Any:
        if isinstance(data, dict):
            return {key: self._prepare_input(value) for key, value in data.items()}
        return data.to(self.args.device)
