"""Models put together from parts: tiny ones of the real classes, with tokenizers of Vicuna's and Qwen3's kind."""

import json
import shutil

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tiny_parts import CORPUS, build_parts, spec_of
from transformers import (
    CLIPVisionModel,
    SiglipVisionModel,
)
from vlm_helpers import STAGE, indexed, make_conversations

from workflow_scripts.errors import UserError
from workflow_scripts.model_folders import manifest_folder
from workflow_scripts.spec import VlmModel
from workflow_scripts.vlm import align, assemble
from workflow_scripts.vlm.batches import IGNORED, Batches
from workflow_scripts.vlm.data import Sample
from workflow_scripts.vlm.model import load


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """The folders of both pipelines' parts."""
    return build_parts(tmp_path_factory.mktemp("parts"))


@pytest.fixture(scope="module", params=["vicuna", "qwen3"])
def template(request):
    return request.param


@pytest.fixture(scope="module")
def assembled(parts, template, tmp_path_factory):
    """(the spec, the manifest)"""
    out = tmp_path_factory.mktemp(template) / "model.json"
    spec = spec_of(parts, template)
    assemble.main(["--spec", json.dumps(spec), "--out", str(out)])
    return spec, out


def test_every_part_is_there_bit_by_bit(parts, assembled, template):
    spec, out = assembled
    weights = load_file(manifest_folder(out) / "model.safetensors")
    tower = CLIPVisionModel if template == "vicuna" else SiglipVisionModel
    vision = tower.from_pretrained(spec["model"]["vision"]["path"]).state_dict()
    for name, tensor in vision.items():
        assert torch.equal(weights[f"vision_tower.vision_model.{name}"], tensor)
    language = load_file(f"{spec['model']['language']['path']}/model.safetensors")
    for name, tensor in language.items():
        found = weights[f"language_model.{name}"]
        assert found.dtype == tensor.dtype and torch.equal(found[: len(tensor)], tensor)
    assert ("language_model.lm_head.weight" in weights) == (template == "vicuna")  # Qwen3's is the token table
    if template == "vicuna":
        published = load_file(parts / "llava" / "mm_projector.safetensors")
        assert torch.equal(weights["multi_modal_projector.linear_2.bias"], published["model.mm_projector.2.bias"])
        assert torch.equal(weights["multi_modal_projector.linear_1.weight"], published["model.mm_projector.0.weight"])


def test_the_folder_loads_and_sees(assembled, tmp_path):
    spec, out = assembled
    model, processor = load(manifest_folder(out), VlmModel.model_validate(spec["model"]))
    Image.new("RGB", (50, 40), (255, 0, 0)).save(tmp_path / "red.png")
    Image.new("RGB", (50, 40), (0, 0, 255)).save(tmp_path / "blue.png")
    batches = Batches(processor, 256)
    assert batches.num_image_tokens == 4
    losses = []
    for name in ("red", "blue"):
        batch = batches([Sample(name, (tmp_path / f"{name}.png",), (("describe", "the circle"),))])
        losses.append(model(**batch).loss.item())
    assert losses[0] != losses[1]
    assert model.generation_config.eos_token_id == model.config.text_config.eos_token_id


def test_vicunas_tokenizer_is_read_from_its_sentencepiece_model(parts, tmp_path):
    """Its folder has no tokenizer.json. Tokens are those of the sentencepiece library itself."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="of envs/core.txt, `make` installs it")
    folder = shutil.copytree(parts / "vicuna", tmp_path / "vicuna")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    (tmp_path / "corpus.txt").write_text("\n".join(CORPUS))
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "corpus.txt"), model_prefix=str(folder / "tokenizer"), model_type="bpe", vocab_size=400,
        byte_fallback=True, normalization_rule_name="identity", split_digits=True, remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True, unk_id=0, bos_id=1, eos_id=2, pad_id=-1, minloglevel=2,
    )  # fmt: skip
    config = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False, "legacy": False,
              "pad_token": None, **{f"{name}_token": text for name, text in SPECIAL.items()}}  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(config))

    spec = spec_of(parts, "vicuna", language={"path": str(folder)})
    assemble.main(["--spec", json.dumps(spec), "--out", str(tmp_path / "model.json")])
    _, processor = load(manifest_folder(tmp_path / "model.json"), VlmModel.model_validate(spec["model"]))
    tokenizer = processor.tokenizer
    published = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    for text in (*CORPUS[:3], "the red  circle\n\n- 12345 é 漢", "a"):
        assert tokenizer(text, add_special_tokens=False)["input_ids"] == published.encode(text)
    assert (tokenizer.pad_token, len(tokenizer)) == ("<unk>", 401)  # and <image>
    ((ids, labels),) = Batches(processor, 512).encode([Sample("a", (), (("how many?", "two"),))])
    assert tokenizer.decode(ids).endswith("USER: how many? ASSISTANT: two</s>")
    assert [token for token in labels if token != IGNORED] == [*published.encode("two"), tokenizer.eos_token_id]


SPECIAL = {"unk": "<unk>", "bos": "<s>", "eos": "</s>"}
VICUNA = (
    "<s>A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, "
    "and polite answers to the user's questions. USER: {images}describe ASSISTANT:[ the red circle</s>]"
    "USER: how many? ASSISTANT:[ two</s>]"
)
QWEN3 = (
    "<|im_start|>user\n{images}describe<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    "[the red circle<|im_end|>]\n"
    "<|im_start|>user\nhow many?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n[two<|im_end|>]\n"
)


@pytest.mark.parametrize("num_images", [0, 1, 2])
def test_masks_token_by_token(assembled, template, tmp_path, num_images):
    """What is in brackets is learnt, all else is not; the tokens are those of the whole text."""
    spec, out = assembled
    processor = load(manifest_folder(out), VlmModel.model_validate(spec["model"]))[1]
    batches, tokenizer = Batches(processor, 512), processor.tokenizer
    images = tuple(tmp_path / f"{n}.png" for n in range(num_images))
    turns = (("describe", "the red circle"), ("how many?", "two"))
    ((ids, labels),) = batches.encode([Sample("a", images, turns)])
    marked = {"vicuna": VICUNA, "qwen3": QWEN3}[template].replace("{images}", "<image>\n" * num_images)
    expected_ids, expected_labels = [], []
    whole = tokenizer(marked.replace("[", "").replace("]", ""), add_special_tokens=False, return_offsets_mapping=True)
    spans, position = [], 0
    for character in marked:  # the learnt stretches, in characters of the unmarked text
        if character in "[]":
            spans.append(position)
        else:
            position += 1
    stretches = list(zip(spans[::2], spans[1::2], strict=True))
    for token, (start, end) in zip(whole["input_ids"], whole["offset_mapping"], strict=True):
        inside = any(first <= start and end <= last and end > start for first, last in stretches)
        times = batches.num_image_tokens if token == batches.image_token_id else 1
        expected_ids += [token] * times
        expected_labels += [token if inside else IGNORED] * times
    assert ids == expected_ids
    assert labels == expected_labels
    said = tokenizer.decode([label for label in labels if label != IGNORED])
    end = "</s>" if template == "vicuna" else "<|im_end|>"
    assert said.replace(" ", "") == f"theredcircle{end}two{end}"
    prompts = batches.prompts([(images[0], "describe")]) if num_images == 1 else []
    for prompt in prompts:
        assert prompt == ids[: len(prompt)] and labels[len(prompt)] != IGNORED  # asked as trained


def test_alignment_starts_from_it(assembled, tmp_path):
    spec, out = assembled
    data = make_conversations(tmp_path / "data", 8)
    stage = {"data": {"path": str(data)}, **STAGE, "train": ["vision", "projector", "language"], "steps": 2,
             "vision_from_layer": 1, "max_length": 256}  # fmt: skip
    job = {"model": spec["model"], "stage": stage, "seed": 0}
    trained = tmp_path / "align" / "model.json"
    words = ["--spec", json.dumps(job), "--out", str(trained), "--log-table", str(tmp_path / "training.csv")]
    words += indexed(job)
    with pytest.raises(UserError, match=r"--start: give the assembled model where model\.base is not given"):
        align.main(words)
    align.main([*words, "--start", str(out)])
    before, after = (load_file(manifest_folder(path) / "model.safetensors") for path in (out, trained))
    assert before.keys() == after.keys()
    moved = {name for name in before if not torch.equal(before[name].float(), after[name].float())}
    assert any("layers.1" in name for name in moved) and not any("tower" in n and "layers.0" in n for n in moved)


def test_what_does_not_fit_says_so(parts, tmp_path):
    def fail(message, **changes):
        with pytest.raises(UserError, match=message):
            assemble.main(
                ["--spec", json.dumps(spec_of(parts, "vicuna", **changes)), "--out", str(tmp_path / "m.json")]
            )

    fail(r"sees 32 px, model.image_size is 336", image_size=336)
    fail(r"a vision tower of kind 'llama', expected one of clip, siglip", vision={"path": str(parts / "vicuna")})
    fail(r"no file .*mm_projector.safetensors", projector={"path": str(parts / "clip")})
    published = load_file(parts / "llava" / "mm_projector.safetensors")
    (tmp_path / "other").mkdir()
    for weights, message in (
        ({"vision.x": torch.zeros(1)}, r"weight vision.x is none of LLaVA's projector"),
        ({k: v for k, v in published.items() if "2.bias" not in k}, r"weight linear_2.bias of the projector is absent"),
        ({**published, "model.mm_projector.0.bias": torch.zeros(5)}, r"has shape \(5,\), this model needs \(32,\)"),
    ):
        save_file(weights, tmp_path / "other" / "mm_projector.safetensors")
        fail(message, projector={"path": str(tmp_path / "other")})


def test_a_random_projector_follows_the_seed(parts, tmp_path):
    found = []
    for seed in (0, 0, 1):
        out = tmp_path / f"{len(found)}" / "model.json"
        spec = {**spec_of(parts, "qwen3"), "seed": seed}
        assemble.main(["--spec", json.dumps(spec), "--out", str(out)])
        found.append(load_file(manifest_folder(out) / "model.safetensors")["multi_modal_projector.linear_1.weight"])
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])
    assert found[0].float().std().item() == pytest.approx(0.02, rel=0.1)
