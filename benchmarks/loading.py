"""How long a training step waits for real photographs, with 0, 1, 2 ... loader workers.

    python -m benchmarks.loading --images FOLDER --workers 0 1 2

A LLaVA that sees 336 px, with random weights and so few layers that its step takes about as long as reading its images,
is trained on the photographs of a folder through `vlm.align`'s trainer, padded to squares. Every way sees the same
samples. Prints the share of wall time that the step waited, samples a second, and what reading one photograph costs;
on a GPU, workers = that cost x the samples a second that the GPU would learn.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

from workflow_scripts.blocks.vlm_model import build_processor
from workflow_scripts.command import set_up
from workflow_scripts.images import SUFFIXES
from workflow_scripts.progress import log
from workflow_scripts.spec import Source, VlmStage
from workflow_scripts.training import train
from workflow_scripts.vlm.batches import Batches
from workflow_scripts.vlm.data import Sample
from workflow_scripts.vlm.flops import training_flops
from workflow_scripts.vlm.model import freeze
from workflow_scripts.vlm.trainer import LlavaTrainer

_SIDE, _PATCH = 336, 14  # px, those of CLIP ViT-L/14


def build(width: int, layers: int, vocabulary: int, image_token: int) -> LlavaForConditionalGeneration:
    """A LLaVA of random weights that sees 576 patches an image."""
    torch.manual_seed(0)
    heads = max(1, width // 64)
    vision = CLIPVisionConfig(
        hidden_size=width, intermediate_size=4 * width, num_hidden_layers=layers, num_attention_heads=heads,
        image_size=_SIDE, patch_size=_PATCH,
    )  # fmt: skip
    text = LlamaConfig(
        vocab_size=vocabulary, hidden_size=width, intermediate_size=4 * width, num_hidden_layers=layers,
        num_attention_heads=heads, max_position_embeddings=1024,
    )  # fmt: skip
    return LlavaForConditionalGeneration(
        LlavaConfig(vision_config=vision, text_config=text, image_token_index=image_token, vision_feature_layer=-1)
    )


def main() -> None:
    """Train once for each number of workers and print the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--images", type=Path, required=True)
    arguments.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    arguments.add_argument("--batch", type=int, default=4)
    arguments.add_argument("--width", type=int, default=128)
    arguments.add_argument("--layers", type=int, default=2)
    args = arguments.parse_args()
    set_up()
    log.setLevel("WARNING")
    torch.set_num_threads(1)
    paths = sorted(path for path in args.images.rglob("*") if path.suffix.lower() in SUFFIXES)
    steps = len(paths) // args.batch
    samples = [Sample(path.name, (path,), (("describe", "red circle"),)) for path in paths[: steps * args.batch]]
    processor = build_processor("clip-llama")
    processor.patch_size, processor.image_processor.size = _PATCH, {"height": _SIDE, "width": _SIDE}
    batches = Batches(processor, max_length=1024)
    stage = VlmStage(
        data=Source(path=args.images), train=["projector", "language"], learning_rate=1e-4, global_batch=args.batch,
        per_device_batch=args.batch, devices=1, precision="fp32", zero_stage=0, gradient_checkpointing=False,
    )  # fmt: skip

    started = time.process_time()
    for sample in samples[:50]:
        batches.pixels(sample.images)
    cost = (time.process_time() - started) / 50
    print(f"{len(samples)} photographs; reading one costs {1000 * cost:.0f} ms of one core\n")
    tokens = batches(samples[:1])["counts"]["tokens"]  # of every sample: all say the same
    print("| workers | waiting | samples/s |\n| --- | --- | --- |", flush=True)
    for workers in args.workers:
        model = build(args.width, args.layers, len(processor.tokenizer), processor.image_token_id)
        freeze(model, stage)
        flops = training_flops(model, batches.num_image_tokens)
        with tempfile.TemporaryDirectory() as folder:
            curve = train(model, samples, batches, stage, 0, Path(folder), flops, workers, LlavaTrainer).curve[2:]
        waiting = statistics.mean(row["share_waiting"] for row in curve)
        rate = statistics.median(row["tokens_per_second"] for row in curve) / tokens
        print(f"| {workers} | {100 * waiting:.1f} % | {rate:.1f} |", flush=True)


if __name__ == "__main__":
    main()
