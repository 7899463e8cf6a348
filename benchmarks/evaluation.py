"""What batches are worth when a trained model answers benchmark questions: vLLM and Transformers, in batches and one
question at a time.

    .venv-serve/bin/python -m benchmarks.evaluation --model FOLDER --data BENCHMARKS --questions 100

BENCHMARKS has a folder a benchmark, by name, such as those of `benchmarks.understanding.make_tiny`; of the questions of
all of them, so many are asked, evenly spaced, greedily, of the same model and in the same order. Each way has an engine
of its own, so that no cache helps another; starting it is not counted. Prints a table, with how many answers are those
of Transformers one at a time (up to bytes that make no character, which random models write and vLLM keeps back).
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from workflow_scripts import engines
from workflow_scripts.benchmarks.understanding import BENCHMARKS
from workflow_scripts.benchmarks.understanding.base import read_questions
from workflow_scripts.command import set_up
from workflow_scripts.engines.interface import Answer, Engine, Request, answers
from workflow_scripts.images import decode
from workflow_scripts.plan import EngineJob, ServingJob
from workflow_scripts.spec import Sampling, Serving, Source


def read_requests(data: Path, count: int, max_new_tokens: int) -> list[Request]:
    """Questions evenly spaced over all benchmarks in a folder, with their images."""
    asked = [
        (BENCHMARKS[folder.name], question)
        for folder in sorted(data.iterdir())
        for question in read_questions(BENCHMARKS[folder.name], folder)
    ]
    chosen = [asked[number * len(asked) // count] for number in range(count)]
    return [
        Request(
            number, benchmark.prompt(question), max_new_tokens, Sampling(),
            images=tuple(decode(image.data())[0] for image in question.images),
        )
        for number, (benchmark, question) in enumerate(chosen)
    ]  # fmt: skip


def answer_all(engine: Engine, requests: Sequence[Request]) -> dict[int, Answer]:
    """Answers by the requests' numbers; the engine is kept full."""
    waiting = iter(requests)
    return {request.key: answer for request, answer in answers(engine, lambda: next(waiting, None))}


def readable(answer: Answer) -> str:
    """An answer up to the first byte that makes no character."""
    return (answer.text or "").partition("\ufffd")[0].strip()


def main() -> None:
    """Run every way and print the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", type=Path, required=True, help="a LLaVA folder")
    arguments.add_argument("--data", type=Path, required=True, help="folder with a folder a benchmark")
    arguments.add_argument("--questions", type=int, default=100)
    arguments.add_argument("--max-new-tokens", type=int, default=32)
    arguments.add_argument("--max-model-len", type=int, default=4096)
    arguments.add_argument("--max-num-seqs", type=int, default=64)
    arguments.add_argument("--gpus", type=int, default=0)
    args = arguments.parse_args()
    set_up()
    requests = read_requests(args.data, args.questions, args.max_new_tokens)
    serving = ServingJob(gpus=args.gpus, serving=Serving(max_num_seqs=args.max_num_seqs))
    most = max(len(request.images) for request in requests)
    expected: dict[int, str] = {}
    print(f"{args.model.name}, {len(requests)} questions\n")
    print("| engine | asked | seconds | questions/s | answer tokens/s | times | same answers |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in ("transformers", "vllm"):
        for way in ("one at a time", "in batches"):
            job = EngineJob(
                engine=name, model=Source(path=args.model), max_model_len=args.max_model_len, max_images=most
            )
            engine = engines.open_engine(job, serving, [])
            answer_all(engine, [requests[0]])
            started = time.monotonic()
            rounds = [requests] if way == "in batches" else [[request] for request in requests]
            found = {key: answer for some in rounds for key, answer in answer_all(engine, some).items()}
            seconds = time.monotonic() - started
            engine.close()
            if not expected:
                expected, slowest = {key: readable(answer) for key, answer in found.items()}, seconds
            same = sum(readable(answer) == expected[key] for key, answer in found.items())
            tokens = sum(answer.num_tokens or 0 for answer in found.values())
            rates = f"{len(found) / seconds:.1f} | {tokens / seconds:.0f} | {slowest / seconds:.1f}"
            print(f"| {name} | {way} | {seconds:.1f} | {rates} | {same} of {len(found)} |", flush=True)


if __name__ == "__main__":
    main()
