"""What a checklist item costs: all items of an image in one prompt, in chunks, or one by one; with shared prompt
beginnings computed once (prefix caching) or every time.

    .venv-serve/bin/python -m benchmarks.judge --model FOLDER --data assets/CAPEval --images 20

Judges people's captions of the benchmark with vLLM, all six ways with one engine in one run, and prints a table:
prompt tokens computed and taken from the cache, answer tokens and seconds, each an item. Without sharing, every
prompt begins with a number of its own, which keeps the cache from finding anything; that costs about four tokens.
"""

import argparse
import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from workflow_scripts import engines
from workflow_scripts.capeval.ask import Ballot, judge_ballots
from workflow_scripts.capeval.baselines import read_human_captions
from workflow_scripts.capeval.benchmark import read_benchmark
from workflow_scripts.command import set_up
from workflow_scripts.engines.interface import Answer, Engine, Request
from workflow_scripts.plan import EngineJob, JudgeJob, ServingJob
from workflow_scripts.spec import Serving, Source

WAYS = {"all items": None, "chunks of 10": 10, "one item": 1}


class Marked:
    """An engine whose prompts all begin with the next of `marks`: what a cache shares is what has the same mark."""

    def __init__(self, engine: Engine, marks: Iterator[str]) -> None:
        self._engine, self._marks = engine, marks
        self.room, self.count_tokens = engine.room, engine.count_tokens

    def submit(self, request: Request) -> None:
        """Pass it on with its mark."""
        self._engine.submit(replace(request, system=f"{next(self._marks)} {request.system}"))

    def collect(self) -> list[tuple[Request, Answer]]:
        """The engine's answers."""
        return self._engine.collect()


def judge(job: JudgeJob, engine: Marked, ballots: list[Ballot]) -> tuple[dict[str, int], float, int]:
    """Counts, seconds and unjudged items of judging fresh copies of the ballots."""
    rows: list[dict] = []
    fresh = [Ballot(ballot.image_id, ballot.caption, 0, ballot.items) for ballot in ballots]
    started = time.monotonic()
    counts = judge_ballots(job, engine, fresh, rows.extend)
    return counts, time.monotonic() - started, sum(row["verdict"] == "unjudged" for row in rows)


def read_ballots(data: Path, num_images: int) -> list[Ballot]:
    """People's captions of images evenly spaced over the benchmark."""
    benchmark = read_benchmark(data)
    ids = list(benchmark.images.index)
    ids = [ids[number * len(ids) // num_images] for number in range(num_images)]
    captions = read_human_captions(data, ids)
    items = {
        image_id: list(zip(part["item_index"], part["question"], strict=True))
        for image_id, part in benchmark.items.groupby("image_id")
    }
    return [Ballot(image_id, captions[image_id], 0, items[image_id]) for image_id in ids]


def main() -> None:
    """Run every way and print the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", type=Path, required=True, help="folder of a language model")
    arguments.add_argument("--data", type=Path, required=True, help="folder of the benchmark")
    arguments.add_argument("--images", type=int, default=20, help="images, evenly spaced over the benchmark")
    arguments.add_argument("--max-model-len", type=int, default=8192)
    arguments.add_argument("--max-num-seqs", type=int, default=64)
    arguments.add_argument("--gpus", type=int, default=0)
    arguments.add_argument("--reasoning", action="store_true", help="ask for reasons too")
    args = arguments.parse_args()
    set_up()
    ballots = read_ballots(args.data, args.images)
    num_items = sum(len(ballot.items) for ballot in ballots)
    model = EngineJob(engine="vllm", model=Source(path=args.model), max_model_len=args.max_model_len)
    engine = engines.open_engine(model, ServingJob(gpus=args.gpus, serving=Serving(max_num_seqs=args.max_num_seqs)), [])
    unique = (f"{number:06d}" for number in itertools.count(100_000))

    def job(most: int | None) -> JudgeJob:
        data = Source(path=args.data)
        return JudgeJob(engine=model, items_per_prompt=most, reasoning=args.reasoning, attempts=1, data=data)

    judge(job(None), Marked(engine, unique), ballots)  # grammars of answers are compiled at first sight
    print(f"{args.model.name}, {args.images} images, {num_items} items, reasons {'on' if args.reasoning else 'off'}\n")
    print("| questions | beginnings | prompts | computed/item | cached/item | answer/item | ms/item | unjudged |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for number, (way, most) in enumerate(WAYS.items()):
        for sharing, marks in (("computed once", itertools.repeat(f"{number:06d}")), ("every time", unique)):
            counts, seconds, unjudged = judge(job(most), Marked(engine, marks), ballots)
            computed = counts["prompt_tokens"] - counts["cached_tokens"]
            figures = [f"{n / num_items:.1f}" for n in (computed, counts["cached_tokens"], counts["answer_tokens"])]
            cells = [way, sharing, counts["prompts"], *figures, f"{1000 * seconds / num_items:.1f}", unjudged]
            print("|", " | ".join(map(str, cells)), "|", flush=True)
    engine.close()


if __name__ == "__main__":
    main()
