"""What an engine is: it turns prompts, with or without images, into text.

Captioners, the judge and the benchmarks ask the same engines. An engine is filled and emptied at the caller's pace,
so that its batch is never drained at the end of a chunk:

    for request, answer in answers(engine, queue.next):
        ...

Engines that only know captions (`replay`, `exact`) answer from the request's picture and leave its text alone.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from PIL import Image

from workflow_scripts.spec import Sampling

IMAGE = "<image>"  # where an image stands in a prompt


@dataclass(frozen=True)
class Picture:
    """An image: what tables call it, and its file."""

    image_id: str
    path: str


@dataclass(frozen=True)
class Request:
    """One prompt. Its answer depends on these fields and the engine's settings alone, never on its neighbours.

    `key` is the caller's name for it. `images` are RGB and upright, within the engine's max_pixels; they stand where
    `text` has IMAGE, in their order, or before a text that has it nowhere. `seed` is of this request alone, 0 to
    2^63 - 1. `schema` is a JSON schema that the answer must follow, where the engine can hold it.
    """

    key: Any
    text: str
    max_tokens: int
    sampling: Sampling
    seed: int = 0
    system: str | None = None
    picture: Picture | None = None
    images: tuple[Image.Image, ...] = ()
    schema: dict[str, Any] | None = None

    def parts(self) -> list[str | Image.Image]:
        """Texts and images in the order in which the model sees them.

        Line breaks between images and the beginning or end of all text are left to the model's chat template. Without
        images the text is one part, whatever it says. Raises ValueError where marks and images differ in number.
        """
        if not self.images:
            return [self.text]
        texts = self.text.split(IMAGE) if IMAGE in self.text else [*[""] * len(self.images), self.text]
        parts = [texts[0], *chain.from_iterable(zip(self.images, texts[1:], strict=True))]
        parts = [part for part in parts if not isinstance(part, str) or part.strip("\n")]
        written = [place for place, part in enumerate(parts) if isinstance(part, str)]
        if written:
            parts[written[0]] = parts[written[0]].lstrip("\n")
            parts[written[-1]] = parts[written[-1]].rstrip("\n")
        return parts


@dataclass(frozen=True)
class Answer:
    """What became of a request. `text` is null where there is no answer, and `error` says why.

    `num_tokens` counts the answer's tokens without the end token, null where nobody counted. `finish_reason` is
    `stop` (the model ended), `length` (cut at the limit) or null (unknown). `num_cached_tokens` of the prompt were
    not computed anew. `too_long` says of an error that the prompt fills the context: asking again is no use.
    """

    text: str | None
    num_tokens: int | None = None
    finish_reason: str | None = None
    error: str | None = None
    num_prompt_tokens: int | None = None
    num_cached_tokens: int | None = None
    too_long: bool = False


def request_seed(*parts: Any) -> int:
    """The seed of a request that the parts name, 0 to 2^63 - 1."""
    return int.from_bytes(hashlib.sha256(":".join(map(str, parts)).encode()).digest()[:8], "big") >> 1


def unreadable(fault: Exception) -> Answer:
    """The answer to a request whose image cannot be read."""
    return Answer(None, error=f"unreadable image: {type(fault).__name__}: {fault}")


class Engine(Protocol):
    """What answers requests."""

    reads_images: bool  # whether requests need `images`
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
