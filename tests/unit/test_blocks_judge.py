"""The exact judge against an independent count over sets of facts, and the questions that descriptions support."""

import random

import numpy as np
import pytest

from workflow_scripts.blocks.judge import DIMENSIONS, checklist, judge_item
from workflow_scripts.blocks.questions import KINDS, ask, ask_several, brief, questions_from_caption
from workflow_scripts.blocks.world import (
    CELLS,
    NEW_WORDS,
    Block,
    Scene,
    describe,
    dial,
    facts,
    parse,
    sample_scene,
    say,
)
from workflow_scripts.errors import UserError

SCENE = Scene("black", (Block(0, "large", "red", "circle"), Block(3, "small", "cyan", "ring")))


def items(scene: Scene) -> list[str]:
    rows = checklist(scene)
    return [item["Question"] for dimension in DIMENSIONS for item in rows[f"{dimension}_checklist"]]


def test_checklist_of_a_scene():
    rows = checklist(SCENE)
    assert [len(rows[f"{dimension}_checklist"]) for dimension in DIMENSIONS] == [2, 4, 2, 1, 0, 0, 0, 0]
    assert rows["attribute_checklist"][0] == {
        "Tags": "color",
        "Question": "Does the caption describe the object in the topleft as red?",
    }


@pytest.mark.parametrize(
    ("caption", "question", "verdict"),
    [
        ("topleft large red circle", "Does the caption mention a circle in the topleft?", "yes"),
        ("topleft red ring", "Does the caption mention a circle in the topleft?", "no"),
        ("topleft red", "Does the caption mention a circle in the topleft?", "not_mentioned"),
        ("bottomright red circle", "Does the caption mention a circle in the topleft?", "not_mentioned"),
        ("topleft red circle", "Does the caption describe the object in the topleft as red?", "yes"),
        ("topleft blue", "Does the caption describe the object in the topleft as red?", "no"),
        ("topleft circle", "Does the caption describe the object in the topleft as small?", "not_mentioned"),
        ("topleft small", "Does the caption describe the object in the topleft as large?", "no"),
        ("topleft", "Does the caption mention an object in the topleft?", "yes"),
        ("topright red circle", "Does the caption mention an object in the topleft?", "not_mentioned"),
        ("topleft red circle on gray", "Does the caption mention a black background?", "no"),
        ("on black", "Does the caption mention a black background?", "yes"),
        ("", "Does the caption mention a black background?", "not_mentioned"),
        ("topleft red topleft blue", "Does the caption describe the object in the topleft as red?", "no"),
        (
            "In the topleft corner there is a red circle.",
            "Does the caption mention a circle in the topleft?",
            "yes",
        ),
    ],
)
def test_verdicts_by_hand(caption, question, verdict):
    assert judge_item(caption, question) == verdict


def test_judge_refuses_other_questions():
    with pytest.raises(UserError, match="a mobile robot"):
        judge_item("topleft red circle", "Does the caption mention a mobile robot?")


def coverage_and_precision(drop: float, falsify: float, count: int = 250) -> tuple[float, float]:
    """Percent, counted twice: by the judge, and over sets of (cell, what, value) without a single question."""
    rng = random.Random(3)
    verdicts, spoken, right, total = [], 0, 0, 0
    for _ in range(count):
        scene = sample_scene(rng)
        caption = say(dial(describe(scene), drop, falsify, rng))
        verdicts += [judge_item(caption, question) for question in items(scene)]
        truth, said = facts(describe(scene)), facts(parse(caption))
        total += len(truth)
        spoken += len({fact[:2] for fact in truth} & {fact[:2] for fact in said})
        right += len(truth & said)
    yes, no = verdicts.count("yes"), verdicts.count("no")
    assert (len(verdicts), yes, yes + no) == (total, right, spoken)
    return 100 * spoken / total, 100 * right / spoken


def test_judge_agrees_with_the_count_of_facts_and_the_closed_form():
    """Of a picture with n objects, 4n + 1 facts: n are mentioned with 1 - drop/2, 3n with (1 - drop/2)(1 - drop),
    one with 1 - drop; the n are always right, the others with 1 - falsify. On average n = 2.5."""
    assert coverage_and_precision(0, 0) == (100, 100)
    drop, falsify = 0.3, 0.2
    there, told = 2.5 * (1 - drop / 2), 7.5 * (1 - drop / 2) * (1 - drop) + (1 - drop)
    C, P = coverage_and_precision(drop, falsify, 1500)
    assert pytest.approx(100 * (there + told) / 11, abs=1.5) == C
    assert pytest.approx(100 * (there + told * (1 - falsify)) / (there + told), abs=1.5) == P


def test_coverage_and_precision_can_be_dialled_apart():
    grid = [(drop, falsify) for drop in (0, 0.3, 0.6) for falsify in (0, 0.2, 0.4)]
    C, P = np.array([coverage_and_precision(*settings, count=150) for settings in grid]).T
    assert np.ptp(C) > 50 and np.ptp(P) > 20
    assert abs(np.corrcoef(C, P)[0, 1]) < 0.3


def truth_of(scene: Scene, text: str) -> str:
    """The answer to a question about a scene, worked out from its blocks and the question's words alone."""
    words = text.split()
    if words == ["how", "many"]:
        return str(len(scene.blocks))
    if words == ["what", "background"]:
        return scene.background
    if words[0] == "what":
        return next(getattr(block, words[1]) for block in scene.blocks if CELLS[block.cell] == words[2])
    found = [CELLS[block.cell] for block in scene.blocks if block.shape == words[-1]]
    if words[:3] == ["is", "there", "a"]:
        return "yes" if found else "no"
    assert words[:3] == ["where", "is", "the"] and len(found) == 1
    return found[0]


def test_questions_have_the_true_answer_and_only_old_words_where_asked():
    rng, answers = random.Random(0), []
    for _ in range(3000):
        words = rng.choice(["all", "old"])
        scene = sample_scene(rng, words)
        question = ask(describe(scene), rng.choice(KINDS), rng, words)
        if question is None:
            continue
        assert question.answer == truth_of(scene, question.text)
        assert question.answer in question.options
        assert words == "all" or not NEW_WORDS & set(question.text.split())
        answers.append((question.kind, question.answer))
    yes, no = answers.count(("existence", "yes")), answers.count(("existence", "no"))
    assert 0.43 < yes / (yes + no) < 0.57
    assert {kind for kind, _ in answers} == set(KINDS)
    with pytest.raises(ValueError, match="'colour'"):
        ask(describe(SCENE), "colour", rng)


def test_captions_answer_only_what_they_say():
    rng = random.Random(1)
    pairs = {pair for _ in range(60) for pair in questions_from_caption("topleft red bottomright ring", rng)}
    assert {
        ("how many", "2"),
        ("what color topleft", "red"),
        ("what shape bottomright", "ring"),
    } <= pairs
    assert ("is there a ring", "yes") in pairs
    for question, answer in pairs:
        assert not question.startswith(("what size", "what background"))
        # the red thing may have any shape: neither where the only ring is nor that a circle is absent is told
        assert question != "where is the ring" and answer != "no"
    assert questions_from_caption("", rng) == []
    assert len(ask_several(describe(SCENE), 4, rng)) == 4


def test_a_false_caption_is_believed():
    rng = random.Random(2)
    pairs = dict(pair for _ in range(50) for pair in questions_from_caption("topleft small red square", rng))
    assert pairs["what shape topleft"] == "square" and pairs["where is the square"] == "topleft"
    assert pairs["what size topleft"] == "small" and pairs["how many"] == "1"


def test_brief_captions_leave_out_sizes_and_background():
    assert say(brief(describe(SCENE))) == "topleft red circle bottomright cyan ring"
