"""What the vLLM engine does before it starts vLLM; tests/integration has the rest."""

import pytest

from workflow_scripts.engines.vllm import Engine, split_devices
from workflow_scripts.errors import UserError
from workflow_scripts.plan import EngineJob, ServingJob


@pytest.mark.parametrize(
    ("shown", "gpus", "tensor_parallel", "expected"),
    [
        (None, 0, 1, [None]),
        ("3", 1, 1, [None]),
        ("4,5", 2, 2, [None]),
        (None, 4, 2, ["0,1", "2,3"]),
        ("4,5,6,7", 4, 1, ["4", "5", "6", "7"]),
        ("GPU-a,GPU-b,GPU-c,GPU-d", 4, 2, ["GPU-a,GPU-b", "GPU-c,GPU-d"]),
    ],
)
def test_copies_share_no_gpu(monkeypatch, shown, gpus, tensor_parallel, expected):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if shown:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert split_devices(gpus, tensor_parallel) == expected


def test_fewer_gpus_than_promised(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    with pytest.raises(UserError, match="has 4 GPUs but CUDA_VISIBLE_DEVICES names 3: 0,1,2"):
        split_devices(4, 2)


def test_weights_that_can_carry_code(tmp_path):
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(UserError, match=r"no \.safetensors file"):
        Engine(EngineJob(engine="vllm", model={"path": tmp_path}, max_model_len=64), ServingJob(), [])
