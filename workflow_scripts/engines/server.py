"""Any OpenAI-compatible address: hosted models, or one's own `vllm serve`.

Requests go out from `concurrency` threads. A rate limit, an overloaded or broken server and a lost connection are
waited out: exponentially longer with jitter, at least as long as the server asks. Images travel as PNG, so that the
model sees the pixels that other engines would give it; the captioner's `max_pixels` bounds their size.

The key comes from the environment variable that the config names. It is in no log, error or file: what a server says
is cleared of it.
"""

import base64
import email.utils
import io
import logging
import os
import queue
import random
import threading
import time
from collections.abc import Sequence
from typing import Any

import openai
from openai.types.chat import ChatCompletion
from PIL import Image

from workflow_scripts.engines.interface import Answer, Picture, Request
from workflow_scripts.errors import UserError
from workflow_scripts.plan import EngineJob, ServingJob
from workflow_scripts.spec import Server

log = logging.getLogger("capsweep")

FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0  # seconds between attempts, doubled each time
_REFUSED = {401: "refuses the key", 402: "wants to be paid", 403: "refuses the key", 404: "knows no such model or page"}
_AGAIN = {408, 409, 429, *range(500, 600)}  # states of the server, not of the request
_OUT_OF_ORDER = {429, 502, 503}  # states of the whole service: going on makes no sense while they last


class Engine:
    """One model behind an address. `num_tokens` is the server's own count, which may include the end token."""

    reads_images = True

    def __init__(self, job: EngineJob, serving: ServingJob, pictures: Sequence[Picture]) -> None:
        if serving.server is None:
            raise UserError("--serving: engine 'server' needs the key 'server' with the address")
        self._job, self._server = job, serving.server
        self._key = _key(self._server)
        self._client = openai.OpenAI(
            base_url=self._server.url,
            api_key=self._key or "none",
            timeout=self._server.timeout_seconds,
            max_retries=0,
        )
        self._pace = _Pace(self._server.requests_per_minute)
        self._num_asked = 0
        self._inbox: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[tuple[Request, Answer | UserError]] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self.facts: dict[str, Any] = {"server": {"num_retries": 0, "models": []}}
        for _ in range(self._server.concurrency):
            threading.Thread(target=self._work, daemon=True).start()

    def room(self) -> int:
        """Twice the threads, so that one that is done finds the next request waiting."""
        return 2 * self._server.concurrency - self._num_asked

    def submit(self, request: Request) -> None:
        """Leave the request to the next free thread."""
        self._num_asked += 1
        self._inbox.put(request)

    def collect(self) -> list[tuple[Request, Answer]]:
        """Wait for answers of any thread."""
        done: list[tuple[Request, Answer]] = []
        while self._num_asked and (not done or not self._outbox.empty()):
            request, answer = self._outbox.get()
            self._num_asked -= 1
            if isinstance(answer, UserError):
                raise answer
            done.append((request, answer))
        return done

    def count_tokens(self, text: str) -> int:
        """An upper bound: no tokenizer makes more tokens than there are bytes."""
        return len(text.encode())

    def close(self) -> None:
        """Stop asking; answers that are still on their way are dropped."""
        self._closed.set()
        for _ in range(self._server.concurrency):
            self._inbox.put(None)

    def _work(self) -> None:
        while (request := self._inbox.get()) is not None and not self._closed.is_set():
            try:
                answer: Answer | UserError = self._ask(request)
            except UserError as error:
                answer = error
            except Exception as error:  # a thread that died would leave the job waiting for ever
                answer = UserError(self._clear(f"{self._server.url}: {type(error).__name__}: {error}"))
            self._outbox.put((request, answer))

    def _ask(self, request: Request) -> Answer:
        """One answer, after as many attempts as it takes and the config allows. Raises UserError as `collect` does."""
        message = _message(request, self._job)
        for attempt in range(self._server.attempts):
            self._pace.wait(self._closed)
            try:
                completion = self._client.chat.completions.create(**message)
                return self._read(completion)
            except openai.APIStatusError as error:
                status, trouble, pause = error.status_code, f"{error.status_code}: {error.message}", _retry_after(error)
                if status in _REFUSED or error.code == "insufficient_quota":
                    says = _REFUSED.get(status, "wants to be paid")
                    variable = self._server.key_variable
                    raise UserError(
                        f"{self._server.url}: the server {says} (model {self._job.server_model!r}, "
                        f"{f'key in ${variable}' if variable else 'no key_variable given'}): {self._clear(trouble)}"
                    ) from None
                if status not in _AGAIN:
                    too_long = error.code == "context_length_exceeded" or "maximum context length" in error.message
                    return Answer(None, error=self._clear(f"server: {trouble}"), too_long=too_long)
            except openai.APITimeoutError:
                status, trouble, pause = 0, f"no answer within {self._server.timeout_seconds} s", 0.0
            except openai.APIConnectionError as error:
                status, trouble, pause = 503, f"cannot be reached: {error.__cause__ or error}", 0.0
            except (openai.APIResponseValidationError, ValueError) as error:
                status, trouble, pause = 0, f"malformed answer: {error}", 0.0
            if attempt + 1 < self._server.attempts:
                delay = min(FIRST_DELAY * 2**attempt, LONGEST_DELAY) * random.uniform(0.5, 1.0)
                self._count_retry(trouble, max(delay, pause))
                if self._closed.wait(max(delay, pause)):
                    break
        last = self._clear(f"after {self._server.attempts} attempts: {trouble}")
        if status in _OUT_OF_ORDER:
            raise UserError(f"{self._server.url}: {last}; run again later, what is done is kept")
        return Answer(None, error=f"server: {last}")

    def _read(self, completion: Any) -> Answer:
        """Raises ValueError where the server's JSON is not a chat completion."""
        if not isinstance(completion, ChatCompletion) or not completion.choices:
            raise ValueError("not a chat completion")
        choice, usage = completion.choices[0], completion.usage
        with self._lock:
            models = self.facts["server"]["models"]
            if completion.model not in models:
                models.append(completion.model)
        text, reason = choice.message.content, choice.finish_reason
        fault = None
        if reason not in ("stop", "length"):
            fault = f"server ended the answer: {reason}"
        elif not isinstance(text, str):
            fault = f"server gave no text: {choice.message.refusal or 'nothing'}"
        details = usage.prompt_tokens_details if usage else None
        return Answer(
            None if fault else text.strip(),
            usage.completion_tokens if usage else None,
            None if fault else reason,
            error=None if fault is None else self._clear(fault),
            num_prompt_tokens=usage.prompt_tokens if usage else None,
            num_cached_tokens=details.cached_tokens if details else None,
        )

    def _count_retry(self, trouble: str, seconds: float) -> None:
        """Count it; log the first one and long waits."""
        with self._lock:
            self.facts["server"]["num_retries"] += 1
            first = self.facts["server"]["num_retries"] == 1
        if first or seconds > LONGEST_DELAY:
            log.warning("%s: asking again in %.0f s (%s)", self._server.url, seconds, self._clear(trouble))

    def _clear(self, text: str) -> str:
        """A server's words without the key, and not too many of them."""
        return (text.replace(self._key, "[key]") if self._key else text)[:500]


class _Pace:
    """No more requests a minute than the server takes, evenly."""

    def __init__(self, per_minute: int | None) -> None:
        self._gap = 60 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self, closed: threading.Event) -> None:
        """Return when it is this request's turn."""
        with self._lock:
            turn = max(self._next, time.monotonic())
            self._next = turn + self._gap
        closed.wait(turn - time.monotonic())


def _key(server: Server) -> str | None:
    if server.key_variable is None:
        return None
    key = os.environ.get(server.key_variable)
    if not key:
        raise UserError(f"server.key_variable: the environment variable {server.key_variable} is not set")
    return key


def _message(request: Request, job: EngineJob) -> dict[str, Any]:
    """The request as the chat API takes it. What the API of OpenAI lacks goes along only where it is set."""
    content: Any = request.text
    if request.images:
        content = [
            {"type": "text", "text": part}
            if isinstance(part, str)
            else {"type": "image_url", "image_url": {"url": _data_url(part)}}
            for part in request.parts()
        ]
    system = [] if request.system is None else [{"role": "system", "content": request.system}]
    sampling = request.sampling
    message = {
        "model": job.server_model,
        "messages": [*system, {"role": "user", "content": content}],
        "max_tokens": request.max_tokens,
        "temperature": sampling.temperature,
        "seed": request.seed,
    }
    if sampling.top_p < 1:
        message["top_p"] = sampling.top_p
    if sampling.presence_penalty:
        message["presence_penalty"] = sampling.presence_penalty
    if request.schema:
        schema = {"name": "answer", "schema": request.schema, "strict": True}
        message["response_format"] = {"type": "json_schema", "json_schema": schema}
    extra: dict[str, Any] = {}
    if sampling.top_k:
        extra["top_k"] = sampling.top_k
    if job.chat_template_kwargs:
        extra["chat_template_kwargs"] = job.chat_template_kwargs
    return {**message, "extra_body": extra} if extra else message


def _data_url(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _retry_after(error: openai.APIStatusError) -> float:
    """Seconds that the server asks to wait, 0 where it does not. RFC 9110, section 10.2.3: seconds or a date."""
    value = error.response.headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return 0.0
