"""The tokenizer and chat template of the blocks world."""

import random

import pytest

from workflow_scripts.blocks.tokenizer import build_tokenizer
from workflow_scripts.blocks.world import VOCABULARY, describe, sample_scene, say

CONVERSATION = [
    {
        "role": "user",
        "content": [{"type": "text", "text": "what color topleft"}, {"type": "image"}],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "red"}]},
    {"role": "user", "content": "how many"},
    {"role": "assistant", "content": "2"},
]


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


def test_captions_round_trip(tokenizer):
    rng = random.Random(0)
    for _ in range(300):
        caption = say(describe(sample_scene(rng)))
        ids = tokenizer(caption)["input_ids"]
        assert len(ids) == len(caption.split())
        assert tokenizer.decode(ids) == caption


def test_ids_are_positions_in_the_vocabulary(tokenizer):
    assert tokenizer.convert_tokens_to_ids(list(VOCABULARY)) == list(range(len(VOCABULARY)))
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 1, 2)
    assert tokenizer.unk_token_id == 3 and tokenizer.image_token_id == 4
    assert tokenizer("topleft dog<image>red")["input_ids"] == [
        VOCABULARY.index("topleft"),
        3,
        4,
        VOCABULARY.index("red"),
    ]


def test_conversation_has_the_image_first_and_no_tokens_for_roles(tokenizer):
    text = tokenizer.apply_chat_template(CONVERSATION, tokenize=False)
    assert text == "<bos> <image> what color topleft red <eos> how many 2 <eos>"
    assert tokenizer(text)["input_ids"] == [VOCABULARY.index(word) for word in text.split()]


def test_mask_marks_the_answers_with_their_end(tokenizer):
    made = tokenizer.apply_chat_template(
        CONVERSATION, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    marked = [i for i, m in zip(made["input_ids"], made["assistant_masks"], strict=True) if m]
    assert tokenizer.convert_ids_to_tokens(marked) == ["red", "<eos>", "2", "<eos>"]


def test_a_saved_tokenizer_is_the_same(tokenizer, tmp_path):
    from transformers import AutoTokenizer

    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = tokenizer.apply_chat_template(CONVERSATION, tokenize=False)
    assert loaded.apply_chat_template(CONVERSATION, tokenize=False) == text
    assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert loaded.image_token_id == tokenizer.image_token_id and loaded.pad_token_id == 0
