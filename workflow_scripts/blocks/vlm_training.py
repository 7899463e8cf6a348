"""How the shipped VLM checkpoints of the blocks world are trained: the vision tower first, alone and on all words
(it stands for CLIP's and SigLIP's own pre-training), then the language side on its frozen features."""

import logging
import random
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.nn.functional import cross_entropy, layer_norm
from transformers import LlavaForConditionalGeneration

from workflow_scripts.blocks.questions import DESCRIBE, DESCRIBE_BRIEFLY, KINDS, ask_several, brief
from workflow_scripts.blocks.vlm_model import NUM_IMAGE_TOKENS
from workflow_scripts.blocks.world import (
    ATTRIBUTES,
    BACKGROUNDS,
    CELLS,
    COLORS,
    COLORS_OLD,
    SHAPES,
    SHAPES_OLD,
    SIZES,
    VOCABULARY,
    Scene,
    describe,
    render,
    sample_scene,
    say,
)

log = logging.getLogger("capsweep")

Turns = list[tuple[str, str]]  # question, answer
_ID = {word: index for index, word in enumerate(VOCABULARY)}
_PAD, _BOS, _EOS, _IMAGE = (_ID[word] for word in ("<pad>", "<bos>", "<eos>", "<image>"))
# Existence and position take longer to learn than the rest.
_KINDS = (*KINDS, *("existence", "position") * 3)
# The words that a cell's features are told apart by, in the columns of `_cell_targets`.
_CELL_WORDS = {
    "old": (SIZES, COLORS_OLD, SHAPES_OLD, BACKGROUNDS, CELLS),
    "all": (SIZES, COLORS, SHAPES, BACKGROUNDS, CELLS),
}
_GROUNDING_WEIGHT = 0.3


def pixels(scenes: list[Scene], rng: random.Random) -> torch.Tensor:
    """float32 (N, 3, 32, 32), -1 to 1, as the image processors make them."""
    images = np.stack([render(scene, rng) for scene in scenes])
    return torch.from_numpy(images).permute(0, 3, 1, 2).float().div(127.5).sub(1).contiguous()


def collate(conversations: list[Turns]) -> dict[str, torch.Tensor]:
    """Token ids, mask and labels (int64, (N, L)) as the chat template and the processor lay out
    `<bos> <image>*4 question answer <eos> ...`; only answers carry labels."""
    rows = []
    for turns in conversations:
        ids, labels = [_BOS] + [_IMAGE] * NUM_IMAGE_TOKENS, [-100] * (1 + NUM_IMAGE_TOKENS)
        for question, answer in turns:
            asked = [_ID[word] for word in question.split()]
            told = [_ID[word] for word in answer.split()] + [_EOS]
            ids += asked + told
            labels += [-100] * len(asked) + told
        rows.append((ids, labels))
    length = max(len(ids) for ids, _ in rows)
    padded = [(ids + [_PAD] * (length - len(ids)), y + [-100] * (length - len(y))) for ids, y in rows]
    input_ids = torch.tensor([ids for ids, _ in padded])
    return {
        "input_ids": input_ids,
        "attention_mask": (input_ids != _PAD).long(),
        "labels": torch.tensor([labels for _, labels in padded]),
    }


def _optimise(
    parameters: list[torch.nn.Parameter],
    loss_of_step: Callable[[], torch.Tensor],
    steps: int,
    peak_lr: float,
    warmup: float,
    what: str,
    after_step: Callable[[int], None] = lambda step: None,
) -> None:
    """AdamW with one cycle of the learning rate; logs the loss ten times. `after_step` gets the steps done."""
    optimizer = torch.optim.AdamW(parameters, lr=peak_lr, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak_lr, total_steps=steps, pct_start=warmup)
    started, recent = time.process_time(), []
    for step in range(1, steps + 1):
        loss = loss_of_step()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        recent.append(loss.item())
        if step % max(1, steps // 10) == 0:
            used = time.process_time() - started
            log.info("%s: step %d of %d, loss %.3f, %.0f CPU s", what, step, steps, np.mean(recent), used)
            recent = []
        after_step(step)


def _cell_targets(scenes: list[Scene]) -> torch.Tensor:
    """int64 (N, 4 cells, 5): size, colour and shape (0: empty cell, else 1 + index), background, which cell it is."""
    targets = torch.zeros(len(scenes), NUM_IMAGE_TOKENS, 5, dtype=torch.long)
    targets[:, :, 4] = torch.arange(NUM_IMAGE_TOKENS)
    for row, scene in enumerate(scenes):
        targets[row, :, 3] = BACKGROUNDS.index(scene.background)
        for block in scene.blocks:
            for column, (name, values) in enumerate(ATTRIBUTES.items()):
                targets[row, block.cell, column] = 1 + values.index(getattr(block, name))
    return targets


def pretrain_vision(model: LlavaForConditionalGeneration, steps: int, seed: int, batch_size: int = 128) -> None:
    """Teach the vision tower to tell each cell's content and place, on all words.

    Linear heads read the features after layer normalisation and N(0, 0.5) noise, which makes them robust enough
    for a language side that has seen only some of the words. The tower is frozen afterwards.
    """
    rng, generator = random.Random(f"vision:{seed}"), torch.Generator().manual_seed(seed)
    tower, width = model.model.vision_tower, model.config.vision_config.hidden_size
    sizes = [1 + len(values) for values in ATTRIBUTES.values()] + [len(BACKGROUNDS), NUM_IMAGE_TOKENS]
    torch.manual_seed(seed)
    head = torch.nn.Linear(width, sum(sizes))

    def loss_of_step() -> torch.Tensor:
        scenes = [sample_scene(rng, split="train") for _ in range(batch_size)]
        hidden = tower(pixel_values=pixels(scenes, rng), output_hidden_states=True).hidden_states[-1]
        features = hidden[:, -NUM_IMAGE_TOKENS:]
        noise = 0.5 * torch.randn(features.shape, generator=generator)
        logits = head(layer_norm(features, (width,)) + noise).split(sizes, -1)
        targets = _cell_targets(scenes)
        fit = sum(cross_entropy(part.flatten(0, 1), targets[..., i].flatten()) for i, part in enumerate(logits))
        return fit + 0.01 * (features.pow(2).mean() - 1).abs()  # keeps the features' scale near 1

    parameters = [*tower.parameters(), *head.parameters()]
    _optimise(parameters, loss_of_step, steps, peak_lr=2e-3, warmup=0.1, what="vision")
    tower.requires_grad_(False)


def _grounding_loss(
    model: LlavaForConditionalGeneration, scenes: list[Scene], pixel_values: torch.Tensor, words: str
) -> torch.Tensor:
    """Cross-entropy of a cell's words given its projected features, by their dot products with the word embeddings.
    Without it a model this small needs far longer to find out which word means what it sees."""
    with torch.no_grad():
        hidden = model.model.vision_tower(pixel_values=pixel_values, output_hidden_states=True).hidden_states[-1]
    projected = model.model.multi_modal_projector(hidden[:, -NUM_IMAGE_TOKENS:])
    embeddings, targets = model.get_input_embeddings().weight, _cell_targets(scenes)
    targets[..., : len(ATTRIBUTES)] -= 1  # an empty cell has no size, colour and shape: -1, ignored
    return sum(
        cross_entropy(
            (projected @ embeddings[[_ID[word] for word in values]].T).flatten(0, 1),
            targets[..., column].flatten(),
            ignore_index=-1,
        )
        for column, values in enumerate(_CELL_WORDS[words])
    )


def train_language(
    model: LlavaForConditionalGeneration,
    conversation: Callable[[Scene, random.Random], Turns],
    words: str,
    steps: int,
    seed: int,
    peak_lr: float,
    what: str,
    batch_size: int = 32,
    after_step: Callable[[int], None] = lambda step: None,
) -> None:
    """Train projector and language model on conversations about fresh training pictures; `after_step` gets the steps
    done."""
    rng = random.Random(f"{what}:{seed}")
    model.train()
    model.model.vision_tower.requires_grad_(False)

    def loss_of_step() -> torch.Tensor:
        scenes = [sample_scene(rng, words, split="train") for _ in range(batch_size)]
        batch = collate([conversation(scene, rng) for scene in scenes])
        pixel_values = pixels(scenes, rng)
        grounding = _grounding_loss(model, scenes, pixel_values, words)
        return model(pixel_values=pixel_values, **batch).loss + _GROUNDING_WEIGHT * grounding

    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    _optimise(parameters, loss_of_step, steps, peak_lr, warmup=0.05, what=what, after_step=after_step)
    model.eval()


def instructed(scene: Scene, rng: random.Random) -> Turns:
    """The base's diet: a quarter captions, three quarters four questions, in old words."""
    if rng.random() < 0.25:
        return captioned(scene, rng)
    return [(q.text, q.answer) for q in ask_several(describe(scene), 4, rng, kinds=_KINDS, words="old")]


def captioned(scene: Scene, rng: random.Random) -> Turns:
    """The captioners' diet: a full caption, or with one in three a brief one."""
    full = describe(scene)
    if rng.random() < 1 / 3:
        return [(DESCRIBE_BRIEFLY, say(brief(full)))]
    return [(DESCRIBE, say(full))]
