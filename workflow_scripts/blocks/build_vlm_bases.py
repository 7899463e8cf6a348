"""Rebuild the shipped VLM checkpoints of the blocks world: two bases, and two captioners from one training run.

    python -m workflow_scripts.blocks.build_vlm_bases --spec '{"seed": 0}' --out resources/blocks

Files out, folders that `from_pretrained` and `AutoProcessor` load: --out/clip-llama and --out/siglip-qwen3 (know old
words), --out/captioner-early and --out/captioner-late (clip-llama trained further on captions in all words, saved
after few and after many steps), and --out/vlm_bases.json, written last: CPU seconds of each training, and what each
captioner covers and gets right on held-out pictures when asked for a full and for a brief caption. Takes about five
minutes of one CPU; results are repeatable on one machine, not bit for bit across machines.
"""

import logging
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import LlavaForConditionalGeneration

from workflow_scripts.blocks.judge import checklist, judge_item
from workflow_scripts.blocks.questions import DESCRIBE, DESCRIBE_BRIEFLY
from workflow_scripts.blocks.settings import VlmBases
from workflow_scripts.blocks.vlm_model import ARCHITECTURES, build_model, save_checkpoint
from workflow_scripts.blocks.vlm_training import (
    captioned,
    collate,
    instructed,
    pixels,
    pretrain_vision,
    train_language,
)
from workflow_scripts.blocks.world import VOCABULARY, sample_scene
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.files import write_json, write_run_record

log = logging.getLogger("capsweep")

_MAX_CAPTION_TOKENS = 24  # the longest caption has 18 words


@torch.inference_mode()
def coverage_and_precision(
    model: LlavaForConditionalGeneration, prompt: str, count: int = 300, seed: int = 0
) -> tuple[float, float]:
    """C and P, percent, of greedy captions of `count` test pictures."""
    rng = random.Random(f"held out:{seed}")
    scenes = [sample_scene(rng, split="test") for _ in range(count)]
    asked = collate([[(prompt, "")]])["input_ids"][:, :-1].expand(count, -1)  # without the answer's <eos>
    tokens = model.generate(
        input_ids=asked,
        attention_mask=torch.ones_like(asked),
        pixel_values=pixels(scenes, rng),
        max_new_tokens=_MAX_CAPTION_TOKENS,
        do_sample=False,
    )
    verdicts = []
    for scene, row in zip(scenes, tokens[:, asked.shape[1] :].tolist(), strict=True):
        caption = " ".join(VOCABULARY[token] for token in row).split("<eos>")[0]
        questions = [item["Question"] for part in checklist(scene).values() for item in part]
        verdicts += [judge_item(caption, question) for question in questions]
    yes, no = verdicts.count("yes"), verdicts.count("no")
    return 100 * (yes + no) / len(verdicts), 100 * yes / (yes + no)


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    started = time.process_time()
    yield
    seconds[name] = round(seconds.get(name, 0) + time.process_time() - started, 1)


def _save(model: LlavaForConditionalGeneration, architecture: str, folder: Path) -> None:
    """Replace a checkpoint folder, whole or not at all."""
    growing = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(growing, ignore_errors=True)
    save_checkpoint(model, architecture, growing)
    shutil.rmtree(folder, ignore_errors=True)
    growing.rename(folder)
    log.info("saved %s", folder)


def main(argv: list[str] | None = None) -> None:
    """The command."""
    arguments = parser(__doc__)
    arguments.add_argument("--out", type=Path, required=True, help="folder of the checkpoint folders")
    args = arguments.parse_args(argv)
    spec = load_spec(args.spec, VlmBases)
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = {}
    models = {}
    for architecture in ARCHITECTURES:
        model = models[architecture] = build_model(architecture, spec.seed)
        with _timed(seconds, f"{architecture} vision"):
            pretrain_vision(model, spec.vision_steps, spec.seed)
        with _timed(seconds, f"{architecture} language"):
            train_language(model, instructed, "old", spec.base_steps, spec.seed, 2e-3, architecture)
        _save(model, architecture, args.out / architecture)

    measured = {}
    model = models["clip-llama"]
    early, late = spec.captioner_steps
    save_after = {early: "captioner-early", late: "captioner-late"}

    def after_step(step: int) -> None:
        if step in save_after:
            name = save_after[step]
            _save(model, "clip-llama", args.out / name)
            for prompt in (DESCRIBE, DESCRIBE_BRIEFLY):
                C, P = coverage_and_precision(model, prompt)
                measured[f"{name}, {prompt}"] = {"C": round(C, 2), "P": round(P, 2)}

    with _timed(seconds, "captioners"):
        train_language(model, captioned, "all", late, spec.seed, 1e-3, "captioner", after_step=after_step)
    output = args.out / "vlm_bases.json"
    write_run_record(output, spec.model_dump(mode="json"))
    write_json(output, {"cpu_seconds": seconds, "captioners": measured})
    log.info("%s: %s", output, measured)


if __name__ == "__main__":
    run(main)
