"""The images that models are trained on: which ones are left out, for whom, and that models' images are the sweep's."""

import json
import os

import pytest
from selections import save_selection

from workflow_scripts.captions import select
from workflow_scripts.captions.selection import MADE_FROM, left_out
from workflow_scripts.collect import selections, sweep
from workflow_scripts.errors import UserError
from workflow_scripts.files import fingerprint, write_json, write_run_record
from workflow_scripts.plan import CompareSelectionsJob
from workflow_scripts.records import growing_table, read_table, write_table

PIPELINES = {"clip-llama": 10, "siglip-qwen3": 10, "sd3": 4}
UNUSABLE = {
    # (image, pipeline, fault); id9 is beyond the images of sd3
    "late": [(1, None, "failed"), (9, None, "cut"), (2, "clip-llama", "too_long"), (2, "siglip-qwen3", "too_long")],
    "early": [(2, None, "repetition"), (3, "siglip-qwen3", "too_long")],
    "perfect": [],
}


@pytest.fixture
def selected(tmp_path):
    """`select.main` on those captioners."""
    rows = [{"index": n, "image_id": f"id{n}", "source": "s", "path": f"{n}.png", "width": 1, "height": 1,
             "notes": None} for n in range(10)]  # fmt: skip
    write_table(tmp_path / "images.parquet", rows, "images")
    for name, faults in UNUSABLE.items():
        table = [{"image_id": f"id{n}", "pipeline": pipeline, "fault": fault} for n, pipeline, fault in faults]
        write_table(tmp_path / name / "unusable.parquet", table, "unusable", {MADE_FROM: f"captions of {name}"})

    def run(*captioners, pipelines=PIPELINES, trained_on=True):
        out = tmp_path / "selection"
        select.main([
            "--spec", json.dumps({"pipelines": pipelines, "trained_on": trained_on}),
            "--pool", str(tmp_path / "images.parquet"),
            "--unusable", *(str(tmp_path / name / "unusable.parquet") for name in captioners),
            "--out-dir", str(out), "--counts", str(out / "counts.csv"),
        ])  # fmt: skip
        return out

    return run


def test_an_image_is_left_out_where_any_captioner_fails_on_it(selected):
    out = selected(*UNUSABLE)
    rows = {name: read_table(out / f"{name}.parquet", "selection") for name in PIPELINES}
    found = {name: list(table.itertuples(index=False, name=None)) for name, table in rows.items()}
    assert found == {
        "clip-llama": [("id1", "late", "failed"), ("id2", "late", "too_long"), ("id9", "late", "cut"),
                       ("id2", "early", "repetition")],
        "siglip-qwen3": [("id1", "late", "failed"), ("id2", "late", "too_long"), ("id9", "late", "cut"),
                         ("id2", "early", "repetition"), ("id3", "early", "too_long")],
        "sd3": [("id1", "late", "failed"), ("id2", "early", "repetition")],
    }  # fmt: skip
    assert left_out(out / "siglip-qwen3.parquet") == {"id1", "id2", "id3", "id9"}


def test_what_the_intersection_costs_each_captioner_is_counted(selected):
    counts = read_table(selected(*UNUSABLE) / "counts.csv", "selection_counts").set_index(["pipeline", "captioner"])
    told = counts[["num_images", "num_own", "num_alone", "num_any"]].agg(tuple, axis=1).to_dict()
    assert told == {
        ("clip-llama", "late"): (10, 3, 2, 3),
        ("clip-llama", "early"): (10, 1, 0, 3),
        ("clip-llama", "perfect"): (10, 0, 0, 3),
        ("siglip-qwen3", "late"): (10, 3, 2, 4),
        ("siglip-qwen3", "early"): (10, 2, 1, 4),
        ("siglip-qwen3", "perfect"): (10, 0, 0, 4),
        ("sd3", "late"): (4, 1, 1, 2),
        ("sd3", "early"): (4, 1, 1, 2),
        ("sd3", "perfect"): (4, 0, 0, 2),
    }
    late = counts.loc["clip-llama", "late"]
    assert (late.num_failed, late.num_cut, late.num_too_long, late.num_repetition) == (1, 1, 1, 0)


def test_one_captioner_alone_loses_its_own_images_only(selected):
    out = selected("early")
    assert left_out(out / "clip-llama.parquet") == {"id2"}
    assert left_out(out / "siglip-qwen3.parquet") == {"id2", "id3"}


def test_nothing_left_says_who_costs_how_much(selected):
    message = (
        "sd3: none of its 2 images has a usable caption by every captioner; take out one or set captioning.train_on "
        "to own\n  late costs 1, 1 of them alone\n  early costs 0, 0 of them alone\n  broken costs 1, 1 of them alone"
    )
    folder = selected(*UNUSABLE).parent
    table = [{"image_id": "id0", "pipeline": None, "fault": "refusal"}]
    write_table(folder / "broken" / "unusable.parquet", table, "unusable", {MADE_FROM: "broken"})
    with pytest.raises(UserError, match=message):
        selected("late", "early", "broken", pipelines={"sd3": 2})
    out = selected("late", "early", "broken", pipelines={"sd3": 2}, trained_on=False)
    assert read_table(out / "counts.csv", "selection_counts").num_any.tolist() == [2] * 3


def test_a_growing_table_is_there_whole_or_not_at_all(tmp_path):
    row = {"image_id": "id0", "pipeline": None, "fault": "cut"}
    with growing_table(tmp_path / "a.parquet", "unusable", {"key": "value"}) as add:
        add([row, row])
        assert not (tmp_path / "a.parquet").exists()
        add([])
        add([row])
    assert read_table(tmp_path / "a.parquet", "unusable")["fault"].tolist() == ["cut"] * 3
    with pytest.raises(RuntimeError), growing_table(tmp_path / "b.parquet", "unusable") as add:
        add([row])
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


@pytest.fixture
def compared(tmp_path):
    """`selections.main` on two captioners' models, of which `late`'s was trained without one image more."""
    captions = tmp_path / "captions.json"
    write_json(captions, {})
    now = dict.fromkeys(["id1", "id2"], "cut")
    save_selection(tmp_path / "selection" / "intersection" / "clip.parquet", captions, now)
    for captioner, then in (("late", now | {"id3": "cut"}), ("early", now)):
        folder = tmp_path / "understanding" / "clip" / "seed-0" / captioner
        save_selection(folder / "selection.parquet", captions, then)

    def run(limit):
        trained_on = {"objective": "understanding", "num_images": 12, "selection": "intersection/clip.parquet"}
        job = CompareSelectionsJob(
            captioners=["early", "late"], pipelines={"clip": trained_on}, seeds=[0], max_images_apart=limit
        )
        out = tmp_path / "apart.csv"
        selections.main(["--spec", job.model_dump_json(), "--results", str(tmp_path), "--out", str(out)])
        return read_table(out, "selections_apart")

    return run


def test_models_of_a_slightly_other_selection_are_listed(compared):
    table = compared(0.1)
    assert table.captioner.tolist() == ["early", "late"]
    assert table.num_apart.tolist() == [0, 1]
    assert table.share_apart.tolist() == [0, 1 / 10], "of the ten images that one of the two keeps"


def test_models_of_another_selection_stop_with_what_trains_them_again(compared, tmp_path):
    with pytest.raises(UserError) as caught:
        compared(0.0999)
    model = tmp_path / "understanding/clip/seed-0/late/model.json"
    assert "late, clip, seed 0: 1 images apart (10.00%)" in str(caught.value)
    assert str(caught.value).endswith(f"--forcerun {model}")


def test_scores_that_were_passed_over_stop_the_sweep(tmp_path):
    """Snakemake does not look at jobs behind an `ancient` file that is remade: see `settle_selection`."""
    model, scores, table = (tmp_path / name for name in ("model.json", "scores.csv", "late.csv"))
    for path in (model, scores, table):
        path.write_text("made")
    spec = {"captioner": "late", "made_with": {str(model): "x"}, "subjects": [{"path": str(scores)}]}
    write_run_record(table, spec)
    as_made = {"late": fingerprint(spec)}
    for age, path in enumerate((table, scores, model)):
        os.utime(path, (1e9 - age, 1e9 - age))
    sweep.check_up_to_date([table], as_made)
    with pytest.raises(UserError, match=r"repeat your snakemake command\n.*late.csv: collected from models of other"):
        sweep.check_up_to_date([table], {"late": "another"})
    os.utime(model, (1e9 + 1, 1e9 + 1))
    with pytest.raises(UserError, match=r"late.csv: older than .*model.json"):
        sweep.check_up_to_date([table], as_made)
    scores.unlink()
    with pytest.raises(UserError, match=r"scores.csv is missing"):
        sweep.check_up_to_date([table], as_made)
