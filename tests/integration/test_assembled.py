"""Models put together from parts, trained until they see: vLLM answers like Transformers, in both pipelines."""

import json

import pytest
import torch
from asking import ask, open_vllm, request
from PIL import Image
from tiny_parts import build_parts, spec_of
from transformers import LlavaForConditionalGeneration

from workflow_scripts.model_folders import manifest_folder
from workflow_scripts.spec import VlmModel
from workflow_scripts.vlm import align, assemble, index
from workflow_scripts.vlm.answering import write_answers
from workflow_scripts.vlm.batches import Batches
from workflow_scripts.vlm.model import load

COLOURS = {"red": "the red circle", "blue": "two at the left", "green": "how many?", "white": "one user"}
STAGE = {
    "train": ["vision", "projector", "language"], "learning_rate": 1e-2, "global_batch": 8, "per_device_batch": 8,
    "steps": 150, "schedule": "constant", "max_length": 256, "precision": "fp32", "zero_stage": 0,
    "gradient_checkpointing": False, "devices": 1,
}  # fmt: skip


def draw(folder):
    """Pictures of one colour by its name, wider than high."""
    (folder / "images").mkdir()
    for colour in COLOURS:
        Image.new("RGB", (40, 30), colour).save(folder / "images" / f"{colour}.png")
    return {colour: folder / "images" / f"{colour}.png" for colour in COLOURS}


@pytest.fixture(scope="module", params=["vicuna", "qwen3"])
def trained(request, tmp_path_factory):
    """(model settings, trained folder, pictures)"""
    folder = tmp_path_factory.mktemp(request.param)
    pictures = draw(folder)
    rows = [
        {
            "id": colour,
            "image": f"{colour}.png",
            "conversations": [{"from": "human", "value": "<image>\ndescribe"}, {"from": "gpt", "value": text}],
        }
        for colour, text in COLOURS.items()
    ]
    (folder / "data.json").write_text(json.dumps(rows))
    spec = spec_of(build_parts(folder / "parts", width=64, head_dim=32, layers=2), request.param)
    assemble.main(["--spec", json.dumps(spec), "--out", str(folder / "base/model.json")])
    stage = {"data": {"path": str(folder)}, **STAGE}
    listed = str(folder / "index" / "index.parquet")
    index.main(["--spec", json.dumps({"data": {"path": str(folder)}}), "--out", listed])
    out = ["--conversations", listed, "--out", str(folder / "model.json"), "--log-table", str(folder / "training.csv")]
    align.main(["--spec", json.dumps({**spec, "stage": stage}), "--start", str(folder / "base/model.json"), *out])
    return spec["model"], manifest_folder(folder / "model.json"), pictures


def test_vllm_answers_like_transformers(trained):
    settings, folder, pictures = trained
    model, processor = load(folder, VlmModel.model_validate(settings))
    batches = Batches(processor, 256)
    expected = write_answers(model.eval(), batches, [(path, "describe") for path in pictures.values()], 12)
    assert expected == list(COLOURS.values()), "it has not learnt what it was shown"
    plain = LlavaForConditionalGeneration.from_pretrained(folder, local_files_only=True)
    for (name, ours), (other, theirs) in zip(
        sorted(model.state_dict().items()), sorted(plain.state_dict().items()), strict=True
    ):
        assert name == other and torch.equal(ours, theirs.to(ours.dtype))
    asked = [request(name, Image.open(path), text="describe", max_tokens=12) for name, path in pictures.items()]
    with open_vllm(folder) as engine:
        answers = ask(engine, asked)
    assert {name: answer.text.strip() for name, answer in answers.items()} == COLOURS
