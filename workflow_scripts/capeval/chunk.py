"""Split a checklist into prompts that fit the judge's context, answers included."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workflow_scripts.capeval.prompt import REASON_CHARACTERS, VERDICTS, caption_text, question_text, system_text

_TEMPLATE_TOKENS = 128  # what a chat template may add to a prompt
_ANSWER_TOKENS = 16  # braces, and what a model puts around them
_CHARACTERS_PER_TOKEN = 2  # of a reason, fewer than in English; an answer that is longer still is cut and asked again


@dataclass(frozen=True)
class Costs:
    """Tokens of one caption's prompts: `fixed` for what all have, `items` for each question with its answer."""

    fixed: int
    items: list[int]
    answer: int  # of `items`, each answer's part

    def max_tokens(self, num_items: int) -> int:
        """Room for the answer on so many questions."""
        return _ANSWER_TOKENS + num_items * self.answer


def costs(count_tokens: Callable[[str], int], caption: str, questions: Sequence[str], reasoning: bool) -> Costs:
    """What a caption and its questions need."""
    answer = count_tokens(f'"999": "{max(VERDICTS, key=len)}", ')
    if reasoning:
        answer = count_tokens(f'"999": {{"reason": "", "verdict": "{max(VERDICTS, key=len)}"}}, ')
        answer += REASON_CHARACTERS // _CHARACTERS_PER_TOKEN
    fixed = count_tokens(system_text(reasoning)) + count_tokens(caption_text(caption))
    items = [count_tokens(question_text(999, question)) + answer for question in questions]
    return Costs(_TEMPLATE_TOKENS + _ANSWER_TOKENS + fixed, items, answer)


def split(sizes: Sequence[int], room: int, most: int | None = None) -> tuple[list[list[int]], list[int]]:
    """Positions of items in prompts of at most `most` items whose sizes sum to at most `room`, in their order; and
    the positions of items that are too large even alone."""
    chunks: list[list[int]] = []
    too_large, used = [], 0
    for position, size in enumerate(sizes):
        if size > room:
            too_large.append(position)
            continue
        if not chunks or used + size > room or len(chunks[-1]) == most:
            chunks.append([])
            used = 0
        chunks[-1].append(position)
        used += size
    return chunks, too_large
