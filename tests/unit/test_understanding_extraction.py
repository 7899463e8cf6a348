"""Answers as models word them, and what is read out of them."""

import pytest

from workflow_scripts.benchmarks.understanding.extraction import (
    key_phrases,
    numbers,
    option_letter,
    short_text,
    yes_or_no,
)

COLOURS = {"A": "red", "B": "dark red", "C": "a blue car", "D": "none of the above"}
PLACES = {"A": "Asia", "B": "Africa"}


@pytest.mark.parametrize(
    ("text", "answer", "method"),
    [
        ("Yes", "yes", "first word"),
        ("Yes.", "yes", "first word"),
        ("yes!", "yes", "first word"),
        ("**No**", "no", "first word"),
        ("No, there isn't.", "no", "first word"),
        ("NO\n", "no", "first word"),
        ("Yes, there is no doubt", "yes", "first word"),
        ("Answer: yes", "yes", "only word"),
        ("The answer is 'No'.", "no", "only word"),
        ("There is no dog in the image.", "no", "only word"),
        ("Nothing", None, None),
        ("There is not a dog.", None, None),
        ("It is noisy yesterday", None, None),
        ("It could be yes or no", None, None),
        ("", None, None),
    ],
)
def test_yes_or_no(text, answer, method):
    assert yes_or_no(text) == (answer, method)


@pytest.mark.parametrize(
    ("text", "answer", "method"),
    [
        ("B", "B", "letter"),
        ("b", "B", "letter"),
        ("B.", "B", "letter"),
        (" (B) ", "B", "letter"),
        ("(b)", "B", "letter"),
        ("**B**", "B", "letter"),
        ('"B"', "B", "letter"),
        ("B。", "B", "letter"),
        ("B. dark red", "B", "leading letter"),
        ("B: dark red", "B", "leading letter"),
        ("B) dark red", "B", "leading letter"),
        ("(b) dark red", "B", "leading letter"),
        ("**B.** dark red", "B", "leading letter"),
        ("B\nBecause A is too light", "B", "leading letter"),
        ("The answer is B", "B", "phrase"),
        ("The answer is (b).", "B", "phrase"),
        ("The correct answer is **C**. Here is why", "C", "phrase"),
        ("Answer: D", "D", "phrase"),
        ("ANSWER: (D)", "D", "phrase"),
        ("I choose option B because A is wrong", "B", "phrase"),
        ("First I thought the answer is A, but the answer is B", "B", "phrase"),
        ("A is red, so the answer is C", "C", "phrase"),
        ("答案是B", "B", "phrase"),
        ("答案：C。", "C", "phrase"),
        ("正确答案为 (A)", "A", "phrase"),
        ("选B", "B", "phrase"),
        ("应选择选项C", "C", "phrase"),
        ("It must be C here", "C", "only letter"),
        ("A dark picture, so it's (B)", "B", "only letter"),
        ("dark red", "B", "option text"),
        ("The car is red", "A", "option text"),
        ("Dark Red.", "B", "option text"),
        ("a blue car", "C", "option text"),
        ("A blue car", "C", "option text"),
        ("None of the above", "D", "option text"),
        ("The answer is a blue car", "C", "option text"),
        ("the answer is a cat", None, None),
        ("A or B", None, None),
        ("red and a blue car", None, None),
        ("E", None, None),
        ("The answer is E", None, None),
        ("A cat", None, None),
        ("predator", None, None),
        ("", None, None),
        ("?", None, None),
        ("I'm sorry, I cannot help with that.", None, None),
    ],
)
def test_option_letter(text, answer, method):
    assert option_letter(text, COLOURS) == (answer, method)


def test_letters_that_are_no_option_and_words_that_begin_like_one():
    assert option_letter("Asia", PLACES) == ("A", "option text")
    assert option_letter("C", PLACES) == (None, None)
    assert option_letter("Answer: Africa", PLACES) == ("B", "option text")


@pytest.mark.parametrize(
    ("text", "answer"),
    [("Two.", "2"), ("2", "2"), ("The left", "left"), (" Yes!", "yes"), ("a stop sign", "stop sign"), ("", None),
     ("twofold", "twofold"), (".", None)],
)  # fmt: skip
def test_short_text(text, answer):
    assert short_text(text) == (answer, "short text" if answer else None)


@pytest.mark.parametrize(
    ("text", "found"),
    [("1,234.5 and -3", [1234.5, -3.0]), ("6.02e23", [6.02e23]), ("x = .5", [0.5]), ("3.14159", [3.14]),
     ("none", []), ("1,000,000 or 12", [1000000.0, 12.0])],
)  # fmt: skip
def test_numbers(text, found):
    assert numbers(text) == found


@pytest.mark.parametrize(
    ("text", "phrases", "method"),
    [
        ("7.5", "7.5", "whole"),
        ("The answer is 7.5.", "7.5", "key phrases"),
        ("F = m a = 12 N", "12 n", "key phrases"),
        ("F = 3. Thus the force is 12", "12", "key phrases"),
        ("It is red.\nIt could be blue", "red\nblue", "key phrases"),
        ("", None, None),
    ],
)
def test_key_phrases(text, phrases, method):
    assert key_phrases(text) == (phrases, method)
