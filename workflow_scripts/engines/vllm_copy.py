"""One copy of a model in vLLM, in a process of its own that engine `vllm` starts and feeds through a pipe.

    python -m workflow_scripts.engines.vllm_copy FD     # by hand it is of no use

In: (job, serving), then (number, Request) at any time. Out: ("ready", None), then ("answers", [(number, Answer)]), or
("failed", why). The process ends, with those that vLLM started, when the other end closes or its owner dies.
"""

import logging
import os
import queue
import signal
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

from transformers import AutoConfig
from vllm import LLM, SamplingParams
from vllm.exceptions import VLLMServerError
from vllm.platforms import current_platform
from vllm.renderers import ChatParams
from vllm.renderers.params import TokenizeParams
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

from workflow_scripts.engines.interface import Answer, Request
from workflow_scripts.plan import EngineJob, ServingJob

_CPU_CACHE = 1 << 30  # bytes of attention cache on a machine without a GPU


class Copy:
    """A model that writes answers, as many at once as `serving` says."""

    def __init__(self, job: EngineJob, serving: ServingJob) -> None:
        self._llm = load(job, serving)
        self._max_model_len = job.max_model_len
        self._chat = ChatParams(chat_template_kwargs={**job.chat_template_kwargs, "add_generation_prompt": True})
        self._tokenize = TokenizeParams(max_total_tokens=None, add_special_tokens=False)  # the template has them

    def submit(self, number: int, request: Request) -> Answer | None:
        """Prepare the prompt and its image and hand them to the scheduler; the answer where that is impossible."""
        try:
            prompt = self._prompt(request)
            length = len(prompt["prompt_token_ids"])
            if length >= self._max_model_len:
                fault = f"prompt of {length} tokens fills max_model_len {self._max_model_len}"
                return Answer(None, error=fault, too_long=True)
            self._llm.llm_engine.add_request(str(number), prompt, _sampling(request))
        except VLLMServerError:  # vLLM itself is broken
            raise
        except Exception as error:  # processors raise whatever they like on what they cannot take
            return Answer(None, error=f"cannot be asked: {type(error).__name__}: {error}")
        return None

    def busy(self) -> bool:
        """Whether an answer is being written."""
        return self._llm.llm_engine.has_unfinished_requests()

    def step(self) -> list[tuple[int, Answer]]:
        """Write a little more of all answers; those that are complete now."""
        outputs = self._llm.llm_engine.step()
        return [(int(output.request_id), _answer(output)) for output in outputs if output.finished]

    def _prompt(self, request: Request) -> Any:
        content: Any = request.text
        if request.images:
            content = [
                {"type": "text", "text": part} if isinstance(part, str) else {"type": "image_pil", "image_pil": part}
                for part in request.parts()
            ]
        system = [] if request.system is None else [{"role": "system", "content": request.system}]
        conversation = [*system, {"role": "user", "content": content}]
        _, (prompt,) = self._llm.renderer.render_chat([conversation], self._chat, self._tokenize)
        return prompt


def load(job: EngineJob, serving: ServingJob) -> LLM:
    """The model in vLLM, ready to write."""
    return LLM(str(job.model.path), seed=0, **model_settings(job, serving))


def model_settings(job: EngineJob, serving: ServingJob) -> dict[str, Any]:
    """How vLLM runs a model: all that its `LLM` is told beside the folder and the seed."""
    settings = serving.serving
    place: dict[str, Any] = {"gpu_memory_utilization": settings.gpu_memory}
    if current_platform.is_cpu():
        os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        logging.getLogger("vllm.v1.worker.cpu_worker").setLevel(logging.ERROR)  # it warns at every image
        place = {
            "enforce_eager": True,
            "distributed_executor_backend": "uni",
            "kv_cache_memory_bytes": _CPU_CACHE,
            "block_size": 32,
            # A prompt that is read in parts rewinds the generator of its seed, which a CPU's cannot do.
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(4096, job.max_model_len),
        }
    return {
        "load_format": "safetensors",
        # float32 stays so
        "dtype": AutoConfig.from_pretrained(job.model.path, local_files_only=True).dtype or "auto",
        "trust_remote_code": False,
        "generation_config": "vllm",  # the folder's end tokens count, its sampling does not
        "max_model_len": job.max_model_len,
        "max_num_seqs": settings.max_num_seqs,
        "tensor_parallel_size": settings.tensor_parallel,
        "limit_mm_per_prompt": {"image": job.max_images, "video": 0},
        "mm_processor_cache_gb": 0,  # few images come twice, and those that do meet the prefix cache
        "enable_prefix_caching": True,
        "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
        **place,
    }


def _sampling(request: Request) -> SamplingParams:
    sampling = request.sampling
    return SamplingParams(
        max_tokens=request.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        presence_penalty=sampling.presence_penalty,
        seed=request.seed,
        structured_outputs=StructuredOutputsParams(json=request.schema) if request.schema else None,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _answer(output: Any) -> Answer:
    """vLLM counts the end token; an answer does not."""
    (completion,) = output.outputs
    reason = completion.finish_reason
    if reason not in ("stop", "length"):
        return Answer(None, error=f"vLLM ended the answer: {reason}")
    return Answer(
        completion.text.strip(),
        len(completion.token_ids) - (reason == "stop"),
        reason,
        num_prompt_tokens=len(output.prompt_token_ids),
        num_cached_tokens=output.num_cached_tokens,
    )


def _read(owner: Connection, inbox: queue.SimpleQueue, parent: int) -> None:
    """Take requests as they come, so that the owner never waits; end everything when the owner is gone."""
    try:
        while os.getppid() == parent:
            if owner.poll(5):
                inbox.put(owner.recv())
    except (EOFError, OSError):
        pass
    os.killpg(0, signal.SIGTERM)


def serve(owner: Connection) -> None:
    """Answer requests until the owner closes the pipe."""
    inbox: queue.SimpleQueue = queue.SimpleQueue()
    threading.Thread(target=_read, args=(owner, inbox, os.getppid()), daemon=True).start()
    try:
        copy = Copy(*inbox.get())
        owner.send(("ready", None))
        while True:
            done = []
            while not inbox.empty() or not (copy.busy() or done):
                number, request = inbox.get()
                refusal = copy.submit(number, request)
                done += [(number, refusal)] if refusal else []
            done += copy.step() if copy.busy() else []
            if done:
                owner.send(("answers", done))
    except ConnectionError:  # the owner is gone; `_read` ends this process in a moment
        return
    except Exception as error:
        owner.send(("failed", f"{type(error).__name__}: {error}"))
        raise


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
