"""Several copies of a model: the same answers as from one, and no hang when one dies."""

import os
import signal
import time

import pytest
from asking import ask, copies_of, open_vllm, request

from workflow_scripts.errors import UserError


def children():
    return copies_of(os.getpid())


def test_two_copies_then_one_dies(tiny_model, photographs):
    model = tiny_model("llava")
    small = [image for image in photographs.values() if image.width * image.height < 4e6]
    requests = [request((n, m), image, seed=n, temperature=1.0) for n in range(12) for m, image in enumerate(small)]
    with open_vllm(model, max_num_seqs=4) as engine:
        single = {key: answer.text for key, answer in ask(engine, requests).items()}
    assert children() == []
    with open_vllm(model, max_num_seqs=4, gpus=2) as engine:
        assert len(children()) == 2
        assert engine.room() == 16
        double = {key: answer.text for key, answer in ask(engine, requests).items()}
        assert double == single
        assert engine.facts["vllm"]["copies"] == 2
        for n in range(4):
            engine.submit(request(n, text="dog", max_tokens=400))
        victim = children()[0]
        os.kill(victim, signal.SIGKILL)
        start = time.monotonic()
        with pytest.raises(UserError, match=r"a vLLM process died \(exit code -9\)"):
            ask(engine, [request(n, text="dog") for n in range(50)])
        assert time.monotonic() - start < 20
    assert children() == []


def test_a_folder_that_vllm_cannot_serve_is_an_error(tiny_model, tmp_path):
    for file in tiny_model("llava").iterdir():
        if file.name != "model.safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}      ")
    with pytest.raises(UserError, match=f"{tmp_path}: vLLM stopped with "), open_vllm(tmp_path):
        pass
    assert children() == []
