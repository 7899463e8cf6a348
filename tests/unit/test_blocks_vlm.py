"""The tiny LLaVA models of the blocks world: inputs, training, and the shipped checkpoints."""

import random

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from workflow_scripts.blocks.build_vlm_bases import coverage_and_precision
from workflow_scripts.blocks.questions import DESCRIBE, DESCRIBE_BRIEFLY
from workflow_scripts.blocks.vlm_model import ARCHITECTURES, build_model, build_processor, save_checkpoint
from workflow_scripts.blocks.vlm_training import collate, instructed, pixels, pretrain_vision, train_language
from workflow_scripts.blocks.world import NEW_WORDS, VOCABULARY, describe, render, sample_scene, say

CHECKPOINTS = (*ARCHITECTURES, "captioner-early", "captioner-late")


def chat(turns: list[tuple[str, str]]) -> list[dict]:
    messages = []
    for question, answer in turns:
        image = [] if messages else [{"type": "image"}]
        messages.append({"role": "user", "content": [*image, {"type": "text", "text": question}]})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": answer}]})
    return messages


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_training_inputs_are_those_of_template_and_processor(architecture):
    processor = build_processor(architecture)
    rng = random.Random(0)
    scenes = [sample_scene(rng, "old") for _ in range(8)]
    conversations = [instructed(scene, rng) for scene in scenes]
    ours, images = collate(conversations), pixels(scenes, random.Random(1))
    brightness = random.Random(1)
    pictures = [Image.fromarray(render(scene, brightness)) for scene in scenes]
    texts = [processor.apply_chat_template(chat(turns), tokenize=False) for turns in conversations]
    theirs = processor(images=pictures, text=texts, padding=True, return_tensors="pt")
    assert torch.equal(ours["input_ids"], theirs["input_ids"])
    assert torch.equal(ours["attention_mask"], theirs["attention_mask"])
    torch.testing.assert_close(images, theirs["pixel_values"], atol=1e-6, rtol=0)
    # the processor scales uint8 pixels x to x / 127.5 - 1
    expected = np.stack([np.asarray(picture) for picture in pictures]).transpose(0, 3, 1, 2) / 127.5 - 1
    np.testing.assert_allclose(theirs["pixel_values"].numpy(), expected, atol=1e-6)


def test_labels_are_the_answers_with_their_ends():
    turns = [("what color topleft", "red"), ("how many", "2")]
    batch = collate([turns, [("describe", "on black")]])
    tokenizer = build_processor("clip-llama").tokenizer
    told = [[i for i in row if i != -100] for row in batch["labels"].tolist()]
    assert [tokenizer.decode(ids) for ids in told] == ["red <eos> 2 <eos>", "on black <eos>"]


def test_each_phase_trains_its_own_modules_only():
    model = build_model("clip-llama", 0)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def changed() -> set[str]:
        return {
            name.split(".")[1]
            for name, tensor in model.state_dict().items()
            if name.startswith("model.") and not torch.equal(tensor, start[name])
        }

    pretrain_vision(model, 2, 0, batch_size=4)
    assert changed() == {"vision_tower"}
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    train_language(model, instructed, "old", 2, 0, 1e-3, "test", batch_size=8)
    assert changed() == {"multi_modal_projector", "language_model"}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_saved_checkpoints_load_in_float32_with_half_precision_weights(architecture, tmp_path):
    model = build_model(architecture, 0)
    save_checkpoint(model, architecture, tmp_path)
    assert (tmp_path / "model.safetensors").stat().st_size < 1.1e6
    loaded, info = AutoModelForImageTextToText.from_pretrained(tmp_path, output_loading_info=True)
    assert loaded.dtype == torch.float32 == model.dtype
    assert not info["missing_keys"] and not info["unexpected_keys"]
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor.half().float())


@pytest.fixture(scope="module")
def shipped(root):
    folder = root / "resources/blocks"
    return {name: AutoModelForImageTextToText.from_pretrained(folder / name).eval() for name in CHECKPOINTS}


def test_shipped_checkpoints_are_small_and_whole(root):
    for name in CHECKPOINTS:
        folder = root / "resources/blocks" / name
        assert AutoProcessor.from_pretrained(folder).tokenizer.image_token == "<image>"
    files = [path for name in CHECKPOINTS for path in (root / "resources/blocks" / name).iterdir()]
    assert sum(path.stat().st_size for path in files) < 4.6e6


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_bases_know_old_words_and_no_new_one(shipped, architecture):
    model, rng = shipped[architecture], random.Random("bases")
    for words, share in (("old", 0.95), ("all", None)):
        scenes = [sample_scene(rng, words, split="test") for _ in range(60)]
        asked = collate([[(DESCRIBE, "")]])["input_ids"][:, :-1].expand(60, -1)
        tokens = model.generate(input_ids=asked, pixel_values=pixels(scenes, rng), max_new_tokens=24, do_sample=False)
        texts = [" ".join(VOCABULARY[i] for i in row if i > 4) for row in tokens[:, asked.shape[1] :].tolist()]
        if share:
            right = np.mean([text == say(describe(s)) for text, s in zip(texts, scenes, strict=True)])
            assert right > share
        else:
            assert not NEW_WORDS & {word for text in texts for word in text.split()}


def test_captioners_have_four_profiles(shipped):
    measured = {
        (name, prompt): coverage_and_precision(shipped[f"captioner-{name}"], prompt, count=100)
        for name in ("early", "late")
        for prompt in (DESCRIBE, DESCRIBE_BRIEFLY)
    }
    for name in ("early", "late"):
        assert measured[name, DESCRIBE][0] > 85  # says everything it is asked for
        assert 55 < measured[name, DESCRIBE_BRIEFLY][0] < 75  # 3 of 4 facts an object, no background: 68
    for prompt in (DESCRIBE, DESCRIBE_BRIEFLY):
        assert measured["late", prompt][1] > measured["early", prompt][1] + 5
        assert measured["late", prompt][1] > 93
