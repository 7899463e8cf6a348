"""How T2I-CompBench++'s prompts are read, with spaCy and without."""

import re

import pytest

from workflow_scripts.benchmarks.generation.compare_parsers import differences
from workflow_scripts.benchmarks.generation.compbench_parsing import Parse, plain_parser, spacy_parser
from workflow_scripts.errors import UserError

RELATED = re.compile(
    r"an? (\w+) (?:next to|near|on side of|on the (?:left|right|top|bottom) of|in front of|behind|hidden by) an? (\w+)"
)


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ("a green bench and a blue bowl", ("a green bench", "a blue bowl")),
        ("rubber boots and a glass plate", ("rubber boots", "a glass plate")),
        ("a triangular slice of pizza and a square box", ("a triangular slice", "pizza", "a square box")),
        ("a diamond engagement ring and a round pendant.", ("a diamond engagement ring", "a round pendant")),
        ("The red hat was on top of the brown coat rack.", ("The red hat", "top", "the brown coat rack")),
        ("The black phone was resting on the brown charger.", ("The black phone", "the brown charger")),
        ("The sharp, pungent aroma filled the room.", ("The sharp, pungent aroma", "the room")),
        ("The striped black and white cat lay on the rug.", ("The striped black and white cat", "the rug")),
        ("A kitchen with yellow and white floor tiles", ("A kitchen", "yellow and white floor tiles")),
        ("The glass jar and wooden crate hold the bolts.", ("The glass jar", "wooden crate", "the bolts")),
        ("three ducks, one bag and two men", ("three ducks", "one bag", "two men")),
        ("the dog's bowl", ("the dog's bowl",)),
        ("and of", ()),
    ],
)
def test_chunks_without_spacy(text, chunks):
    assert plain_parser(text).chunks == chunks


def test_what_the_rules_take():
    parse = plain_parser("The red hat was on top of the brown rack.")
    assert parse.outer_nouns == parse.related == ("hat", "rack")
    assert parse.without_adjectives == "The hat was on top of the rack ."
    assert plain_parser("The red hat was inside the brown rack.").related is None
    assert plain_parser("and of").outer_nouns is None


def test_names_are_related_by_their_last_word():
    tokens = [
        ("The", "DET"),
        ("Eiffel", "PROPN"),
        ("Tower", "PROPN"),
        ("near", "ADP"),
        ("New", "PROPN"),
        ("York", "PROPN"),
    ]
    assert Parse((), (*tokens, (".", "PUNCT"))).related == ("Tower", "York")
    assert Parse((), tuple(tokens)).related is None  # officially a name must not end the prompt
    assert Parse((), (*tokens, ("park", "NOUN"))).related == ("Tower", "park")


def test_real_relations_are_read_without_spacy(shared_path):
    for name in ("spatial", "3d_spatial"):
        for text in (shared_path / "data" / "t2i_compbench" / f"{name}_val.txt").read_text().splitlines():
            assert plain_parser(text).outer_nouns == RELATED.fullmatch(text).groups(), text


def test_real_pairs_are_read_without_spacy(shared_path):
    """`a ... and a ...`: both halves, whatever stands before the nouns."""
    pairs = 0
    for name in ("color", "shape", "texture"):
        for text in (shared_path / "data" / "t2i_compbench" / f"{name}_val.txt").read_text().splitlines():
            halves = re.fullmatch(r"(an? [\w ]+) and (an? [\w ]+)\.?", text)
            if halves and not re.search(r"\b(of|with|in|on|can)\b", text):
                pairs += 1
                assert plain_parser(text).chunks == halves.groups(), text
    assert pairs > 600


def test_spacy_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "spacy", None)
    with pytest.raises(UserError, match="pip install spacy, python -m spacy download en_core_web_sm"):
        spacy_parser()


def test_differences_from_spacy(shared_path):
    try:
        parser = spacy_parser()
    except UserError as error:
        pytest.skip(str(error))
    found = differences(shared_path / "data" / "t2i_compbench", parser)
    counts = {place: len(cases) for place, cases in found.items()}
    assert counts["spatial", "objects"] == counts["3d_spatial", "objects"] == 0
    assert all(counts[name, "questions"] <= 40 for name in ("color", "shape", "texture"))
    assert counts["complex", "questions"] <= 80 and counts["complex", "related"] <= 30
