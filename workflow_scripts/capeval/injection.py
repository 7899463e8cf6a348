"""Find captions that talk to the judge. They are judged like all others; the flags show where to look.

Flags are for people: a caption that quotes a sign with orders on it may be flagged, and nothing follows from it.
"""

import re
from collections.abc import Iterable
from typing import Any

_AROUND = 40  # characters shown on each side

_PATTERNS = {
    # Marks of chat templates: <|im_end|>, </s>, <start_of_turn>, [INST], <<SYS>>.
    "control_tokens": r"<[|｜]\w|[|｜]>|</?s>|</?(?:start|end)_of_(?:turn|text)|\[/?INST\]|<</?SYS>>",
    "override": r"\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,40}"
    r"\b(?:instructions?|rules?|prompts?|guidelines?|system message|task)\b",
    "verdict_demand": r"\b(?:answer|respond|reply|output|return|mark|rate|judge|score|label|count)\b[^.\n]{0,50}"
    r"(?:\b(?:with|as|is)\s+[\"'“]?(?:yes|no|not[_ -]mentioned)\b|[\"'“](?:yes|no|not[_ -]mentioned)[\"'”])",
    "verdict_form": r"\"verdict\"|\bnot_mentioned\b|\"\d+\"\s*:\s*\"?(?:yes|no)\b",
    "addresses_judge": r"\byou are (?:now )?(?:an?|the) (?:\w+ )?"
    r"(?:judge|assistant|ai|evaluator|grader|language model)\b"
    r"|\b(?:dear|attention|note to(?: the)?|hey|hello),? (?:judge|evaluator|grader|assistant|ai|llm)\b"
    r"|\b(?:system|developer) prompt\b|\bas an ai\b"
    r"|^\s*(?:system|assistant|user)\s*:",
    "claims_coverage": r"\b(?:this|the) caption (?:\w+ )?"
    r"(?:mentions|covers|contains|describes|supports|satisfies|confirms) (?:\w+ )?(?:every|all|any|each)"
    r"|\ball (?:questions|items|verdicts|checklist)\b[^.\n]{0,40}\b(?:yes|true|correct|supported)\b",
}
_COMPILED = {kind: re.compile(pattern, re.IGNORECASE | re.MULTILINE) for kind, pattern in _PATTERNS.items()}


def flags(caption: str) -> dict[str, str]:
    """Kind of each flag that a caption raises, with the words around the first place that raises it."""
    found = {}
    for kind, pattern in _COMPILED.items():
        if match := pattern.search(caption):
            around = caption[max(0, match.start() - _AROUND) : match.end() + _AROUND]
            found[kind] = " ".join(around.split())
    return found


def flagged_rows(captions: Iterable[tuple[str, str | None]]) -> list[dict[str, Any]]:
    """Rows of table `flagged` from (image_id, caption)."""
    return [
        {"image_id": image_id, "kind": kind, "excerpt": excerpt}
        for image_id, caption in captions
        for kind, excerpt in flags(caption or "").items()
    ]
