"""Captions that are none: the faults of `spec.CaptionFault`, each told by a rule.

The rules look for what no sound caption does, so that a poor caption stays one: how much it says and how much of that
is right is for CAPEval to measure.
"""

import re
from collections import Counter
from collections.abc import Sequence

SYMBOL_LENGTH, SYMBOL_SHARE = 16, 0.6  # characters of a text that can have this share of one of them, at least
LOOPS, LOOP_SHARE = 4, 0.25  # equal parts at the end, and the share of the text that they are, at least
LOOP_LENGTH, LOOP_LENGTH_UNSPACED = 96, 24  # their characters, at least
WINDOW, REPEATED_SHARE, REPEATED_LENGTH = 4, 0.5, 60  # words of a window, windows that stood before, words, at least
UNSPACED = 15  # characters a space, above which words are not told by spaces
REFUSAL_REST = 12  # words beside a refusal that make it a caption
ECHO_WORDS = 8  # words beside an echoed prompt, at most

_REFUSAL = re.compile(
    r"^\W*(?:(?:i am|i['’]m|we are) (?:really |very )?sorry|sorry\b|(?:i |we )?apologi[sz]e|unfortunately,? (?:i|we)\b"
    r"|(?:i|we) (?:can ?not|can['’]t|could ?n['’]t|won['’]t|will not|do not|don['’]t) "
    r"(?:\w+ ){0,2}?(?:help|assist|describe|provide|view|see|identify|analy[sz]e|fulfil+|comply|process|have)\b"
    r"|(?:i am|i['’]m) (?:un|not )able to\b|as an ai\b|no image (?:is|was|has been)\b"
    r"|(?:抱歉|对不起|很抱歉|我无法|作为一个人工智能))",
    re.IGNORECASE,
)
_TO_THE_READER = re.compile(
    r"\b(?:i|i['’]m|me|my|we|us|our|you|your|sorry|as an ai)\b|[我你您]|抱歉|对不起", re.IGNORECASE
)


def caption_fault(caption: str, finish_reason: str | None, prompt: str) -> str | None:
    """The first fault that a caption has, in the order of `spec.CaptionFault` and `cut` last; None for a sound one."""
    text = caption.strip()
    if not text:
        return "empty"
    if is_one_symbol(text):
        return "one_symbol"
    if is_repetition(text):
        return "repetition"
    if is_refusal(text):
        return "refusal"
    if is_echo(text, prompt):
        return "echo"
    return "cut" if finish_reason == "length" else None


def is_one_symbol(text: str) -> bool:
    """No letter and no digit at all, or one character that is most of a longer text: `!!!!!!`, `0000`."""
    symbols = re.sub(r"\s", "", text)
    if not any(symbol.isalnum() for symbol in symbols):
        return True
    (_, count), *_ = Counter(symbols).most_common(1)
    return len(symbols) >= SYMBOL_LENGTH and count > SYMBOL_SHARE * len(symbols)


def is_repetition(text: str) -> bool:
    """A tail that says one thing over and over, or a text of which most windows of four words stood before.

    Windows as in Welleck et al. 2020 (seq-rep-4), of characters where a script has no spaces.
    """
    words = text.lower().split()
    characters = re.sub(r"\W+$", "", "".join(words))
    unspaced = len(text) > UNSPACED * len(words)
    least = max(LOOP_LENGTH_UNSPACED if unspaced else LOOP_LENGTH, LOOP_SHARE * len(characters))
    for period in range(1, len(characters) // LOOPS + 1):
        if looping_tail(characters, period) >= max(LOOPS * period, least):
            return True
    units = characters if unspaced else words
    return len(units) >= REPEATED_LENGTH and repetition(units) > REPEATED_SHARE


def looping_tail(text: str, period: int) -> int:
    """The number of characters at the end that go round in a loop of `period`; `period` itself where none do."""
    start = len(text)
    while start > period and text[start - 1] == text[start - 1 - period]:
        start -= 1
    return len(text) - start + period


def repetition(units: Sequence[str]) -> float:
    """The share of windows of four units that stood in the text before, 0-1; 0 where there is no window."""
    windows = [tuple(units[start : start + WINDOW]) for start in range(len(units) - WINDOW + 1)]
    return 1 - len(set(windows)) / len(windows) if windows else 0.0


def is_refusal(text: str) -> bool:
    """A text that begins by declining, and says little beside what it says to the reader."""
    if not _REFUSAL.match(text):
        return False
    clauses = re.split(r"[.!?;,:\n。，！？；：]|\bbut\b|\bhowever\b", text)
    rest = " ".join(clause for clause in clauses if not _TO_THE_READER.search(clause))
    return len(re.findall(r"[\u3040-\u9fff]|\w+?(?=[\u3040-\u9fff]|\b)", rest)) < REFUSAL_REST


def is_echo(text: str, prompt: str) -> bool:
    """The prompt said back, with at most ECHO_WORDS of another word around it."""
    said, asked = _plain(text), _plain(prompt)
    if not asked or asked not in said:
        return False
    rest = said.replace(asked, " ").split()
    return not rest or (len(asked.split()) > ECHO_WORDS // 2 and len(rest) <= ECHO_WORDS)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
