"""Read verdicts out of a judge's answer, whatever it looks like."""

import json
import re
from dataclasses import dataclass
from typing import Any

from workflow_scripts.capeval.prompt import VERDICTS

_ENTRY = re.compile(r'"([0-9]{1,6})"\s*:\s*')
_DECODER = json.JSONDecoder(strict=False)  # structured output may hold raw line breaks and tabs in a reason


@dataclass(frozen=True)
class Verdict:
    """What an answer says on one question."""

    verdict: str
    reason: str | None


@dataclass(frozen=True)
class Verdicts:
    """The readable part of an answer: verdicts by the question's number, and counts of what was of no use."""

    found: dict[int, Verdict]
    num_unreadable: int  # questions whose value is cut, broken or no verdict
    num_unknown: int  # entries on numbers that were not asked about
    num_contradicted: int  # questions with two different verdicts


def parse_answer(text: str, count: int) -> Verdicts:
    """Verdicts on questions 1 to `count`. Never raises.

    Prose and code fences around the JSON are passed over, and of a cut answer the finished entries count. A verdict is
    `yes`, `no` or `not_mentioned` in any case, with a space or hyphen for the underscore; nothing else is guessed at.
    A question that has two different verdicts has none.
    """
    found: dict[int, Verdict] = {}
    contradicted, unreadable, unknown, position = set(), set(), 0, 0
    while entry := _ENTRY.search(text, position):
        number, position = int(entry[1]), entry.end()
        try:
            value, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            value = None
        verdict = _verdict(value)
        if not 1 <= number <= count:
            unknown += 1
        elif verdict is None:
            unreadable.add(number)
        elif found.setdefault(number, verdict).verdict != verdict.verdict:
            contradicted.add(number)
    settled = {number: verdict for number, verdict in found.items() if number not in contradicted}
    return Verdicts(settled, len(unreadable - found.keys()), unknown, len(contradicted))


def _verdict(value: Any) -> Verdict | None:
    reason = None
    if isinstance(value, dict):
        value, reason = value.get("verdict"), value.get("reason")
    if not isinstance(value, str):
        return None
    name = re.sub(r"[\s_-]+", "_", value.strip().lower())
    said = isinstance(reason, str) and reason.strip()
    return Verdict(name, " ".join(reason.split()) if said else None) if name in VERDICTS else None
