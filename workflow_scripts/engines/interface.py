"""What an engine is: it turns prompts, with or without an image, into text.

Captioners, the judge and the benchmarks ask the same engines. An engine is filled and emptied at the caller's pace,
so that its batch is never drained at the end of a chunk:

    for request, answer in answers(engine, queue.next):
        ...

Engines that only know captions (`replay`, `exact`) answer from the request's picture and leave its text alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from PIL import Image

from workflow_scripts.spec import Sampling


@dataclass(frozen=True)
class Picture:
    """An image: what tables call it, and its file."""

    image_id: str
    path: str


@dataclass(frozen=True)
class Request:
    """One prompt. Its answer depends on these fields and the engine's settings alone, never on its neighbours.

    `key` is the caller's name for it. `image` is RGB and upright, within the engine's max_pixels. `seed` is of this
    request alone, 0 to 2^63 - 1. `schema` is a JSON schema that the answer must follow, where the engine can hold it.
    """

    key: Any
    text: str
    max_tokens: int
    sampling: Sampling
    seed: int = 0
    system: str | None = None
    picture: Picture | None = None
    image: Image.Image | None = None
    schema: dict[str, Any] | None = None


@dataclass(frozen=True)
class Answer:
    """What became of a request. `text` is null where there is no answer, and `error` says why.

    `num_tokens` counts the answer's tokens without the end token, null where nobody counted. `finish_reason` is
    `stop` (the model ended), `length` (cut at the limit) or null (unknown). `num_cached_tokens` of the prompt were
    not computed anew.
    """

    text: str | None
    num_tokens: int | None = None
    finish_reason: str | None = None
    error: str | None = None
    num_prompt_tokens: int | None = None
    num_cached_tokens: int | None = None


class Engine(Protocol):
    """What answers requests."""

    reads_images: bool  # whether requests need `image`
    facts: dict[str, Any]  # counts for the run record

    def room(self) -> int:
        """How many more requests it takes before `collect` must be called."""
        ...

    def submit(self, request: Request) -> None:
        """Take a request; work on it may start at once."""
        ...

    def collect(self) -> list[tuple[Request, Answer]]:
        """Wait until at least one request is answered; those that are, in any order. Empty where none is in flight.

        A request that cannot be answered gets an `Answer` with an error. Raises UserError where going on is
        pointless, as for a server that refuses the key.
        """
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, without any template; an upper bound where the engine has no tokenizer."""
        ...

    def close(self) -> None:
        """Free what it holds: processes, GPUs, connections."""
        ...


def answers(engine: Engine, next_request: Callable[[], Request | None]) -> Iterator[tuple[Request, Answer]]:
    """Every request's answer as it comes. The engine is kept full.

    `next_request` gives None while there is nothing to ask; it is asked again after each answer has been taken, so
    an answer may lead to further requests.
    """
    while True:
        while engine.room() > 0 and (request := next_request()) is not None:
            engine.submit(request)
        done = engine.collect()
        if not done:
            return
        yield from done
