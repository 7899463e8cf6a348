"""Read an answer out of what a model wrote, by rule. What the rules cannot read is None, never a guess.

Each function gives the answer and the name of the method that found it; the methods are tried in the order of the
text here. Wrong and unreadable count alike in the scores, but the share of unreadable answers is kept.
"""

import re
from collections.abc import Mapping

NUMBER_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {word: str(number) for number, word in enumerate(NUMBER_WORDS)}
_OPENING, _CLOSING = r"[(\[（【*\"'“`]*", r"[)\]）】*\"'”`.,:;!。，：；、]*"
# What stands before the chosen option, English and Chinese.
_ENGLISH = r"(?:answer|option|choice)\s*(?:is|:|would be|should be)?|choose|select|pick"
_ARTICLE = r"A\s+(?!(?:or|and|is|because|since)\b)[a-z]"
_CHINESE = r"答案(?:应该)?(?:是|为|：|:)?|选项|选择?"


def yes_or_no(text: str) -> tuple[str | None, str | None]:
    """`yes` or `no`: the first word of the answer, else the only one of the two that occurs as a word."""
    words = re.findall(r"[a-z]+", text.lower())
    if words and words[0] in ("yes", "no"):
        return words[0], "first word"
    found = {word for word in words if word in ("yes", "no")}
    return (found.pop(), "only word") if len(found) == 1 else (None, None)


def option_letter(text: str, options: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The letter of the chosen option, one of `options` (letter to text).

    Methods: `letter` (the answer is nothing else), `phrase` (the last «answer is B», «选B»), `leading letter`
    («B. cat», «(b) cat»), `only letter` (just one option's letter stands alone in the text; an A before a lower-case
    word is an article), `option text` (just one option's text occurs; one that is part of a longer one that occurs
    does not count).
    """
    text = text.strip()
    letters = "".join(options)
    any_case = letters + letters.lower()
    if match := re.fullmatch(rf"{_OPENING}\s*([{any_case}])\s*{_CLOSING}", text):
        return match[1].upper(), "letter"
    stop = r"(?![A-Za-z0-9'’])"
    chosen = rf"(?:([{letters}]){stop}|(?<=\()([{letters.lower()}])(?=\)))"
    phrases = re.findall(rf"(?i:{_ENGLISH}|{_CHINESE})\s*{_OPENING}{chosen}", text)
    if phrases:
        return (phrases[-1][0] or phrases[-1][1]).upper(), "phrase"
    if match := re.match(rf"\(([{any_case}])\)|{_OPENING}([{letters}])(?:[).:,：、。，]|\*\*|\s*\n)", text):
        return (match[1] or match[2]).upper(), "leading letter"
    alone = re.findall(rf"(?<![A-Za-z0-9'’])(?!{_ARTICLE})([{letters}]){stop}|\(([{any_case}])\)", text)
    found = {(plain or bracketed).upper() for plain, bracketed in alone}
    if len(found) == 1:
        return found.pop(), "only letter"
    if not found:
        letter = _by_text(text, options)
        return (letter, "option text") if letter else (None, None)
    return None, None


def short_text(text: str) -> tuple[str | None, str | None]:
    """An answer of a few words as its bare form: lower case, no punctuation at its ends, no article, number words as
    digits. `short text`, or nothing where the answer is empty."""
    bare = text.strip().strip(".,:;!?\"'()。").lower().strip()
    bare = re.sub(r"^(?:a|an|the)\s+", "", bare)
    return (_NUMBERS.get(bare, bare), "short text") if bare else (None, None)


def numbers(text: str) -> list[float]:
    """All numbers in a text, with thousands' commas, decimals or an exponent, rounded to two places as MMMU's."""
    found = re.findall(r"-?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|\.\d+|\d+)(?:[eE][+-]?\d+)?", text)
    return [round(float(number.replace(",", "")), 2) for number in found]


def key_phrases(text: str) -> tuple[str | None, str | None]:
    """The parts of an open answer that may hold the answer, one a line, by MMMU's rule.

    Of every sentence the shortest tail after a word such as `is`, `so`, `answer` (in the last sentence also after
    `=`), method `key phrases`; of an answer without any, the whole, method `whole`. Lower case.
    """
    whole = text.strip().strip(".").lower()
    if not whole:
        return None, None
    sentences = re.split(r"\.\s+(?=[A-Z])|\n", text.strip().strip("."))
    phrases = []
    for place, sentence in enumerate(sentences):
        cues = [*_CUES, "="] if place == len(sentences) - 1 else _CUES
        tails = [sentence.lower().rsplit(cue, 1)[1].strip() for cue in cues if cue in sentence.lower()]
        tails = [tail for tail in tails if tail.strip(":,.!?;'")]
        if tails:
            phrases.append(min(tails, key=len))
    return ("\n".join(phrases), "key phrases") if phrases else (whole, "whole")


_CUES = ["could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result "]


def _by_text(text: str, options: Mapping[str, str]) -> str | None:
    lowered = text.lower()
    found = {letter: option.lower().strip() for letter, option in options.items() if _occurs(option, lowered)}
    longest = {
        letter
        for letter, option in found.items()
        if not any(option != other and option in other for other in found.values())
    }
    return longest.pop() if len(longest) == 1 else None


def _occurs(option: str, lowered: str) -> bool:
    """Whether an option's text stands in an answer, not inside of a longer word."""
    option = re.escape(option.lower().strip())
    return bool(option) and re.search(rf"(?<![a-z0-9]){option}(?![a-z0-9])", lowered) is not None
