"""Images a second of the captioning stage with vLLM, against a bare `LLM.chat` loop on the same images and model.

    python -m benchmarks.captioning --model /models/Qwen3-VL-8B-Instruct --images /data/photographs --rounds 2

Both read the image files, scale them to --max-pixels and write --tokens tokens for each; starting vLLM is left out.
Each round measures one after the other, each in a process of its own. Prints a line a measurement, then the ratio of
the best rates.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from workflow_scripts.engines.interface import Engine, Picture
from workflow_scripts.plan import CaptionJob, EngineJob, ServingJob
from workflow_scripts.progress import Progress
from workflow_scripts.spec import Sampling, Serving, Source

PROMPT = "Describe this image in detail."


def bare(args: argparse.Namespace, paths: list[Path]) -> float:
    """Seconds of the loop that one would write by hand: decode a batch, caption it, decode the next."""
    from vllm import SamplingParams

    from workflow_scripts.engines.vllm_copy import load
    from workflow_scripts.images import read_rgb

    llm = load(engine_job(args), serving_job(args))
    params = SamplingParams(temperature=0, max_tokens=args.tokens)
    start = time.monotonic()
    for first in range(0, len(paths), 256):
        images = [read_rgb(path, args.max_pixels) for path in paths[first : first + 256]]
        questions = [
            [{"role": "user", "content": [{"type": "image_pil", "image_pil": image}, {"type": "text", "text": PROMPT}]}]
            for image in images
        ]
        llm.chat(questions, params, use_tqdm=False)
    return time.monotonic() - start


def stage(args: argparse.Namespace, paths: list[Path]) -> float:
    """Seconds of the stage that the rule runs, from the moment that its engine is up."""
    from workflow_scripts.captions import work

    up: list[float] = []
    open_engine = work.open_engine

    def open_and_note(*job: Any) -> Engine:
        engine = open_engine(*job)
        up.append(time.monotonic())
        return engine

    work.open_engine = open_and_note
    job = CaptionJob(
        engine=engine_job(args),
        prompt=PROMPT,
        sampling=Sampling(),
        max_new_tokens=args.tokens,
        attempts=1,
        retry_temperature=1.0,
        shard_size=None,
    )
    pictures = [Picture(str(number), str(path)) for number, path in enumerate(paths)]
    progress = Progress(len(pictures), "images")
    with tempfile.TemporaryDirectory() as folder:
        work.caption_pictures(
            job, serving_job(args), pictures, range(len(pictures)), Path(folder), progress, lambda *row: None
        )
        return time.monotonic() - up[0]


def engine_job(args: argparse.Namespace) -> EngineJob:
    """The model, as both ways load it."""
    model = Source(path=args.model)
    return EngineJob(engine="vllm", model=model, max_model_len=args.max_model_len, max_pixels=args.max_pixels)


def serving_job(args: argparse.Namespace) -> ServingJob:
    """The whole machine, one copy of the model."""
    return ServingJob(threads=os.cpu_count() or 1, serving=Serving(max_num_seqs=args.max_num_seqs))


def main() -> None:
    """Measure both ways in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder of a vision-language model")
    parser.add_argument("--images", type=Path, required=True, help="folder of image files")
    parser.add_argument("--tokens", type=int, default=256, help="longest caption")
    parser.add_argument("--max-pixels", type=int, default=1_000_000)
    parser.add_argument("--max-model-len", type=int, default=4096)
    parser.add_argument("--max-num-seqs", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--way", choices=("bare", "stage"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    paths = sorted(path for path in args.images.iterdir() if path.is_file())
    if args.way:
        print(json.dumps({"bare": bare, "stage": stage}[args.way](args, paths)))
        return
    rates: dict[str, list[float]] = {"bare": [], "stage": []}
    for _ in range(args.rounds):
        for way, found in rates.items():
            command = [sys.executable, "-m", "benchmarks.captioning", *sys.argv[1:], "--way", way]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found.append(len(paths) / json.loads(done.stdout.splitlines()[-1]))
            print(f"{way}: {found[-1]:.2f} images/s", flush=True)
    print(f"stage / bare: {max(rates['stage']) / max(rates['bare']):.3f}")


if __name__ == "__main__":
    main()
