"""Label masks token by token, image tokens, pixels."""

import numpy as np
import pytest
import torch
from PIL import Image

from workflow_scripts.blocks.vlm_model import build_model, build_processor
from workflow_scripts.errors import UserError
from workflow_scripts.spec import VlmModel
from workflow_scripts.vlm.batches import IGNORED, Batches, pad
from workflow_scripts.vlm.data import Sample
from workflow_scripts.vlm.model import whole_images


@pytest.fixture(scope="module", params=["clip-llama", "siglip-qwen3"])
def architecture(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def batches(architecture) -> Batches:
    return Batches(build_processor(architecture), max_length=64)


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    path = tmp_path_factory.mktemp("pictures") / "a.png"
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def learnt(batches: Batches, ids: list[int], labels: list[int]) -> list[tuple[str, bool]]:
    """Each token's word, and whether it is learnt (its label must then be itself)."""
    assert all(label in (IGNORED, token) for token, label in zip(ids, labels, strict=True))
    names = batches.tokenizer.convert_ids_to_tokens(ids)
    return [(name, label != IGNORED) for name, label in zip(names, labels, strict=True)]


def golden(text: str) -> list[tuple[str, bool]]:
    """Tokens of a hand-made row: those in brackets are learnt."""
    return [(word.strip("[]"), word.startswith("[")) for word in text.split()]


def test_one_turn(batches, picture):
    sample = Sample("a", (picture,), (("describe", "topleft red circle on black"),))
    ((ids, labels),) = batches.encode([sample])
    assert learnt(batches, ids, labels) == golden(
        "<bos> <image> <image> <image> <image> describe [topleft] [red] [circle] [on] [black] [<eos>]"
    )


def test_several_turns(batches, picture):
    sample = Sample("a", (picture,), (("how many ?", "2"), ("is there a cross ?", "no"), ("what background ?", "gray")))
    ((ids, labels),) = batches.encode([sample])
    assert learnt(batches, ids, labels) == golden(
        "<bos> <image> <image> <image> <image> how many ? [2] [<eos>] is there a cross ? [no] [<eos>] "
        "what background ? [gray] [<eos>]"
    )


def test_text_only_beside_an_image(batches, picture):
    text = Sample("a", (), (("how many ?", "1"),))
    image = Sample("b", (picture,), (("how many ?", "1"), ("describe", "on gray")))
    batch = batches([text, image])
    assert batch["pixel_values"].shape == (1, 3, 32, 32)
    assert batch["attention_mask"].sum(1).tolist() == [6, 14]
    assert batch["input_ids"].shape == batch["labels"].shape == (2, 14)
    assert (batch["labels"][0, 6:] == IGNORED).all()
    first = learnt(batches, batch["input_ids"][0, :6].tolist(), batch["labels"][0, :6].tolist())
    assert first == golden("<bos> how many ? [1] [<eos>]")


def test_a_blank_image_nobody_sees(batches, architecture):
    """Text alone runs the vision tower all the same, and its loss is that of the text without any image."""
    text, longer = Sample("a", (), (("how many ?", "1"),)), Sample("b", (), (("describe", "on gray with a cross"),))
    batch = batches([text, longer])
    assert batch.pop("counts")["images"] == 0
    length = batch["input_ids"].shape[1] - batches.num_image_tokens
    assert batch["pixel_values"].shape == (1, 3, 32, 32)
    assert not batch["attention_mask"][:, length:].any() and (batch["labels"][:, length:] == IGNORED).all()
    model = build_model(architecture, 0)
    with_blank = model(**batch).loss
    without = model(**{name: batch[name][:, :length] for name in ("input_ids", "attention_mask", "labels")}).loss
    assert with_blank.item() == pytest.approx(without.item(), rel=1e-6)
    with_blank.backward()
    towers = [p.grad for name, p in model.named_parameters() if "vision_tower" in name and p.grad is not None]
    assert towers and all((gradient == 0).all() for gradient in towers)


def test_image_tokens_are_the_processors_own(batches, picture):
    """transformers' processor writes the same row from the same text and image."""
    sample = Sample("a", (picture,), (("describe", "topleft red circle"),))
    text = "<bos> <image> describe topleft red circle <eos>"
    expected = batches.processor(images=Image.open(picture), text=text, return_tensors="pt")
    batch = batches([sample])
    assert batch["input_ids"].tolist() == expected["input_ids"].tolist()
    assert torch.equal(batch["pixel_values"], expected["pixel_values"])


def test_a_long_sample_is_cut_and_counted(picture):
    batches = Batches(build_processor("clip-llama"), max_length=8)
    sample = Sample("long", (picture,), (("describe", "topleft red circle"),))
    short = Sample("short", (), (("describe", "red"),))
    batch = batches([sample, short])
    assert learnt(batches, batch["input_ids"][0].tolist(), batch["labels"][0].tolist()) == golden(
        "<bos> <image> <image> <image> <image> describe [topleft] [red]"
    )
    assert batch["counts"] == {"samples": 2, "cut": 1, "unlearnt": 0, "tokens": 8 + 4, "pairs": 64 + 16, "images": 1}


def test_a_sample_cut_before_its_answer_stays_and_teaches_nothing(picture):
    batches = Batches(build_processor("clip-llama"), max_length=6)
    sample = Sample("long", (picture,), (("describe", "topleft red circle"),))
    short = Sample("short", (), (("describe", "red"),))
    batch = batches([sample, short])
    assert learnt(batches, batch["input_ids"][0].tolist(), batch["labels"][0].tolist()) == golden(
        "<bos> <image> <image> <image> <image> describe"
    )
    assert batch["counts"] == {"samples": 2, "cut": 1, "unlearnt": 1, "tokens": 6 + 4, "pairs": 36 + 16, "images": 1}
    assert batches([short])["counts"]["unlearnt"] == 0
    batches.max_length = 4
    with pytest.raises(UserError, match="sample long: its 4 image tokens are not all in the first 4 tokens"):
        batches([short, sample])


def test_an_image_token_in_the_text_stops(batches, picture):
    with pytest.raises(UserError, match="sample odd: 2 image tokens in its text for 1 images"):
        batches.encode([Sample("odd", (picture,), (("describe", "a <image> here"),))])


def test_prompts_end_where_the_answer_begins(batches, picture):
    (prompt,) = batches.prompts([(picture, "how many ?")])
    ((ids, labels),) = batches.encode([Sample("a", (picture,), (("how many ?", "3"),))])
    assert prompt == ids[: [label != IGNORED for label in labels].index(True)]


def test_padding_to_square_or_stretching(tmp_path):
    """A wide white image: bars of the mean colour above and below, or white all over."""
    path = tmp_path / "wide.png"
    Image.new("RGB", (64, 32), (255, 255, 255)).save(path)
    processor, made = build_processor("siglip-qwen3"), {}
    for pad_to_square in (True, False):
        settings = VlmModel(
            base={"path": "a/folder"}, image_size=32, chat_template="blocks", pad_to_square=pad_to_square
        )
        processor.image_processor = whole_images(processor.image_processor, settings)
        made[pad_to_square] = Batches(processor, 64).pixels([path])[0]
    padded, stretched = made[True], made[False]
    assert padded.shape == stretched.shape == (3, 32, 32)
    assert (stretched == 1).all()
    assert (padded[:, 12:20] == 1).all()
    assert padded[:, [0, 31]].abs().max() < 0.01  # the mean is 0 after scaling


def test_a_broken_image_stops(batches, tmp_path):
    (tmp_path / "a.png").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"a\.png: not a readable image"):
        batches.pixels([tmp_path / "a.png"])
    with pytest.raises(UserError, match=r"sample conversation:7: .*a\.png: not a readable image"):
        batches([Sample("conversation:7", (tmp_path / "a.png",), (("what ?", "red"),))])


def test_pad():
    assert pad([[1, 2], [3]], 0, "left")["input_ids"].tolist() == [[1, 2], [0, 3]]
    right = pad([[1, 2], [3]], 9, "right")
    assert (right["input_ids"].tolist(), right["attention_mask"].tolist()) == ([[1, 2], [3, 9]], [[1, 1], [1, 0]])
