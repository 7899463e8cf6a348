"""Seconds and memory of the caption statistics, over shards that are made for it.

    python -m benchmarks.caption_statistics --captioners 10 --captions 1200000 --threads 16 --texts captions.json

Each captioner's shards are made in a temporary folder, measured by `captions.statistics` in a process of its own, and
deleted. A caption is --sentences sentences drawn from those of --texts: files of people's or models' captions, read as
a captioner's `replay` file would be; without one, words are drawn by Zipf's law. There are tokenizers as in the
paper's sweep, five of them different, trained on those captions: they cost what real ones cost.

Memory is the most that all processes of a command hold together, looked at ten times a second. The first line is a
captioner of a tenth of the captions: where memory does not grow from it to the others, it does not grow with captions.
"""

import argparse
import itertools
import json
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from workflow_scripts.captions.files import read_caption_file
from workflow_scripts.captions.read import FINGERPRINT, ROW_GROUP
from workflow_scripts.files import sha256_file, write_json
from workflow_scripts.plan import CaptionStatisticsJob, TextReader
from workflow_scripts.records import write_table
from workflow_scripts.spec import Source

TOKENIZERS = (
    "clip-vicuna",
    "siglip-qwen3",
    "sd3/tokenizer",
    "sd3/tokenizer_2",
    "sd3/tokenizer_3",
    "qwen-image/tokenizer",
)
READERS = (
    ("clip-vicuna", "vlm", 1024),
    ("siglip-qwen3", "vlm", 1024),
    ("sd3", "sd3", 512),
    ("qwen-image", "qwen-image", 512),
)


def read_sentences(paths: list[Path], image_key: str, caption_key: str) -> list[str]:
    """The sentences of captions in files; made-up ones where there is no file."""
    if paths:
        captions = (row.caption for path in paths for row in read_caption_file(path, image_key, caption_key))
        return [part for caption in captions for part in re.split(r"(?<=[.!?])\s+", caption.strip()) if part]
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(20_000)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    drawn = (rng.choices(words, cum_weights=weights, k=rng.randint(8, 22)) for _ in range(20_000))
    return [" ".join(sentence).capitalize() + "." for sentence in drawn]


def write_tokenizers(folder: Path, sentences: list[str]) -> None:
    """A byte-level BPE tokenizer for each of TOKENIZERS; a special token keeps all but CLIP's two different."""
    for name in TOKENIZERS:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
        special = ["<begin>", "<end>", f"<{name.removesuffix('_2')}>"]
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=50_000, special_tokens=special, show_progress=False, initial_alphabet=alphabet
        )
        tokenizer.train_from_iterator(sentences, trainer)
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<begin> $A <end>", special_tokens=[(mark, tokenizer.token_to_id(mark)) for mark in special[:2]]
        )
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=77).save_pretrained(folder / name)


def write_captions(folder: Path, sentences: list[str], args: argparse.Namespace, number: int, seed: int) -> None:
    """Shards of `number` captions and their manifest; one in a hundred has a fault."""
    rng, shards = random.Random(seed), []
    for start in range(0, number, args.shard_size):
        rows = []
        for image in range(start, min(start + args.shard_size, number)):
            caption = " ".join(rng.choices(sentences, k=max(1, round(rng.gauss(args.sentences, args.sentences / 4)))))
            fault = rng.random() < 0.01
            rows.append(
                {
                    "image_id": f"{image:064x}",
                    "caption": caption,
                    "num_tokens": len(caption) // 5,
                    "finish_reason": "length" if fault else "stop",
                    "num_attempts": 1 + fault,
                    "error": "cut" if fault else None,
                }
            )
        path = folder / f"{start // args.shard_size:05d}.parquet"
        write_table(path, rows, "captions", {FINGERPRINT: "benchmark"}, ROW_GROUP)
        shards.append({"path": path.name, "rows": len(rows), "sha256": sha256_file(path)})
    write_json(folder / "captions.json", {"fingerprint": "benchmark", "leave_out": ["cut"], "shards": shards})


def measure(folder: Path, models: Path, threads: int) -> tuple[float, float, float]:
    """Seconds by the clock, seconds of all processors, and the most memory in MB that all processes held together."""
    readers = {
        name: TextReader(family=family, model=Source(path=models / name), max_tokens=most)
        for name, family, most in READERS
    }
    job = CaptionStatisticsJob(captioner="benchmark", pipelines=readers)
    command = [sys.executable, "-m", "workflow_scripts.captions.statistics", "--spec", job.model_dump_json()]
    command += ["--captions", str(folder / "captions.json"), "--threads", str(threads)]
    for option, name in (("--out", "statistics"), ("--limits", "limits"), ("--lengths", "lengths")):
        command += [option, str(folder / f"{name}.csv")]
    command += ["--unusable", str(folder / "unusable.parquet")]
    return measured(command)


def measured(command: list[str]) -> tuple[float, float, float]:
    """As `measure`, of any command. It must succeed."""
    started, worked, most = time.monotonic(), processor_seconds(), 0
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        most = max(most, held_by(psutil.Process(process.pid)))
        time.sleep(0.1)
    if process.returncode:
        sys.exit(f"the command failed: {json.dumps(command)}")
    return time.monotonic() - started, processor_seconds() - worked, most / 1e6


def processor_seconds() -> float:
    """Of all processes that this one started and that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def held_by(process: psutil.Process) -> int:
    """Bytes that a process and its children hold."""
    total = 0
    try:
        for one in (process, *process.children(recursive=True)):
            total += one.memory_info().rss
    except psutil.NoSuchProcess:
        pass
    return total


def main() -> None:
    """Measure one captioner after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captioners", type=int, default=10)
    parser.add_argument("--captions", type=int, default=1_200_000, help="of each captioner")
    parser.add_argument("--shard-size", type=int, default=10_000)
    parser.add_argument("--sentences", type=float, default=8, help="of a caption, on average")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--texts", type=Path, nargs="*", default=[], help="files of captions")
    parser.add_argument("--image-key", default="image")
    parser.add_argument("--caption-key", default="caption")
    args = parser.parse_args()
    sentences = read_sentences(args.texts, args.image_key, args.caption_key)
    total = total_worked = 0.0
    with tempfile.TemporaryDirectory() as temporary:
        models, folder = Path(temporary, "models"), Path(temporary, "captions")
        write_tokenizers(models, sentences)
        for number, count in enumerate([args.captions // 10] + [args.captions] * args.captioners):
            write_captions(folder, sentences, args, count, seed=number)
            seconds, worked, megabytes = measure(folder, models, args.threads)
            if number:
                total, total_worked = total + seconds, total_worked + worked
            print(f"{count:,} captions: {seconds:.0f} s, {worked:.0f} s of processors, {megabytes:,.0f} MB", flush=True)
            shutil.rmtree(folder)
    each = 1000 * total_worked / (args.captioners * args.captions)
    print(
        f"{args.captioners} x {args.captions:,} captions: {total:.0f} s with {args.threads} processes, "
        f"{each:.2f} ms of a processor each"
    )


if __name__ == "__main__":
    main()
