"""Ask a judge about ballots until every item has a verdict or its attempts are spent."""

import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from workflow_scripts.capeval.chunk import Costs, costs, split
from workflow_scripts.capeval.parse import parse_answer
from workflow_scripts.capeval.prompt import answer_schema, prompt_text, system_text
from workflow_scripts.engines.interface import Answer, Engine, Request, answers, request_seed
from workflow_scripts.plan import JudgeJob

Row = dict[str, Any]


@dataclass
class Ballot:
    """All items of one image in one vote. `items` are (item_index, question) in the order in which they are asked."""

    image_id: str
    caption: str
    vote: int
    items: list[tuple[int, str]]
    rows: dict[int, Row] = field(default_factory=dict)  # of table `votes`, by position

    def settle(self, position: int, attempt: int, verdict: str, reasoning: str | None) -> None:
        """Note what became of the item at a position."""
        self.rows[position] = {
            "image_id": self.image_id,
            "item_index": self.items[position][0],
            "vote": self.vote,
            "position": position,
            "attempt": attempt,
            "verdict": verdict,
            "reasoning": reasoning,
        }


@dataclass(frozen=True)
class Prompt:
    """Some items of a ballot: what one request asks."""

    ballot: Ballot
    positions: list[int]
    attempt: int

    @property
    def caption(self) -> str:
        """The caption that is judged."""
        return self.ballot.caption

    @property
    def questions(self) -> list[str]:
        """The questions in the prompt's order; the answer numbers them from 1."""
        return [self.ballot.items[position][1] for position in self.positions]


def vote_order(items: Sequence[tuple[int, str]], image_id: str, vote: int, seed: int) -> list[tuple[int, str]]:
    """The items as one vote asks them: vote 0 in the file's order, others in one that follows from image and vote."""
    ordered = list(items)
    if vote:
        random.Random(f"{seed}:{image_id}:{vote}").shuffle(ordered)
    return ordered


def judge_ballots(
    job: JudgeJob, engine: Engine, ballots: Iterable[Ballot], finish: Callable[[list[Row]], None]
) -> dict[str, int]:
    """Judge every ballot; `finish` gets each one's rows once all are there, in the order of their positions.

    An item without a readable verdict is asked again, with another seed and in a prompt of half the size, up to
    `job.attempts` times; then it is `unjudged`, and `reasoning` says why. A verdict depends on the ballot and the job
    alone, never on other ballots. Returns counts for the run record; prompt tokens are counted with the cached ones.
    """
    asking = _Asking(job, engine, ballots, finish)
    for request, answer in answers(engine, asking.next_request):
        asking.take(request.key, answer)
    return dict(asking.counts)


class _Asking:
    def __init__(
        self, job: JudgeJob, engine: Engine, ballots: Iterable[Ballot], finish: Callable[[list[Row]], None]
    ) -> None:
        self._job, self._ballots, self._finish = job, iter(ballots), finish
        self._count_tokens = lru_cache(4096)(engine.count_tokens)
        self._waiting: deque[tuple[Prompt, Costs]] = deque()
        self.counts = Counter(
            dict.fromkeys(("prompts", "prompt_tokens", "cached_tokens", "answer_tokens", "cut_answers", "errors"), 0)
            | dict.fromkeys(("asked_again", "unknown_items", "contradicted_items"), 0)
        )

    def next_request(self) -> Request | None:
        """The next prompt: of an item to be asked again, or of the next ballot."""
        while not self._waiting:
            ballot = next(self._ballots, None)
            if ballot is None:
                return None
            self._open(ballot)
        prompt, cost = self._waiting.popleft()
        count = len(prompt.positions)
        return Request(
            key=(prompt, cost),
            text=prompt_text(prompt.caption, prompt.questions),
            max_tokens=cost.max_tokens(count),
            sampling=self._job.sampling,
            seed=request_seed(
                self._job.sampling.seed,
                prompt.ballot.image_id,
                prompt.ballot.vote,
                prompt.attempt,
                prompt.positions[0],
            ),
            system=system_text(self._job.reasoning),
            schema=answer_schema(count, self._job.reasoning),
        )

    def _open(self, ballot: Ballot) -> None:
        questions = [question for _, question in ballot.items]
        cost = costs(self._count_tokens, ballot.caption, questions, self._job.reasoning)
        context = self._job.engine.max_model_len
        chunks, too_large = split(cost.items, context - cost.fixed, self._job.items_per_prompt)
        for position in too_large:
            needed = cost.fixed + cost.items[position]
            ballot.settle(position, 0, "unjudged", f"caption and item need {needed} tokens, max_model_len is {context}")
        self._waiting.extend((Prompt(ballot, chunk, 1), cost) for chunk in chunks)
        self._close(ballot)

    def take(self, key: tuple[Prompt, Costs], answer: Answer) -> None:
        """Note the verdicts of an answer, and queue its items without one."""
        prompt, cost = key
        ballot, positions = prompt.ballot, prompt.positions
        read = parse_answer(answer.text or "", len(positions))
        cut = answer.finish_reason == "length"
        self.counts.update(
            prompts=1,
            prompt_tokens=answer.num_prompt_tokens or 0,
            cached_tokens=answer.num_cached_tokens or 0,
            answer_tokens=answer.num_tokens or 0,
            cut_answers=int(cut),
            errors=int(answer.error is not None),
            unknown_items=read.num_unknown,
            contradicted_items=read.num_contradicted,
        )
        for number, verdict in read.found.items():
            ballot.settle(positions[number - 1], prompt.attempt, verdict.verdict, verdict.reason)
        left = [position for position in positions if position not in ballot.rows]
        if left and prompt.attempt < self._job.attempts:
            self.counts["asked_again"] += len(left)
            half = -(-len(positions) // 2)
            again = (left[first : first + half] for first in range(0, len(left), half))
            self._waiting.extendleft((Prompt(ballot, part, prompt.attempt + 1), cost) for part in again)
        else:
            fault = answer.error or ("the answer was cut" if cut else "the answer has no readable verdict")
            for position in left:
                ballot.settle(position, prompt.attempt, "unjudged", f"{fault} (attempt {prompt.attempt})")
        self._close(ballot)

    def _close(self, ballot: Ballot) -> None:
        if len(ballot.rows) == len(ballot.items):
            self._finish([ballot.rows[position] for position in range(len(ballot.items))])
