"""What a training run tells of its pace, with and without loader workers, resumed and whole."""

import time

import pytest
import torch
from vlm_helpers import SETTLED, align_spec, conversations, make_base, make_conversations, model_spec

from workflow_scripts import pace, training
from workflow_scripts.errors import UserError
from workflow_scripts.spec import VlmModel, VlmStage
from workflow_scripts.vlm.batches import Batches
from workflow_scripts.vlm.flops import training_flops
from workflow_scripts.vlm.model import freeze, load
from workflow_scripts.vlm.trainer import LlavaTrainer

COUNTS = {"samples": 4, "cut": 1, "tokens": 1000}


class Clock:
    """time.monotonic, moved by hand."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


def feed(measured, clock, waits, work):
    """A step a wait: the batch takes so long, then the model works."""

    def batches():
        for wait in waits:
            clock.now += wait
            yield {"x": 1, "counts": dict(COUNTS)}

    for batch in measured.counted(batches()):
        assert batch == {"x": 1}
        clock.now += work


def test_a_row_tells_of_the_steps_since_the_last(monkeypatch):
    clock = Clock(monkeypatch)
    measured = pace.Pace({"tokens": 3e9, "samples": 1e12}, peak=10.0)
    feed(measured, clock, [1.0, 3.0], work=4.0)
    row = measured.row()
    assert row == {
        "tokens_per_second": 2000 / 12,
        "model_tflops": pytest.approx((2000 * 3e9 + 8e12) / 12 / 1e12),
        "mfu": pytest.approx(14 / 12 / 10),
        "share_waiting": 4 / 12,
        "share_truncated": 0.25,
    }
    feed(measured, clock, [0.0], work=2.0)
    assert measured.row()["tokens_per_second"] == 500
    assert measured.totals == {"samples": 12, "cut": 3, "tokens": 3000}
    assert tuple(row) == pace.COLUMNS


def test_a_resumed_run_goes_on_between_two_rows(monkeypatch):
    clock = Clock(monkeypatch)
    killed = pace.Pace({}, None)
    feed(killed, clock, [1.0], work=1.0)
    killed.row()
    feed(killed, clock, [1.0, 1.0], work=2.0)
    kept = killed.state()
    feed(killed, clock, [5.0], work=1.0)  # lost
    clock.now += 1000
    resumed = pace.Pace({}, None)
    resumed.resume(kept)
    assert resumed.state() == kept
    feed(resumed, clock, [2.0], work=2.0)
    row = resumed.row()
    assert (row["tokens_per_second"], row["share_waiting"], row["mfu"]) == (3000 / 10, 4 / 10, None)
    assert resumed.totals["cut"] == 4


def test_a_run_that_has_learnt_nothing_stops_at_its_first_row(monkeypatch):
    def fed(*unlearnt):
        measured = pace.Pace({}, None)
        for number in unlearnt:
            batch = {"counts": {**COUNTS, "unlearnt": number}}
            list(measured.counted(one for one in [batch]))
            clock.now += 1.0
            measured.row()
        return measured

    clock = Clock(monkeypatch)
    with pytest.raises(
        UserError, match="nothing is learnt: of 4 samples none has an answer that begins within max_len"
    ):
        fed(4)
    assert fed(3, 4).totals["unlearnt"] == 7


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("base") / "clip-llama")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_conversations(tmp_path_factory.mktemp("data") / "align", 32)


def run(base, samples, folder, loader_workers, **changes):
    settings = VlmModel.model_validate(model_spec(base))
    stage = VlmStage.model_validate(align_spec(base, folder, max_length=16, **changes)["stage"])
    model, processor = load(base, settings)
    freeze(model, stage)
    batches = Batches(processor, stage.max_length)
    flops = training_flops(model, batches.num_image_tokens)
    trained = training.train(model, samples, batches, stage, 0, folder, flops, loader_workers, LlavaTrainer)
    return trained, batches


def test_loader_workers_change_no_result(tmp_path, base, data):
    samples = list(conversations(data))
    (plain, batches), *others = (run(base, samples, tmp_path / str(n), n, global_batch=8) for n in (0, 1, 2))
    for other, _ in others:
        assert [[row[name] for name in SETTLED if name != "epoch"] for row in other.curve] == [
            [row[name] for name in SETTLED if name != "epoch"] for row in plain.curve
        ]
        assert all(torch.equal(other.weights[name], tensor) for name, tensor in plain.weights.items())
        assert other.counts == plain.counts
    lengths = [len(ids) for ids, _ in batches.encode(samples)]
    assert plain.counts["cut"] == sum(length > 16 for length in lengths) > 0
    for number, row in enumerate(plain.curve):
        step = lengths[8 * number : 8 * number + 8]
        assert row["share_truncated"] == sum(length > 16 for length in step) / 8
        assert 0 < row["share_waiting"] < 1
        assert row["model_tflops"] > 0 and row["tokens_per_second"] > 0 and row["mfu"] is None


@pytest.mark.parametrize("loader_workers", [0, 2])
def test_a_broken_image_stops_with_its_name_alone(tmp_path, base, data, loader_workers):
    samples = list(conversations(data))
    (tmp_path / "broken.png").write_bytes(b"no image")
    samples[9] = samples[9].__class__(samples[9].key, (tmp_path / "broken.png",), samples[9].turns)
    with pytest.raises(UserError) as fault:
        run(base, samples, tmp_path / "run", loader_workers)
    assert str(fault.value).startswith(f"sample conversation:9: {tmp_path / 'broken.png'}: not a readable image")
    assert "\n" not in str(fault.value)


def test_the_last_step_is_in_the_curve(tmp_path, base, data, monkeypatch):
    monkeypatch.setattr(training, "_LOG_ROWS", 2)
    trained, batches = run(base, list(conversations(data))[:28], tmp_path, 0)
    assert [row["step"] for row in trained.curve] == [3, 6, 7]
    lengths = [len(ids) for ids, _ in batches.encode(list(conversations(data))[:28])]
    assert trained.counts["cut"] == sum(length > 16 for length in lengths)
