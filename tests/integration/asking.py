"""Put requests to an engine."""

import subprocess
from contextlib import contextmanager

from workflow_scripts.engines.interface import Request, answers
from workflow_scripts.engines.vllm import Engine
from workflow_scripts.plan import EngineJob, ServingJob
from workflow_scripts.spec import Sampling

PROMPT = "describe this image in detail"


@contextmanager
def open_vllm(folder, max_num_seqs=8, gpus=0, **job):
    """An engine that is closed in the end. On a machine without a GPU, `gpus` is the number of copies."""
    settings = {"engine": "vllm", "model": {"path": folder}, "max_model_len": 512, **job}
    serving = ServingJob(gpus=gpus, serving={"max_num_seqs": max_num_seqs})
    engine = Engine(EngineJob(**settings), serving, [])
    try:
        yield engine
    finally:
        engine.close()


def request(key, *images, text=PROMPT, max_tokens=24, seed=0, **fields):
    sampling = Sampling(**{name: fields.pop(name) for name in list(fields) if name in Sampling.model_fields})
    return Request(key, text, max_tokens, sampling, seed, images=images, **fields)


def ask(engine, requests):
    """Answers by key."""
    queue = iter(requests)
    return {asked.key: answer for asked, answer in answers(engine, lambda: next(queue, None))}


def copies_of(process):
    """Process ids of the vLLM copies that a process has started."""
    command = ["pgrep", "-P", str(process), "-f", "vllm_copy"]
    return [int(line) for line in subprocess.run(command, capture_output=True, text=True).stdout.split()]
