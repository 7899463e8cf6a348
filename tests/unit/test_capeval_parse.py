"""Verdicts out of answers of any shape."""

import json
import random

import pytest

from workflow_scripts.capeval.parse import parse_answer

WHOLE = (
    '{"1": {"reason": "a", "verdict": "yes"}, "2": {"reason": "b", "verdict": "no"}, "3": {"verdict": "not_mentioned"}}'
)
ALL = {1: "yes", 2: "no", 3: "not_mentioned"}


def verdicts(text, count=3):
    return {number: verdict.verdict for number, verdict in parse_answer(text, count).found.items()}


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        f"```json\n{WHOLE}\n```",
        f"Sure! Here it is:\n{WHOLE}\nI hope that this helps.",
        WHOLE.replace(" ", "\n   "),
        f"<think>Number 1 is yes.</think>{WHOLE}",
        f'{{"verdicts": {WHOLE}}}',
        '{"1": "yes", "2": "no", "3": "not_mentioned"}',
        '{"1": "YES", "2": " No ", "3": "Not mentioned"}',
        '{"1": "yes", "2": "no", "3": "NOT-MENTIONED", "1": "yes"}',
        '{"3": "not_mentioned", "2": "no", "1": "yes"}',
        '{"1": "yes"}\n{"2": "no"}\n{"3": "not_mentioned"}',
    ],
)
def test_shapes_that_are_read(text):
    assert verdicts(text) == ALL


@pytest.mark.parametrize(
    "text",
    [
        *("", "yes", "1: yes", "null", '{"1": "maybe"}', '{"1": true}', '{"1": ["yes"]}', '{"1": {"reason": "yes"}}'),
        *('{"1": "yes and no"}', '{"1": "y"}', '{"1": null}'),
    ],
)
def test_what_is_no_verdict_is_not_guessed_at(text):
    assert verdicts(text) == {}


def test_finished_entries_of_a_cut_answer_count():
    """Cut at every place: what is read is always the entries that end before it."""
    ends = [WHOLE.index("}", place) + 1 for place in (0, WHOLE.index('"2"'), WHOLE.index('"3"'))]
    for cut in range(len(WHOLE)):
        expected = {number: ALL[number] for number, end in enumerate(ends, 1) if end <= cut}
        assert verdicts(WHOLE[:cut]) == expected, WHOLE[:cut]


def test_a_contradicted_question_has_no_verdict_and_is_counted():
    read = parse_answer('{"1": "yes", "2": "no", "1": "no", "1": "yes"}', 2)
    assert list(read.found) == [2] and read.num_contradicted == 1


def test_unknown_and_unreadable_entries_are_counted():
    read = parse_answer('{"0": "yes", "1": "perhaps", "2": "no", "9": "yes", "123456": "no"}', 3)
    assert list(read.found) == [2]
    assert (read.num_unknown, read.num_unreadable, read.num_contradicted) == (3, 1, 0)


def test_verdicts_inside_a_reason_are_text():
    text = json.dumps({"1": {"reason": 'says {"2": "yes", "3": "yes"}', "verdict": "no"}, "2": "no"})
    assert verdicts(text) == {1: "no", 2: "no"}


def test_raw_control_characters_in_a_reason_spoil_nothing():
    """JSON forbids them in strings; grammars of structured output let them through."""
    answer = parse_answer('{"1": {"reason": "two\nlines\tand a tab", "verdict": "yes"}}', 1)
    assert (answer.found[1].verdict, answer.found[1].reason) == ("yes", "two lines and a tab")


def test_reasons_come_along():
    found = parse_answer(
        '{"1": {"reason": " two\\n words ", "verdict": "yes"}, "2": {"reason": 3, "verdict": "no"}}', 2
    ).found
    assert (found[1].reason, found[2].reason) == ("two words", None)


PIECES = [
    *('"1"', '"2":', '"22"', ":", "{", "}", "[", "]", ",", '"verdict"', '"yes"', '"no"', "not_mentioned", "\\", '"'),
    *("\\u12", "null", "1e999", "NaN", "\x00", "\ud800", "é", " ", "9" * 5000, "[" * 2000, '{"a":' * 2000),
]


@pytest.mark.parametrize("seed", range(40))
def test_fuzz(seed):
    """Any text gives verdicts on asked questions only, one of the three each, and never an error."""
    numbers = random.Random(seed)
    for _ in range(50):
        if numbers.random() < 0.5:
            text = "".join(numbers.choices(PIECES, k=numbers.randint(0, 40)))
        else:  # a sound answer with a few characters changed, doubled or lost
            text = list(WHOLE)
            for _ in range(numbers.randint(1, 8)):
                place = numbers.randrange(len(text))
                text[place : place + numbers.randint(0, 3)] = numbers.choice(PIECES[:22]) * numbers.randint(0, 2)
            text = "".join(text)
        count = numbers.randint(1, 4)
        read = parse_answer(text, count)
        assert set(read.found) <= set(range(1, count + 1))
        assert all(verdict.verdict in ALL.values() for verdict in read.found.values())
        assert min(read.num_unknown, read.num_unreadable, read.num_contradicted) >= 0
