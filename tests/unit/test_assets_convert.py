"""Pickles become safetensors with the same tensors, or are refused without running anything."""

import json
import os
from pathlib import Path

import pytest
import safetensors.torch
import torch

from workflow_scripts.assets.convert import convert, converted_name, write_safetensors
from workflow_scripts.errors import UserError


class Evil:
    """Writes a file when a pickle of it is opened."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def tensors():
    torch.manual_seed(0)
    return {
        "half.weight": torch.randn(5, 3).to(torch.bfloat16),
        "full.weight": torch.randn(4, 6).t(),
        "scale": torch.tensor(2.5, dtype=torch.float64),
        "mask": torch.tensor([True, False, True]),
        "ids": torch.arange(7),
        "none": torch.empty(0, 3),
    }


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) and a[k].dtype == b[k].dtype for k in a)


def test_what_is_written_is_read_by_safetensors(tmp_path):
    write_safetensors(tmp_path / "x.safetensors", tensors())
    assert same(safetensors.torch.load_file(tmp_path / "x.safetensors"), tensors())
    with safetensors.safe_open(tmp_path / "x.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_of_either_form_is_converted(tmp_path, zipped):
    torch.save(tensors(), tmp_path / "mm_projector.bin", _use_new_zipfile_serialization=zipped)
    assert convert(tmp_path, ["mm_projector.bin"]) == {"mm_projector.bin": "mm_projector.safetensors"}
    assert same(safetensors.torch.load_file(tmp_path / "mm_projector.safetensors"), tensors())
    assert [path.name for path in tmp_path.iterdir()] == ["mm_projector.safetensors"]


def test_shards_load_as_a_model(tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=11, **sizes))
    model.config.save_pretrained(tmp_path)
    weights = list(model.state_dict().items())
    names = [f"pytorch_model-0000{k}-of-00002.bin" for k in (1, 2)]
    torch.save(dict(weights[:5]), tmp_path / names[0])
    torch.save(dict(weights[5:]), tmp_path / names[1])
    convert(tmp_path, names)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for _, tensor in weights)
    loaded, found = LlamaForCausalLM.from_pretrained(tmp_path, use_safetensors=True, output_loading_info=True)
    assert not any(found[fault] for fault in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert same(loaded.state_dict(), model.state_dict())


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_with_code_is_refused_and_does_not_run(tmp_path, zipped):
    ran = tmp_path / "ran"
    torch.save({"weight": Evil(ran)}, tmp_path / "evil.bin", _use_new_zipfile_serialization=zipped)
    with pytest.raises(UserError, match=r"evil.bin: refused, it holds more than tensors"):
        convert(tmp_path, ["evil.bin"])
    assert not ran.exists() and not (tmp_path / "evil.safetensors").exists()


@pytest.mark.parametrize(
    "content", [[torch.zeros(2)], {"a": torch.zeros(2), "step": 3}, {"a": torch.zeros(2).cfloat()}]
)
def test_what_is_no_mapping_of_tensors_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "odd.bin")
    with pytest.raises(UserError, match=r"odd.bin: refused, it is no mapping of names to plain tensors"):
        convert(tmp_path, ["odd.bin"])


def test_names():
    assert converted_name("pytorch_model.bin") == "model.safetensors"
    assert converted_name("text/pytorch_model-00001-of-00003.bin") == "text/model-00001-of-00003.safetensors"
    assert Path(converted_name("mm_projector.bin")).suffix == ".safetensors"
