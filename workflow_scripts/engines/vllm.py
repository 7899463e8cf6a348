"""vLLM: answers in large batches that are filled as they empty, prefix caching, structured output, any number of GPUs.

The model runs in copies, each on its own GPUs in a process of its own (`vllm_copy`): gpus / tensor_parallel of them,
or one on a machine without a GPU. Requests go to the copy with most room.

What is promised of an answer: sampling, seed and limits are the request's own, and defaults in the model's folder are
not used. vLLM's sums depend on what else is in the batch, though, so that a near tie between two tokens can fall
otherwise in another batch. `VLLM_BATCH_INVARIANT=1` in the job's environment excludes that on recent GPUs, with slower
kernels; it is not set here, and the run record says whether it was.
"""

import dataclasses
import functools
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from workflow_scripts.engines.interface import Answer, Picture, Request
from workflow_scripts.engines.weights import require_safetensors
from workflow_scripts.errors import UserError
from workflow_scripts.plan import EngineJob, ServingJob

log = logging.getLogger("capsweep")

_ROOT = Path(__file__).resolve().parent.parent.parent
_AHEAD = 32  # requests that a copy prepares beyond those it answers; each holds its image in memory


class Engine:
    """The copies of one model."""

    reads_images = True

    def __init__(self, job: EngineJob, serving: ServingJob, pictures: Sequence[Picture]) -> None:
        folder = job.model.path
        require_safetensors(folder)
        self._folder = folder
        self._number = 0
        self._asked: dict[int, Request] = {}
        self._copies: list[_Process] = []
        places = serving.serving.max_num_seqs
        self._limit = places + min(places, _AHEAD)
        self.facts: dict[str, Any] = {
            "vllm": {
                "copies": 0,
                "batch_invariant": os.environ.get("VLLM_BATCH_INVARIANT", "0") == "1",
                "num_prompt_tokens": 0,
                "num_cached_tokens": 0,
            }
        }
        try:
            for devices in split_devices(serving.gpus, serving.serving.tensor_parallel):
                self._copies.append(_Process(job, serving, devices))
            waiting = list(self._copies)
            while waiting:
                for copy in self._ready(waiting):
                    self._receive(copy)
                    waiting.remove(copy)
                    log.info("%s: %d of %d copies are up", folder, len(self._copies) - len(waiting), len(self._copies))
        except BaseException:
            self.close()
            raise
        self.facts["vllm"]["copies"] = len(self._copies)

    def room(self) -> int:
        """Requests that the copies can take."""
        return self._limit * len(self._copies) - len(self._asked)

    def submit(self, request: Request) -> None:
        """Send a request to the copy with most room."""
        copy = min(self._copies, key=lambda copy: copy.num_asked)
        self._number += 1
        self._asked[self._number] = request
        copy.num_asked += 1
        try:
            copy.pipe.send((self._number, dataclasses.replace(request, key=None, picture=None)))
        except OSError:
            self._receive(copy)  # what it said before it died

    def collect(self) -> list[tuple[Request, Answer]]:
        """Wait for answers of any copy."""
        done: list[tuple[Request, Answer]] = []
        while self._asked and not done:
            for copy in self._ready(self._copies):
                answers = self._receive(copy)
                copy.num_asked -= len(answers)
                done += [(self._asked.pop(number), answer) for number, answer in answers]
        for _, answer in done:
            self.facts["vllm"]["num_prompt_tokens"] += answer.num_prompt_tokens or 0
            self.facts["vllm"]["num_cached_tokens"] += answer.num_cached_tokens or 0
        return done

    def count_tokens(self, text: str) -> int:
        """Tokens of a text by the model's tokenizer."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def close(self) -> None:
        """End the copies."""
        for copy in self._copies:
            copy.pipe.close()
        for copy in self._copies:
            copy.wait()
        self._copies = []

    @functools.cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self._folder, local_files_only=True)

    def _ready(self, copies: Sequence["_Process"]) -> list["_Process"]:
        """Copies that have said something, or have died; waits for one."""
        while True:
            speaking = wait([copy.pipe for copy in copies], timeout=5)
            found = [copy for copy in copies if copy.pipe in speaking or copy.process.poll() is not None]
            if found:
                return found

    def _receive(self, copy: "_Process") -> list[tuple[int, Answer]]:
        """A copy's next answers. Raises UserError where it has failed or died."""
        try:
            kind, content = copy.pipe.recv() if copy.pipe.poll() else ("died", None)
        except (EOFError, OSError):
            kind, content = "died", None
        if kind == "died":
            raise UserError(f"{self._folder}: a vLLM process died (exit code {copy.wait()}); its log is above")
        if kind == "failed":
            raise UserError(
                f"{self._folder}: vLLM stopped with {content} (its log is above; where memory ran out, lower "
                "serving.max_num_seqs or max_pixels, or raise serving.tensor_parallel)"
            )
        return content or []


class _Process:
    """A copy's process, the pipe to it, and how many requests it holds."""

    def __init__(self, job: EngineJob, serving: ServingJob, devices: str | None) -> None:
        self.num_asked = 0
        self.pipe, theirs = Pipe()
        command = ["workflow_scripts.engines.vllm_copy", str(theirs.fileno())]
        self.process = start_process(command, devices, [theirs.fileno()])
        theirs.close()
        self.pipe.send((job, serving))

    def wait(self) -> int:
        """The exit code, negative for a signal; a copy that does not end in time is killed."""
        try:
            return self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def start_process(command: Sequence[str], devices: str | None, pass_fds: Sequence[int] = ()) -> subprocess.Popen:
    """Start a module with its arguments in a process that runs vLLM, on `devices` as `split_devices` gives them."""
    environment = {"VLLM_LOGGING_LEVEL": "WARNING", **os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(_ROOT), environment.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    if devices is not None:
        environment["CUDA_VISIBLE_DEVICES"] = devices
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        env=environment,
        pass_fds=pass_fds,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno(),
        start_new_session=True,  # so that it can end all that vLLM started
    )


def split_devices(gpus: int, tensor_parallel: int) -> list[str | None]:
    """The `CUDA_VISIBLE_DEVICES` of each copy; null leaves the environment's (no GPU, or one copy).

    Raises UserError where the environment shows fewer GPUs than the job was given.
    """
    copies = max(1, gpus // tensor_parallel)
    if copies == 1:
        return [None]
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = shown.split(",") if shown else [str(number) for number in range(gpus)]
    if len(devices) < copies * tensor_parallel:
        raise UserError(f"the job has {gpus} GPUs but CUDA_VISIBLE_DEVICES names {len(devices)}: {shown}")
    return [
        ",".join(devices[first : first + tensor_parallel])
        for first in range(0, copies * tensor_parallel, tensor_parallel)
    ]
