"""Tokens a second of our training step against plain loops, on the same tiny models, batches and processes.

    python -m benchmarks.training --processes 1 2

Of the vision-language model: `vlm.align`'s trainer against a loop of forward, backward, clipping and AdamW over the
same batches of a DataLoader, in DistributedDataParallel where there are two processes. Of the text-to-image model:
`t2i.finetune`'s trainer on latents and captions that are encoded once, against a loop over the steps of diffusers'
example for SD3 (train_dreambooth_sd3.py) that encodes images and captions in every step, and against the same loop on
what is encoded once. Data are rendered pictures of the blocks world.

Every round runs all ways one after another in the same processes; speeds and ratios are medians over rounds. Models
this small show what the loops cost, not what models do.
"""

import argparse
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from diffusers.training_utils import compute_density_for_timestep_sampling, compute_loss_weighting_for_sd3
from PIL import Image
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from transformers import get_scheduler

from workflow_scripts.blocks.world import describe, render, sample_scene, say
from workflow_scripts.command import set_up
from workflow_scripts.distributed import gathered, is_main, join, rank, wait_for_all, world_size
from workflow_scripts.files import sha256_file
from workflow_scripts.progress import log
from workflow_scripts.records import write_table
from workflow_scripts.spec import Source, T2iTraining, VlmModel, VlmStage
from workflow_scripts.t2i import latents as latents_command
from workflow_scripts.t2i.embeddings import encode_once
from workflow_scripts.t2i.families import FAMILIES
from workflow_scripts.t2i.finetune import how_read
from workflow_scripts.t2i.flops import training_flops as t2i_flops
from workflow_scripts.t2i.flow import FlowMatching, FlowTrainer, Visits
from workflow_scripts.t2i.latents import Latents, read_fitted
from workflow_scripts.training import train
from workflow_scripts.vlm.batches import Batches
from workflow_scripts.vlm.data import Sample
from workflow_scripts.vlm.flops import training_flops as vlm_flops
from workflow_scripts.vlm.model import freeze, load
from workflow_scripts.vlm.trainer import LlavaTrainer

_OPTIMISATION = {"learning_rate": 1e-4, "weight_decay": 0.01, "precision": "fp32", "zero_stage": 0,
                 "gradient_checkpointing": False}  # fmt: skip


class Ticks:
    """When a way took each of its batches, and how many tokens that has: the same measure for every way."""

    def __init__(self) -> None:
        self._taken: list[tuple[float, float, int]] = []  # s of wall time, s of CPU time, tokens

    def take(self, tokens: int) -> None:
        """A batch is there."""
        self._taken.append((time.monotonic(), time.process_time(), tokens))

    def speeds(self) -> tuple[float, float]:
        """Tokens a second and tokens a CPU second over all processes, without the first tenth of the steps. The latter
        hardly depends on what else runs on the machine."""
        taken = self._taken[max(1, len(self._taken) // 10) :]
        (wall, cpu, _), (wall_end, cpu_end, _) = taken[0], taken[-1]
        rows = gathered([sum(tokens for _, _, tokens in taken[:-1]), wall_end - wall, cpu_end - cpu])
        tokens = sum(row[0] for row in rows)
        return tokens / max(row[1] for row in rows), tokens / sum(row[2] for row in rows)


Way = Callable[[Path, Ticks], None]  # trains in a working folder


def of_this_process(items: list[Any], per_device: int) -> list[Any]:
    """The items that this process sees: whole batches in turn."""
    return [item for n, item in enumerate(items) if n // per_device % world_size() == rank()]


def ticking(collate: Callable[[list[Any]], dict[str, Any]], ticks: Ticks) -> Callable[[list[Any]], dict[str, Any]]:
    """The collator, which tells of every batch that it makes."""

    def told(samples: list[Any]) -> dict[str, Any]:
        batch = collate(samples)
        ticks.take(batch["counts"]["tokens"])
        return batch

    return told


def vlm_ways(base: Path, pictures: Path, batch: int, steps: int) -> dict[str, Way]:
    """Ours and the plain loop."""
    per_device = batch // world_size()
    settings = VlmModel(
        base=Source(path=base), vision_feature_layer=-1, vision_feature_select_strategy="default", image_size=32,
        pad_to_square=False, chat_template="blocks",
    )  # fmt: skip
    stage = VlmStage(
        **_OPTIMISATION, data=Source(path=pictures), train=["projector", "language"], global_batch=batch,
        per_device_batch=per_device, devices=world_size(), steps=steps, max_length=128,
    )  # fmt: skip
    captions = json.loads((pictures / "captions.json").read_text())
    held = [Sample(name, (pictures / name,), (("describe", text),)) for name, text in captions.items()]
    samples = list(itertools.islice(itertools.cycle(held), steps * batch))

    def ready() -> tuple[Any, Batches]:
        model, processor = load(base, settings)
        freeze(model, stage)
        return model.train(), Batches(processor, stage.max_length)

    def ours(folder: Path, ticks: Ticks) -> None:
        model, batches = ready()
        flops = vlm_flops(model, batches.num_image_tokens)
        train(model, samples, ticking(batches, ticks), stage, 0, folder, flops, 0, LlavaTrainer)

    def plain(_: Path, ticks: Ticks) -> None:
        model, batches = ready()
        learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if world_size() > 1:
            model = DistributedDataParallel(model)
        optimizer = torch.optim.AdamW(learning, lr=stage.learning_rate, weight_decay=stage.weight_decay)
        schedule = get_scheduler("cosine", optimizer, 0, steps)
        own = of_this_process(samples, per_device)
        for inputs in DataLoader(own, per_device, collate_fn=ticking(batches, ticks)):
            del inputs["counts"]
            model(**inputs).loss.backward()
            torch.nn.utils.clip_grad_norm_(learning, stage.max_grad_norm)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()

    return {"plain loop": plain, "ours": ours}


def t2i_ways(base: Path, pictures: Path, batch: int, steps: int) -> dict[str, Way]:
    """Ours, and the loop of diffusers' example with and without what is encoded once."""
    per_device = batch // world_size()
    captions = list(json.loads((pictures / "captions.json").read_text()).values())
    training = T2iTraining(
        **_OPTIMISATION, global_batch=batch, per_device_batch=per_device, devices=world_size(), steps=steps
    )
    shown = [n % len(captions) for n in range(steps * batch)]

    def ours(folder: Path, ticks: Ticks) -> None:
        family = FAMILIES["sd3"].load(Source(path=base))
        encoded = encode_once(family, ["", *sorted(set(captions))], folder / "embeddings")
        read = how_read(family, ["", *captions], family.text_tokens(["", *captions]))
        posteriors = Latents(pictures / "latents.json")
        visits = Visits(family, training, 0, steps * batch, posteriors, captions, read, encoded)
        transformer = family.pipe.transformer.train()
        train(
            FlowMatching(family, transformer), visits, ticking(visits.collate, ticks), training, 0, folder,
            t2i_flops(transformer), 0, FlowTrainer,
        )  # fmt: skip

    def example(encode: Callable[[Any], Iterator[tuple[torch.Tensor, dict[str, torch.Tensor]]]]) -> Way:
        def way(_: Path, ticks: Ticks) -> None:
            family = FAMILIES["sd3"].load(Source(path=base))
            accelerator = Accelerator(cpu=not torch.cuda.is_available())
            transformer, scheduler = family.pipe.transformer.train(), family.pipe.scheduler
            optimizer = torch.optim.AdamW(
                transformer.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
            )
            schedule = get_scheduler("cosine", optimizer, 0, steps)
            transformer, optimizer = accelerator.prepare(transformer, optimizer)
            table, levels = scheduler.timesteps.clone(), scheduler.sigmas.clone()
            for latents, text in encode(family):
                num_image = family.num_image_tokens(*latents.shape[2:])
                ticks.take(len(latents) * (num_image + text["encoder_hidden_states"].shape[1]))
                latents = family.normalise(latents)
                noise = torch.randn_like(latents)
                u = compute_density_for_timestep_sampling("logit_normal", len(latents), 0.0, 1.0)
                times = table[(u * len(table)).long()]
                places = [(table == t).nonzero().item() for t in times]
                sigmas = levels[places].flatten().view(-1, 1, 1, 1)
                noisy = (1 - sigmas) * latents + sigmas * noise
                found = transformer(hidden_states=noisy, timestep=times, return_dict=False, **text)[0]
                weighting = compute_loss_weighting_for_sd3("logit_normal", sigmas)
                error = weighting * (found.float() - (noise - latents).float()) ** 2
                loss = error.reshape(len(latents), -1).mean(1).mean()
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(transformer.parameters(), training.max_grad_norm)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()

        return way

    paths = sorted(pictures.glob("*.png"))
    own = of_this_process(shown, per_device)
    batches_of = [own[n : n + per_device] for n in range(0, len(own), per_device)]

    def in_the_step(family: Any) -> Iterator[tuple[torch.Tensor, dict[str, torch.Tensor]]]:
        for some in batches_of:
            pixels = torch.stack([read_fitted(paths[n], (32, 32)) for n in some])
            mean, log_variance = family.encode_images(pixels)
            latents = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
            yield latents, family.collate(family.encode_texts([captions[n] for n in some]))

    def once(family: Any) -> Iterator[tuple[torch.Tensor, dict[str, torch.Tensor]]]:
        posteriors, texts = Latents(pictures / "latents.json"), family.encode_texts(captions)
        held = [tuple(values.float() for values in posteriors[n]) for n in range(len(captions))]
        for some in batches_of:
            mean, log_variance = (torch.stack([held[n][part] for n in some]) for part in range(2))
            latents = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
            yield latents, family.collate([texts[n] for n in some])

    return {"example, encodes in the step": example(in_the_step), "example, encoded once": example(once), "ours": ours}


def make_data(folder: Path, count: int, t2i_base: Path) -> None:
    """Pictures, captions, and the latents of the pictures."""
    rng, captions, rows = random.Random(0), {}, []
    for index in range(count):
        scene, path = sample_scene(rng), folder / f"{index:05d}.png"
        Image.fromarray(render(scene, rng)).save(path)
        captions[path.name] = say(describe(scene))
        rows.append({"index": index, "image_id": sha256_file(path), "source": "blocks", "path": str(path)})
    (folder / "captions.json").write_text(json.dumps(captions))
    pool = [{**row, "width": 32, "height": 32, "notes": None} for row in rows]
    write_table(folder / "images.parquet", pool, "images")
    spec = {"family": "sd3", "model": {"path": str(t2i_base)}, "num_images": count, "resolution": 32}
    words = ["--pool", str(folder / "images.parquet"), "--out", str(folder / "latents.json")]
    latents_command.main(["--spec", json.dumps(spec), *words])


def compare(args: argparse.Namespace) -> None:
    """Run every way in this process and its siblings, print the table's rows."""
    log.setLevel("WARNING")
    join(T2iTraining(**_OPTIMISATION, global_batch=args.batch, per_device_batch=1, devices=world_size()))
    for model in args.models:
        make_ways, base = {"llava": (vlm_ways, args.vlm), "sd3": (t2i_ways, args.t2i)}[model]
        ways = make_ways(base, args.data, args.batch, args.steps)
        speeds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for number in range(args.rounds):
            for name, way in ways.items():
                ticks, folder = Ticks(), f"{model}-{world_size()}-{number}-{name.split(',')[-1].strip()}"
                way(args.data / folder, ticks)
                speeds[name].append(ticks.speeds())
                wait_for_all()
        for name, found in speeds.items():
            pairs = list(zip(speeds["ours"], found, strict=True))
            figures = [f"{statistics.median(speed[kind] for speed in found):,.0f}" for kind in range(2)]
            figures += [
                f"{statistics.median(mine[kind] / theirs[kind] for mine, theirs in pairs):.2f}" for kind in range(2)
            ]
            if is_main():
                print(f"| {model} | {world_size()} | {name} | {' | '.join(figures)} |", flush=True)


def main() -> None:
    """Make the data, then start the processes of each row."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    arguments.add_argument("--models", nargs="+", choices=["llava", "sd3"], default=["llava", "sd3"])
    arguments.add_argument("--vlm", type=Path, default=Path("resources/blocks/clip-llama"), help="a LLaVA folder")
    arguments.add_argument("--t2i", type=Path, default=Path("resources/blocks/sd3"), help="an SD3 pipeline folder")
    arguments.add_argument("--pictures", type=int, default=400)
    arguments.add_argument("--batch", type=int, default=40, help="samples of a step over all processes")
    arguments.add_argument("--steps", type=int, default=200)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--data", type=Path, help=argparse.SUPPRESS)  # given to the processes that are started
    args = arguments.parse_args()
    set_up()
    torch.set_num_threads(1)
    if args.data:
        compare(args)
        return
    with tempfile.TemporaryDirectory() as folder:
        make_data(Path(folder), args.pictures, args.t2i)
        print("| model | processes | way | tokens/s | tokens/CPU s | ours is times as fast | the same in CPU time |")
        print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
        for number in args.processes:
            launcher = ["torch.distributed.run", "--standalone", f"--nproc-per-node={number}", "-m"]
            given = [sys.executable, "-m", *launcher, "benchmarks.training", *sys.argv[1:], "--data", folder]
            subprocess.run(given, check=True)


if __name__ == "__main__":
    main()
