"""The server engine against a real vLLM server (what `vllm serve` runs): the same answers as from vLLM here."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from asking import ask, open_vllm, request

from workflow_scripts.engines.server import Engine
from workflow_scripts.errors import UserError
from workflow_scripts.plan import EngineJob, ServingJob

KEY = "sk-local-5d1f6c"


@pytest.fixture(scope="module")
def model(tiny_model):
    return tiny_model("qwen3-vl")


@pytest.fixture(scope="module")
def requests(photographs):
    warm = {"temperature": 1.0, "top_p": 0.9, "top_k": 40, "presence_penalty": 0.5}
    schema = {
        "type": "object",
        "properties": {"verdict": {"enum": ["yes", "no"]}},
        "required": ["verdict"],
        "additionalProperties": False,
    }
    small = {name: image for name, image in photographs.items() if image.width * image.height < 4e6}
    return [
        *(request(("greedy", name), image) for name, image in small.items()),
        *(request(("warm", name), image, seed=7, system="be brief", **warm) for name, image in small.items()),
        request("schema", text="judge", schema=schema, max_tokens=60, temperature=1.2, seed=3),
        request("long", text="dog " * 3000),
    ]


@pytest.fixture(scope="module")
def offline(model, requests):
    """What vLLM here answers. It has ended before the server starts."""
    with open_vllm(model) as engine:
        return ask(engine, requests)


@pytest.fixture(scope="module")
def address(model, offline, tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("serve") / "log"
    settings = {
        "model": model,
        "served-model-name": "tiny",
        "host": "127.0.0.1",
        "port": port,
        "max-model-len": 512,
        "max-num-seqs": 8,
        "dtype": "float32",
        "block-size": 32,
        "generation-config": "vllm",
        "limit-mm-per-prompt": '{"image": 1, "video": 0}',
        "structured-outputs-config": '{"backend": "xgrammar", "disable_any_whitespace": true}',
    }
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager"]
    command += [f"--{name}={value}" for name, value in settings.items()]
    environment = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_API_KEY": KEY}
    with log.open("w") as out:
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=out, stderr=out)
    try:
        for _ in range(240):
            assert process.poll() is None, log.read_text()[-3000:]
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
                break
            except OSError:
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()  # the parent of what vLLM started ends that too
        process.wait(timeout=60)


def open_server(address, model="tiny"):
    job = EngineJob(engine="server", server_model=model, max_model_len=512)
    server = {"url": address, "model": model, "key_variable": "TINY_KEY", "attempts": 2}
    return Engine(job, ServingJob(server=server), [])


def test_a_server_answers_as_vllm_here(address, offline, requests, monkeypatch):
    monkeypatch.setenv("TINY_KEY", KEY)
    engine = open_server(address)
    online = ask(engine, requests)
    engine.close()
    assert offline.keys() == online.keys()
    for key, answer in online.items():
        if key != "long":
            assert (answer.text, answer.finish_reason) == (offline[key].text, offline[key].finish_reason), key
            assert answer.num_prompt_tokens == offline[key].num_prompt_tokens
    assert json.loads(online["schema"].text)["verdict"] in ("yes", "no")
    assert online["long"].error.startswith("server: 400: ") and online["long"].too_long
    assert engine.facts["server"] == {"num_retries": 0, "models": ["tiny"]}


def test_wrong_key_and_wrong_model_stop(address, monkeypatch):
    monkeypatch.setenv("TINY_KEY", "sk-wrong-77aa")
    with pytest.raises(UserError, match="refuses the key") as caught:
        ask(open_server(address), [request(1, text="dog")])
    assert "sk-wrong-77aa" not in str(caught.value)
    monkeypatch.setenv("TINY_KEY", KEY)
    with pytest.raises(UserError, match=r"knows no such model or page.*'other'"):
        ask(open_server(address, "other"), [request(1, text="dog")])
