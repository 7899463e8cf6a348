"""Captions that are none: the faults of `spec.CaptionFault`, each told by a rule.

The rules look for what no sound caption does, so that a poor caption stays one: how much it says and how much of that
is right is for CAPEval to measure.
"""

import re
from collections import Counter
from collections.abc import Sequence

SYMBOL_LENGTH, SYMBOL_SHARE = 16, 0.6  # one character is this share of the others, spaces aside
LOOPS, LOOP_LENGTH, LOOP_SHARE = 4, 24, 0.25  # a tail of this many equal parts, in words (or characters), and its share
WINDOW, REPEATED_SHARE, REPEATED_LENGTH = 4, 0.5, 60  # words in windows that stood before
SCRIPT_RATIO = 15  # characters a space; above it words are not told by spaces
REFUSAL_WORDS = 60  # a refusal that goes on to describe the image is a caption
ECHO_WORDS = 8  # what may follow an echoed prompt without being a caption

_REFUSAL = re.compile(
    r"^\W*(?:(?:i am|i['’]m|we are) (?:really |very )?sorry|sorry\b|(?:i |we )?apologi[sz]e|unfortunately,? (?:i|we)\b"
    r"|(?:i|we) (?:can ?not|can['’]t|could ?n['’]t|won['’]t|will not|do not|don['’]t) "
    r"(?:\w+ ){0,2}?(?:help|assist|describe|provide|view|see|identify|analy[sz]e|fulfil+|comply|process|have)\b"
    r"|(?:i am|i['’]m) (?:un|not )able to\b|as an ai\b|no image (?:is|was|has been)\b"
    r"|(?:抱歉|对不起|很抱歉|我无法|作为一个人工智能))",
    re.IGNORECASE,
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

    A tail counts from LOOPS equal parts on, if they are LOOP_LENGTH words (or characters, where a script has no
    spaces) and LOOP_SHARE of the text. Windows as in Welleck et al. 2020 (seq-rep-4).
    """
    words = text.lower().split()
    spaced = len(text) <= SCRIPT_RATIO * len(words)
    units: Sequence[str] = words if spaced else re.sub(r"\s", "", text)
    for period in range(1, len(units) // LOOPS + 1):
        loops = num_loops(units, period)
        length = loops * period
        if loops >= LOOPS and length >= max(LOOP_LENGTH, LOOP_SHARE * len(units)):
            return True
    return len(units) >= REPEATED_LENGTH and repetition(units) > REPEATED_SHARE


def num_loops(units: Sequence[str], period: int) -> int:
    """How often the last `period` units stand at the end one after another; a part cut short there is passed over."""
    best = 0
    for cut in range(min(period, len(units) - period)):
        end = len(units) - cut
        last, loops = units[end - period : end], 1
        while end - (loops + 1) * period >= 0 and units[end - (loops + 1) * period : end - loops * period] == last:
            loops += 1
        best = max(best, loops)
        if best >= LOOPS:
            break
    return best


def repetition(units: Sequence[str]) -> float:
    """The share of windows of four units that stood in the text before, 0-1; 0 where there is no window."""
    windows = [tuple(units[start : start + WINDOW]) for start in range(len(units) - WINDOW + 1)]
    return 1 - len(set(windows)) / len(windows) if windows else 0.0


def is_refusal(text: str) -> bool:
    """A short text that begins by declining."""
    return len(text.split()) <= REFUSAL_WORDS and bool(_REFUSAL.match(text))


def is_echo(text: str, prompt: str) -> bool:
    """The prompt said back, with at most ECHO_WORDS of another word around it."""
    said, asked = _plain(text), _plain(prompt)
    if not asked or asked not in said:
        return False
    rest = said.replace(asked, " ").split()
    return not rest or (len(asked.split()) > ECHO_WORDS // 2 and len(rest) <= ECHO_WORDS)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
