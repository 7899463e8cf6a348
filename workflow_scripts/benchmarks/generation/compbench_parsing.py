"""T2I-CompBench++: what a prompt's words are: noun chunks, the two objects that it relates, adjectives.

The authors take spaCy's `en_core_web_sm`; `spacy_parser` does the same where both are installed. `plain_parser` needs
neither: it knows the benchmark's templates, and reads free sentences by closed classes of words, which is a guess. What
it reads otherwise is listed by `compare_parsers`; scores from it are not comparable.
"""

import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from workflow_scripts.errors import UserError

MODEL = "en_core_web_sm"
RELATIONS = (
    "on top of",
    "on bottom of",
    "on the left",
    "on the right",
    "next to",
    "on side of",
    "near",
)  # in `complex`

Token = tuple[str, str]  # text and universal part of speech


@dataclass(frozen=True)
class Parse:
    """A prompt's noun chunks and tokens, in order."""

    chunks: tuple[str, ...]
    tokens: tuple[Token, ...]

    @property
    def outer_nouns(self) -> tuple[str, str] | None:
        """The first and the last noun: what a prompt of `spatial` or `3d_spatial` relates; None without a noun."""
        nouns = [text for text, kind in self.tokens if kind == "NOUN"]
        return (nouns[0], nouns[-1]) if nouns else None

    @property
    def related(self) -> tuple[str, str] | None:
        """What a prompt of `complex` relates: the last noun or name before one of `RELATIONS`, and the first noun after
        it, or else the last word of the first name. None where the prompt does not relate exactly two."""
        found = []
        for start in range(len(self.tokens)):
            length = next((n for n in (3, 2, 1) if self._text(start, n) in RELATIONS), None)
            if length is None:
                continue
            before = [text for text, kind in self.tokens[:start] if kind in ("NOUN", "PROPN")]
            after = self.tokens[start + length :]
            nouns = [text for text, kind in after if kind == "NOUN"]
            ends = pairwise(after)
            names = [text for (text, kind), (_, following) in ends if kind == "PROPN" and following != "PROPN"]
            found += before[-1:] + (nouns or names)[:1]
        return (found[0], found[1]) if len(found) == 2 else None

    @property
    def without_adjectives(self) -> str:
        """The tokens but adjectives, joined by spaces: what CLIP compares a picture of `complex` with."""
        return " ".join(text for text, kind in self.tokens if kind != "ADJ")

    def _text(self, start: int, count: int) -> str:
        return " ".join(text for text, _ in self.tokens[start : start + count])


Parser = Callable[[str], Parse]


def has_spacy() -> bool:
    """Whether spaCy and its model are installed."""
    return all(importlib.util.find_spec(package) for package in ("spacy", MODEL))


def parser_name() -> str:
    """What `open_parser` gives, with versions."""
    if not has_spacy():
        return "by closed classes of words"
    return " ".join(f"{package} {importlib.metadata.version(package)}" for package in ("spacy", MODEL))


def open_parser() -> Parser:
    """spaCy's parser where it and its model are installed, else `plain_parser`."""
    return spacy_parser() if has_spacy() else plain_parser


def spacy_parser() -> Parser:
    """spaCy's parser. Raises UserError where it or its model is not installed."""
    try:
        import spacy

        language = spacy.load(MODEL)
    except (ImportError, OSError) as error:
        raise UserError(
            f"t2i_compbench: official scoring reads prompts with spaCy and its model {MODEL}: pip install spacy, "
            f"python -m spacy download {MODEL} ({error})"
        ) from None

    def parse(text: str) -> Parse:
        document = language(text)
        return Parse(
            tuple(chunk.text for chunk in document.noun_chunks), tuple((token.text, token.pos_) for token in document)
        )

    return parse


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DETERMINERS = _words(
    "a an the his her its their our my some each every another this these those one two three four five six seven eight"
)
ADPOSITIONS = _words(
    "of on in with at by from to for into onto over under above below behind beside between near next against around "
    "through across along beneath underneath inside outside atop off up down out toward towards within among amidst "
    "past like as about after before during while than upon"
)
JOINERS = _words("and or but")
AUXILIARIES = _words("is are was were be been being has have had will would")
VERBS = _words(
    "sits sit sat stands stood lies lie lay rests rest hang hangs hung holds hold held grows grew makes made shows "
    "provide provides hidden shone sped fell wrote cut drove flew slept swam spun sank told woke lit kept"
)
OTHERS = _words("not very that which who where it he she they him them there other both all too just while when")
ADJECTIVES = _words(
    "red orange yellow green blue purple pink brown black white gray grey beige tan golden silver gold violet "
    "turquoise whitish big small large little tiny huge long short tall wide narrow thick thin round square oval "
    "oblong cubic rectangular triangular circular spherical cylindrical conical pentagonal hexagonal pyramidal "
    "diamond teardrop crescent wooden metallic fluffy soft hard smooth rough bumpy shiny sleek sharp crisp crispy "
    "bright dark light heavy old new clean fresh striped spotted curved flat fuzzy spiky juicy warm cold cool hot "
    "sweet delicate fragrant gentle colorful vibrant sturdy plump ripe useful necessary ancient modern rustic cozy "
    "elegant"
)
ADJECTIVE_ENDING = re.compile(r"\w{2,}(?:ful|ous|ive|ical|ular|less|ish|y|ic|al)$|\w+-\w+$")


def plain_parser(text: str) -> Parse:
    """Chunks by closed classes of words: a determiner begins one; a preposition, joiner, verb or mark ends it. The last
    word of a chunk is its noun, the words before it adjectives where they look like it."""
    words = re.findall(r"\w+(?:[-'’]\w+)*|[^\w\s]", text)
    kinds = [_closed_class(word) for word in words]
    chunks: list[list[int]] = [[]]
    for place, kind in enumerate(kinds):
        if kind == "DET":
            chunks.append([place])
        elif kind is None and _is_verb(words, kinds, chunks[-1], place):
            kinds[place] = "VERB"
            chunks.append([])
        elif kind is None or _joins_adjectives(words, kinds, chunks[-1], place):
            chunks[-1].append(place)
        else:
            chunks.append([])
    chunks = [chunk for chunk in chunks if _is_thing(words, kinds, chunk)]
    for place in (place for chunk in chunks for place in chunk[:-1]):
        if kinds[place] is None:
            kinds[place] = "ADJ" if _is_adjective(words[place]) else "NOUN"
    for chunk in chunks:
        kinds[chunk[-1]] = kinds[chunk[-1]] or "NOUN"
    spans = [_span(text, words, chunk) for chunk in chunks]
    return Parse(tuple(spans), tuple(zip(words, (kind or "ADJ" for kind in kinds), strict=True)))


def _closed_class(word: str) -> str | None:
    """The part of speech of a word of a closed class, None for others."""
    word = word.lower()
    classes = {
        "DET": DETERMINERS,
        "ADP": ADPOSITIONS,
        "CCONJ": JOINERS,
        "AUX": AUXILIARIES,
        "VERB": VERBS,
        "PRON": OTHERS,
    }
    if not word[0].isalnum():
        return "PUNCT"
    return next((kind for kind, members in classes.items() if word in members), None)


def _is_adjective(word: str) -> bool:
    return word.lower() in ADJECTIVES or bool(ADJECTIVE_ENDING.match(word.lower()))


def _is_verb(words: Sequence[str], kinds: Sequence[str | None], chunk: Sequence[int], place: int) -> bool:
    """Whether a word of no closed class is a verb: it has a verb's ending or a determiner follows, and it stands after
    an auxiliary or a noun. Of two words that look like adjectives before a verb, the last is a noun."""
    if place + 1 == len(words) or words[place + 1] == "." or kinds[place + 1] == "VERB":
        return False
    before = [words[other] for other in chunk if kinds[other] is None]
    has_noun = not all(map(_is_adjective, before)) or (len(before) > 1 and kinds[place + 1] is not None)
    has_ending = bool(re.search(r"\w{2}(ed|ing)$", words[place])) or kinds[place + 1] == "DET"
    return has_ending and (has_noun or (place > 0 and kinds[place - 1] == "AUX"))


def _joins_adjectives(words: Sequence[str], kinds: Sequence[str | None], chunk: Sequence[int], place: int) -> bool:
    """Whether a comma or «and» stands within a chunk: adjectives before it, and after «and» as well."""
    before = [words[other] for other in chunk if kinds[other] is None]
    if words[place] not in (",", "and") or not before or place + 1 == len(words) or kinds[place + 1] is not None:
        return False
    return all(_is_adjective(word) for word in before) and (words[place] == "," or _is_adjective(words[place + 1]))


def _is_thing(words: Sequence[str], kinds: Sequence[str | None], chunk: Sequence[int]) -> bool:
    """Whether a chunk names something: it has a word of no closed class, and is no adjective alone."""
    content = [words[place] for place in chunk if kinds[place] is None]
    return bool(content) and (kinds[chunk[0]] == "DET" or not all(word.lower() in ADJECTIVES for word in content))


def _span(text: str, words: Sequence[str], chunk: Sequence[int]) -> str:
    """The text from a chunk's first word to its last, as written."""
    at, ends = 0, {}
    for place, word in enumerate(words):
        start = text.index(word, at)
        at = start + len(word)
        ends[place] = (start, at)
    return text[ends[chunk[0]][0] : ends[chunk[-1]][1]]
