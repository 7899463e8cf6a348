"""Disk and memory foretold: against DeepSpeed's own estimates, real checkpoints and real weights."""

import shutil
from types import SimpleNamespace

import pytest
import torch

from workflow_scripts import capacity
from workflow_scripts.errors import UserError
from workflow_scripts.spec import Optimisation

BILLION = 10**9


def settings(**changes) -> Optimisation:
    made = {"learning_rate": 1e-3, "global_batch": 64, "per_device_batch": 4, "devices": 8}
    return Optimisation(**made | changes)


@pytest.fixture
def disk(monkeypatch):
    """Give the disk so many free bytes."""
    return lambda free: monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))


def test_a_disk_too_small_is_told_with_the_figures(tmp_path, disk, caplog):
    needed = {"latents": 52.4 * BILLION, "weights": 10 * BILLION, "nothing": 0}
    disk(50 * BILLION)
    told = r"the disk of .*/new: 50.0 GB are free, this needs 62.4 GB \(latents 52.4 GB, weights 10.0 GB\)"
    with pytest.raises(UserError, match=told):
        capacity.require_disk(tmp_path / "new", needed)
    caplog.set_level("INFO")
    disk(63 * BILLION)
    capacity.require_disk(tmp_path / "new", needed)
    assert "63.0 GB are free, this needs 62.4 GB" in caplog.text


def test_what_an_earlier_run_left_counts_as_free(tmp_path, disk):
    (tmp_path / "checkpoint-3").mkdir()
    (tmp_path / "checkpoint-3" / "weights").write_bytes(b"0" * 1000)
    disk(500)
    capacity.require_disk(tmp_path, {"checkpoints": 1500})
    with pytest.raises(UserError):
        capacity.require_disk(tmp_path, {"checkpoints": 1501})


def test_memory_is_that_of_the_gpu_or_of_all_processes_on_the_host(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setattr(capacity, "host_memory", lambda: 50 * BILLION)
    with pytest.raises(UserError, match=r"host's memory: 50.0 GB are free, this needs 90.0 GB \(a 10.0 GB, b 80.0 GB"):
        capacity.require_memory({"b": 20 * BILLION}, {"a": 10 * BILLION})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (21 * BILLION, 80 * BILLION))
    capacity.require_memory({"b": 20 * BILLION}, {"a": 10 * BILLION})
    with pytest.raises(UserError, match=r"the GPU's memory: 21.0 GB are free, this needs 22.0 GB"):
        capacity.require_memory({"b": 22 * BILLION}, {"a": 10 * BILLION})


@pytest.mark.parametrize("version", [1, 2])
def test_the_control_groups_limit_bounds_the_hosts_memory(tmp_path, monkeypatch, version):
    proc = tmp_path / "cgroup"
    monkeypatch.setattr(capacity, "_OWN_GROUP", proc)
    monkeypatch.setattr(capacity, "_GROUPS", tmp_path / "groups")
    kinds, name = (("memory", "memory.limit_in_bytes"), ("", "memory.max"))[version - 1]
    proc.write_text(f"1:cpu:/job/step\n5:{kinds}:/job/step\n")
    assert capacity.host_memory() > 1e8
    step = tmp_path / "groups" / kinds / "job" / "step"
    step.mkdir(parents=True)
    (step / name).write_text("max\n" if version == 2 else "9223372036854771712\n")
    assert capacity.host_memory() > 1e8
    (step.parent / name).write_text("70000000\n")  # the job's limit holds its steps too
    assert capacity.host_memory() == 7e7


@pytest.mark.parametrize(("stage", "offload"), [(2, False), (2, True), (3, False), (3, True)])
def test_training_states_are_deepspeeds_own_estimates(stage, offload):
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    parameters, largest = 20 * BILLION, 300_000_000
    ours = capacity.training_states(parameters, largest, settings(zero_stage=stage, offload_optimizer=offload))
    if stage == 2:
        host, gpu = estimate_zero2_model_states_mem_needs(parameters, 8, 1, offload, 1)
    else:
        host, gpu, _ = estimate_zero3_model_states_mem_needs(parameters, largest, 8, 1, offload, False, False, 1)
    assert ours[0] == pytest.approx(gpu)
    if offload:
        assert 8 * ours[1] == 16 * parameters <= host  # theirs has each process reading all in float32
    else:
        assert ours[1] == 0


def test_plain_training_holds_weights_gradients_and_two_moments():
    model = torch.nn.Linear(100, 200)
    optimiser = torch.optim.AdamW(model.parameters())
    model(torch.randn(3, 100)).sum().backward()
    optimiser.step()
    states = [t for state in optimiser.state.values() for name, t in state.items() if name != "step"]
    held = sum(t.nbytes for p in model.parameters() for t in (p, p.grad)) + sum(t.nbytes for t in states)
    count = sum(p.numel() for p in model.parameters())
    assert capacity.training_states(count, 20000, settings(zero_stage=0)) == (held, 0)


def test_recomputed_activations_are_fewer():
    kept, again = (capacity.activations(24, 1536, 4685, settings(gradient_checkpointing=on)) for on in (False, True))
    assert kept == 34 * 24 * 1536 * 4685 * 4
    assert again == pytest.approx(kept / 10, rel=0.1)


def test_parameters_are_counted_by_the_headers_of_the_files_in_use(tmp_path):
    from huggingface_hub import save_torch_state_dict

    weights = {"a": torch.zeros(7, 10), "b": torch.zeros(30), "c": torch.zeros(())}
    save_torch_state_dict(weights, tmp_path, max_shard_size=150)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert capacity.count_parameters(tmp_path) == (101, 70)
    save_torch_state_dict(weights, tmp_path, filename_pattern="half{suffix}.safetensors")  # beside, listed by nothing
    assert capacity.count_parameters(tmp_path) == (101, 70)
    assert capacity.count_parameters(tmp_path, lambda name: name != "a") == (31, 30)
    with pytest.raises(UserError, match="has no weights in safetensors"):
        capacity.count_parameters(tmp_path / "nowhere")
