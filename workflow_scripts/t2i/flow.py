"""Flow matching: what a text-to-image transformer is trained on, the same for every captioner but for the caption.

A noisy latent is x = (1 - s) x0 + s e with noise e and noise level s; the transformer learns the velocity e - x0
(Lipman et al. 2023, Esser et al. 2024). Training goes through a fixed order of visits. Visit v shows one image with
noise, noise level and caption dropout that follow from the seed, the image's id and v alone: never from the captions,
the batch size or the number of processes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from workflow_scripts.files import fingerprint
from workflow_scripts.pace import PacedTrainer
from workflow_scripts.spec import T2iTraining
from workflow_scripts.t2i.embeddings import Encoded
from workflow_scripts.t2i.families import Family, Text
from workflow_scripts.t2i.latents import Latents

COUNTED, IGNORED = 0, -100  # `Trainer` counts the labels of a global batch that are not IGNORED


def seed_of(*parts: Any) -> int:
    """A seed of 63 bits that the parts (JSON values) name."""
    return int(fingerprint(*parts), 16) >> 1


def draw_u(training: T2iTraining, count: int, generator: torch.Generator) -> torch.Tensor:
    """Positions in the table of noise levels, float32 (count,) of 0-1: uniform, or the sigmoid of a normal."""
    if training.timestep_sampling == "uniform":
        return torch.rand(count, generator=generator)
    return torch.sigmoid(training.logit_mean + training.logit_std * torch.randn(count, generator=generator))


def image_order(seed: int, num_visits: int, sizes: Sequence[Any], global_batch: int) -> torch.Tensor:
    """Which image (its row) each visit shows, int64 (num_visits,); `sizes` are those of the images.

    Every epoch calls all images up in an order of its own. They line up by size, and whenever a line is one global
    batch long, that batch is next: so a batch holds one size, and no image waits longer than its line needs to fill.
    With a single size this is one epoch after the other.
    """
    lines: dict[Any, list[int]] = {size: [] for size in sizes}
    order: list[int] = []
    epoch = 0
    while len(order) < num_visits:
        generator = torch.Generator().manual_seed(seed_of("order", seed, epoch))
        for image in torch.randperm(len(sizes), generator=generator).tolist():
            line = lines[sizes[image]]
            line.append(image)
            if len(line) == global_batch:
                order += line
                line.clear()
        epoch += 1
    return torch.tensor(order[:num_visits])


class Visits(Dataset):
    """The training samples in their fixed order.

    `captions` are those of the images of `latents`, None where there is no usable one: such a visit stays in its place
    and counts nothing, so that all other visits are as they would be with it. `read` says of each caption and the empty
    one how many tokens the transformer reads, and whether it is cut. `encoded` has them; without it samples hold texts,
    which are to be encoded in the step.
    """

    def __init__(
        self,
        family: Family,
        training: T2iTraining,
        seed: int,
        num_visits: int,
        latents: Latents,
        captions: list[str | None],
        read: Mapping[str, tuple[int, bool]],
        encoded: Encoded | None = None,
    ) -> None:
        self.family, self.training, self.seed = family, training, seed
        self.latents, self.captions, self.read, self.encoded = latents, captions, read, encoded
        self.order = image_order(seed, num_visits, latents.sizes, training.global_batch)

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, visit: int) -> dict[str, Any]:
        image = int(self.order[visit])
        generator = torch.Generator().manual_seed(seed_of("visit", self.seed, self.latents.image_ids[image], visit))
        mean, log_variance = (values.float() for values in self.latents[image])
        latents = mean + (0.5 * log_variance).exp() * torch.randn(mean.shape, generator=generator)
        noise = torch.randn(mean.shape, generator=generator)
        sigma = self.family.sigmas(draw_u(self.training, 1, generator))[0]
        dropped = bool(torch.rand(1, generator=generator) < self.training.caption_dropout)
        caption = self.captions[image]
        text = "" if dropped or caption is None else caption
        num_tokens, cut = self.read[text]
        return {
            "latents": latents,
            "noise": noise,
            "sigma": sigma,
            "labels": COUNTED if caption is not None else IGNORED,
            "text": text if self.encoded is None else self.encoded[text],
            "num_text_tokens": num_tokens,
            "cut": cut,
        }

    def collate(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Samples as one batch for `FlowTrainer`, and its counts: samples, those whose caption is cut, tokens of image
        and text and both together, and their pairs."""
        batch: dict[str, Any] = {key: torch.stack([s[key] for s in samples]) for key in ("latents", "noise", "sigma")}
        batch["latents"] = self.family.normalise(batch["latents"])
        batch["labels"] = torch.tensor([s["labels"] for s in samples])
        texts = [s["text"] for s in samples]
        batch["text"] = texts if self.encoded is None else self.family.collate(texts)
        num_image = self.family.num_image_tokens(*batch["latents"].shape[2:])
        num_text = [s["num_text_tokens"] for s in samples]
        batch["counts"] = {
            "samples": len(samples),
            "cut": sum(s["cut"] for s in samples),
            "image_tokens": len(samples) * num_image,
            "text_tokens": sum(num_text),
            "tokens": len(samples) * num_image + sum(num_text),
            "pairs": sum((num_image + length) ** 2 for length in num_text),
            "image_pairs": len(samples) * num_image**2,
        }
        return batch


class FlowMatching(nn.Module):
    """A transformer with its loss."""

    def __init__(self, family: Family, transformer: nn.Module) -> None:
        super().__init__()
        self.transformer, self.family = transformer, family

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
        velocity = self.family.velocity(self.transformer, noisy, sigma, text)
        error_B = (velocity.float() - (noise - latents)).square().mean((1, 2, 3))
        counted = labels != IGNORED
        total = num_items_in_batch if num_items_in_batch is not None else counted.sum()
        return {"loss": (error_B * counted).sum() / torch.as_tensor(total, device=error_B.device).clamp(min=1)}


class FlowTrainer(PacedTrainer):
    """Inputs keep their number format: with DeepSpeed's bfloat16 the usual trainer would round noise levels too.
    Texts that are not encoded yet are encoded here, outside of all that DeepSpeed and autocast do to a model."""

    def _prepare_inputs(self, inputs: Any) -> Any:
        inputs = super()._prepare_inputs(inputs)
        if isinstance(inputs["text"], list):
            family = self.model.family
            inputs["text"] = family.collate(family.encode_texts(inputs["text"]))
        return inputs

    def _prepare_input(self, data: Any) -> Any:
        if isinstance(data, dict):
            return {key: self._prepare_input(value) for key, value in data.items()}
        return data.to(self.args.device) if isinstance(data, torch.Tensor) else data
