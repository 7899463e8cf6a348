"""The exact judge of the blocks world as an engine: it reads a caption's words, and its answers are a model's."""

import json
from typing import Any

from workflow_scripts.blocks.judge import judge_item
from workflow_scripts.engines.interface import Answer, Request


class ExactJudge:
    """Answers a prompt from its caption and questions; the prompt's text is for models. It costs no tokens."""

    reads_images = False

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self._waiting: list[Request] = []

    def room(self) -> int:
        """One at a time: there is nothing to be batched."""
        return 1 - len(self._waiting)

    def submit(self, request: Request) -> None:
        """Keep it for `collect`."""
        self._waiting.append(request)

    def collect(self) -> list[tuple[Request, Answer]]:
        """Verdicts on every question."""
        done, self._waiting = [(request, self._answer(request)) for request in self._waiting], []
        return done

    def _answer(self, request: Request) -> Answer:
        prompt = request.key[0]
        verdicts = {number: judge_item(prompt.caption, question) for number, question in enumerate(prompt.questions, 1)}
        return Answer(json.dumps(verdicts), finish_reason="stop")

    def count_tokens(self, text: str) -> int:
        """None: any prompt fits."""
        return 0

    def close(self) -> None:
        """Holds nothing."""
