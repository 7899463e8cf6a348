"""Rebuild the text-to-image base models of the blocks world that the repository ships.

    python -m workflow_scripts.blocks.build_t2i_bases --out resources/blocks

Files out: the pipeline folders `sd3/` and `qwen-image/` under --out, weights in float16. About four minutes on one
core; the same versions of the packages on the same kind of CPU give the same files.

The text encoders are trained to predict, from the last word of each phrase, the latents of the cell that it speaks
of, and know all words (they stand for encoders that were trained on other data). The transformers are then trained
on pictures of all words, but no caption of theirs says a new word: only a captioner can teach what those look like.
"""

import argparse
import logging
import random
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from workflow_scripts.blocks.cell_autoencoder import CellCode, cell_numbers
from workflow_scripts.blocks.t2i_model import BUILDERS, save_halved
from workflow_scripts.blocks.world import (
    NEW_WORDS,
    Description,
    Scene,
    describe,
    detect,
    facts,
    render,
    sample_scene,
    say,
)
from workflow_scripts.spec import T2iTraining
from workflow_scripts.t2i.families import FAMILIES, Family, QwenImage
from workflow_scripts.t2i.flow import FlowMatching, draw_u

log = logging.getLogger("capsweep")

_SEED = 1
_NUM_SCENES = 6000
_MAX_TEXT_TOKENS = {"sd3": 1, "qwen-image": 64}
# Steps of the text encoders and of the transformer, batch, and the mean of the normal behind the noise levels: both
# see mostly high noise, SD3's scheduler already shifts there by log 3.
_RECIPES = {"sd3": (600, 900, 64, -0.4), "qwen-image": (400, 600, 64, -1.5)}
_CAPTION_DROPOUT = 0.1


def hide_new(description: Description) -> Description:
    """A description without the attributes that have new words as their values."""
    objects = tuple(
        (cell, {name: value for name, value in attributes.items() if value not in NEW_WORDS})
        for cell, attributes in description.objects
    )
    return Description(description.background, objects)


def pictures_of(scenes: list[Scene], rng: random.Random) -> torch.Tensor:
    """Scenes as pixels of -1 to 1, float32 (N, 3, 32, 32)."""
    pixels = torch.from_numpy(np.stack([render(scene, rng) for scene in scenes]))
    return pixels.permute(0, 3, 1, 2).float().div(127.5).sub(1).contiguous()


def _text_states(family: Family, ids_BL: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What the transformer reads of each token, (B, L, D), and of the whole text, (B, D), with gradients."""
    pipe = family.pipe
    if isinstance(family, QwenImage):
        start = pipe.prompt_template_encode_start_idx
        real_BL = ids_BL != 0
        states_BLD = pipe.text_encoder(input_ids=ids_BL, attention_mask=real_BL.long()).last_hidden_state
        last_B = real_BL.sum(1) - 1
        return states_BLD[:, start:], states_BLD[torch.arange(len(ids_BL)), last_B]
    encoders = (pipe.text_encoder, pipe.text_encoder_2)
    both = [encoder(input_ids=ids_BL, output_hidden_states=True) for encoder in encoders]
    return torch.cat([o.hidden_states[-2] for o in both], -1), torch.cat([o.text_embeds for o in both], -1)


def _phrase_ends(descriptions: list[Description], first: int) -> torch.Tensor:
    """Position of the last word of each cell's phrase, (N, 4), -1 for empty cells; the first word is at `first`."""
    ends = torch.full((len(descriptions), 4), -1)
    for row, description in enumerate(descriptions):
        position = first - 1
        for cell, attributes in description.objects:
            position += 1 + len(attributes)
            ends[row, cell] = position
    return ends


def train_text(family: Family, scenes: list[Scene], latents_NChw: torch.Tensor, steps: int, batch: int) -> None:
    """Train the text encoders: the last word of a phrase predicts its cell's latent, the whole text all of them."""
    pipe, captions = family.pipe, [describe(scene) for scene in scenes]
    qwen = isinstance(family, QwenImage)
    texts = [say(caption) for caption in captions]
    written = [pipe.prompt_template_encode.format(text) for text in texts] if qwen else texts
    ids = pipe.tokenizer(written, padding=True, return_tensors="pt").input_ids
    ends, target_N4K = _phrase_ends(captions, 0 if qwen else 1), cell_numbers(latents_NChw)
    encoders = nn.ModuleList([pipe.text_encoder] if qwen else [pipe.text_encoder, pipe.text_encoder_2]).train()
    with torch.no_grad():
        width = _text_states(family, ids[:1])[0].shape[-1]
    cells, size = target_N4K.shape[1:]
    word_head, text_head = nn.Linear(width, size), nn.Linear(width, cells * size)
    learning = [*encoders.parameters(), *word_head.parameters(), *text_head.parameters()]
    learner = _Learner(learning, steps, f"{family.pipeline_class} text")
    rng = torch.Generator().manual_seed(_SEED)
    for _ in range(steps):
        rows = torch.randint(len(ids), (batch,), generator=rng)
        states_BLD, whole_BD = _text_states(family, ids[rows])
        end_B4, target = ends[rows], target_N4K[rows]
        words = states_BLD.gather(1, end_B4.clamp(min=0)[:, :, None].expand(-1, -1, width))
        said = (end_B4 >= 0).float()
        word_error = ((word_head(words) - target).square().mean(-1) * said).sum() / said.sum()
        text_error = (text_head(whole_BD).view_as(target) - target).square().mean()
        learner.step(word_error + text_error)
    encoders.eval().requires_grad_(False)


def train_transformer(
    family: Family, scenes: list[Scene], latents_NChw: torch.Tensor, steps: int, batch: int, logit_mean: float
) -> None:
    """Train the transformer by flow matching on captions without new words."""
    texts = family.encode_texts([say(hide_new(describe(scene))) for scene in scenes])
    (no_text,) = family.encode_texts([""])
    model = FlowMatching(family, family.pipe.transformer).train()
    levels = T2iTraining(
        timestep_sampling="logit_normal",
        logit_mean=logit_mean,
        logit_std=1.2,
        learning_rate=1,
        global_batch=1,
        per_device_batch=1,
        devices=1,
    )
    learner = _Learner(list(model.parameters()), steps, family.pipeline_class)
    rng = torch.Generator().manual_seed(_SEED)
    for _ in range(steps):
        rows = torch.randint(len(texts), (batch,), generator=rng)
        kept = torch.rand(batch, generator=rng) >= _CAPTION_DROPOUT
        text = family.collate([texts[r] if keep else no_text for r, keep in zip(rows.tolist(), kept, strict=True)])
        latents = latents_NChw[rows]
        noise = torch.randn(latents.shape, generator=rng)
        sigma = family.sigmas(draw_u(levels, batch, rng))
        learner.step(model(latents, noise, sigma, torch.ones(batch), text)["loss"])
    model.eval()


class _Learner:
    """AdamW with one cycle of the learning rate."""

    def __init__(self, parameters: list[nn.Parameter], steps: int, name: str) -> None:
        self.parameters, self.steps, self.name, self.done, self.total = parameters, steps, name, 0, 0.0
        self.optimizer = torch.optim.AdamW(parameters, lr=2e-3, weight_decay=0.0, betas=(0.9, 0.98))
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 2e-3, total_steps=steps, pct_start=0.1)

    def step(self, loss: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.done, self.total = self.done + 1, self.total + loss.item()
        if self.done % 100 == 0:
            log.info("%s: step %d of %d, loss %.4f", self.name, self.done, self.steps, self.total / 100)
            self.total = 0.0


def share_right(family: Family, words: str) -> float:
    """Share of the facts of 100 unseen captions that the made pictures show."""
    rng = random.Random(f"{_SEED}:check")
    asked = [describe(sample_scene(rng, words=words, split="test")) for _ in range(100)]
    made = family.make([say(d) for d in asked], list(range(100)), 32, 12, 1.0)
    shown = [facts(detect(np.asarray(image))) for image in made]
    return sum(len(facts(d) & s) for d, s in zip(asked, shown, strict=True)) / sum(len(facts(d)) for d in asked)


def main(argv: list[str] | None = None) -> None:
    """Train and save each base."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, required=True, help="folder of the two pipeline folders")
    args = arguments.parse_args(argv)
    rng = random.Random(_SEED)
    scenes = [sample_scene(rng, split="train") for _ in range(_NUM_SCENES)]
    pixels = pictures_of(scenes, rng)
    code = CellCode(8)
    code.fit(pixels[:2500])
    with torch.no_grad():
        latents = code.encode(pixels)
    for name in BUILDERS:
        text_steps, steps, batch, logit_mean = _RECIPES[name]
        family = FAMILIES[name](BUILDERS[name](code, _SEED), _MAX_TEXT_TOKENS[name])
        family.pipe.to(family.device)
        train_text(family, scenes, latents, text_steps, batch)
        train_transformer(family, scenes, latents, steps, batch, logit_mean)
        right = share_right(family, "old"), share_right(family, "all")
        log.info("%s: share of facts right: old words %.3f, all words %.3f", name, *right)
        save_halved(family.pipe, args.out / name)
    log.info("%.0f CPU seconds", time.process_time())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    torch.set_num_threads(1)
    main()
