"""Faults of captions: what each rule finds, and that sound captions of people and models pass."""

import json

import pytest

from workflow_scripts.captions.degenerate import caption_fault, looping_tail, repetition

PROMPT = "Analyze the image in a comprehensive and detailed manner."
SOUND = (
    "The image shows a narrow street in an old town. On the left a red bicycle leans against a wall; on the right "
    "two people in dark coats walk towards the camera. A sign above a door reads 'Café'."
)
LIST = " ".join(f"{n}. **Object {n}**: a {colour} cup on the shelf." for n, colour in enumerate(
    ["red", "blue", "green", "white", "black", "yellow", "pink", "brown"], 1))  # fmt: skip

FAULTS = [
    ("", "empty"),
    (" \n\t", "empty"),
    ("!!!!!!!!!!!!!!!!!!", "one_symbol"),
    ("! ! ! ! !", "one_symbol"),
    ("...", "one_symbol"),
    ("0000000000000000000000", "one_symbol"),
    ("ÃÃÃÃÃÃÃÃÃÃÃÃÃÃÃÃÃÃ", "one_symbol"),
    (SOUND + " The street is wet." * 30, "repetition"),
    (SOUND + " and a tree" * 40, "repetition"),
    (SOUND + " The street is wet and" * 20 + " The str", "repetition"),
    (SOUND + " The sign reads: " + "WELCOME" * 30, "repetition"),
    (SOUND + " and a tree" * 40 + ".", "repetition"),
    ("a very " * 100, "repetition"),
    ("图中有一只猫。" + "它坐在椅子上。" * 20, "repetition"),
    ("The sky is blue and the cat is white. The cat is white and the sky is blue. " * 3
     + "The cat is white. The sky is blue. The sky is blue and the cat is white. The cat is white and the sky.",
     "repetition"),
    ("I'm sorry, but I can't assist with that request.", "refusal"),
    ("I cannot provide a description of this image as it may contain sensitive content.", "refusal"),
    ("I’m unable to view images directly. Please describe it to me.", "refusal"),
    ("As an AI language model, I do not have eyes.", "refusal"),
    ("Unfortunately, I cannot see any image.", "refusal"),
    ("I apologize, but the image is not loading. Please upload the image again.", "refusal"),
    ("I'm sorry, but I can't help with identifying people in images. If you have other questions, let me know!",
     "refusal"),
    ("抱歉，我无法描述这张图片。", "refusal"),
    (PROMPT, "echo"),
    ("analyze the image in a comprehensive and detailed manner", "echo"),
    (f"User: {PROMPT} Assistant:", "echo"),
]  # fmt: skip

NO_FAULTS = [
    SOUND,
    LIST,
    "A cat.",
    "STOP",
    "42",
    "一只白色的猫坐在红色的椅子上，旁边有一本书。",
    "The man looks sorry. I can see a dog.",
    "I can see a dog on a sofa, and a lamp behind it.",
    "We can't tell the time from the clock, whose hands are hidden. " + SOUND,
    f"{PROMPT} " + SOUND,
    "The poster says 'no no no no no no' in red.",
    "Row after row of windows: " + "window, " * 6 + "and then a door.",
    "I can't identify the people, but this is a photo of two men shaking hands in front of flags.",
    "抱歉，我无法识别人物，但图中有两名男子在旗帜前握手，背景是白色的建筑。",
    SOUND + " A row of tiles follows: " + "blue, " * 12,
    "I cannot see the whole building, but " + SOUND + " " + SOUND.replace("street", "lane"),
]


@pytest.mark.parametrize(("caption", "fault"), FAULTS)
def test_faults(caption, fault):
    assert caption_fault(caption, "stop", PROMPT) == fault


@pytest.mark.parametrize("caption", NO_FAULTS)
def test_sound_captions(caption):
    assert caption_fault(caption, "stop", PROMPT) is None
    assert caption_fault(caption, None, PROMPT) is None
    assert caption_fault(caption, "length", PROMPT) == "cut"


def test_a_short_prompt_is_an_echo_only_alone():
    assert caption_fault("Describe.", "stop", "describe") == "echo"
    assert caption_fault("Describe the red door", "stop", "describe") is None
    assert caption_fault("a red door", "stop", "") is None


def test_a_loop_that_was_cut_at_the_limit_is_a_repetition():
    assert caption_fault("one two three " * 50, "length", PROMPT) == "repetition"


@pytest.mark.parametrize(
    ("text", "period", "length"), [("ababab", 2, 6), ("xababa", 2, 5), ("abc", 1, 1), ("aaaa", 1, 4), ("abcab", 3, 5)]
)
def test_a_loop_is_measured_at_the_end(text, period, length):
    assert looping_tail(text, period) == length


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a b c", 0), ("a b c d", 0), ("a b c d e a b c d", 1 / 6), ("x " * 103, 99 / 100)],
)
def test_repetition_counts_windows_of_four_words(text, expected):
    assert repetition(text.split()) == pytest.approx(expected)


def test_people_write_no_faults(shared_path):
    """CAPEval's 300 human captions."""
    lines = (shared_path / "data" / "capeval" / "gt_caption.jsonl").read_text().splitlines()
    captions = [json.loads(line)["gt_caption"] for line in lines]
    found = {caption: fault for caption in captions if (fault := caption_fault(caption, "stop", PROMPT))}
    assert len(captions) == 300 and not found


def test_few_captions_of_models_have_faults(shared_path):
    """Ten published sets of 2,000 captions of models from 2023."""
    from workflow_scripts.captions.files import read_caption_file

    counts = {}
    for path in sorted((shared_path / "data" / "pope_captions").glob("Instruction*.json")):
        rows = read_caption_file(path, "image_id", "text")
        found = [fault for row in rows if (fault := caption_fault(row.caption, "stop", "Describe the image."))]
        counts[path.stem] = len(found)
    print(counts)
    assert all(count <= 0.02 * 2000 for count in counts.values())
