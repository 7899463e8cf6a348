"""From two captioners' captions to training: whatever they say, models are trained on the same images, alike."""

import json

import pytest
import torch
from t2i_world import MAX_TEXT_TOKENS, save_base, save_captions, save_pool, training
from test_captions_statistics import reader
from vlm_helpers import align_spec, indexed, make_base, make_conversations

from workflow_scripts.captions import select, statistics
from workflow_scripts.files import read_run_record
from workflow_scripts.plan import CaptionStatisticsJob
from workflow_scripts.records import read_table
from workflow_scripts.t2i import finetune, flow, latents
from workflow_scripts.vlm import align, batches, train

NUM_IMAGES = 12
LONG = "topleft large red circle topright small blue ring " * 4
CAPTIONS = {
    "wordy": {0: {"caption": LONG}, 3: {"error": "cut"}, 5: {"caption": None, "error": "engine: out of memory"}},
    "terse": {n: {"caption": f"on {('black', 'gray')[n % 2]}"} for n in range(NUM_IMAGES)} | {7: {"caption": " "}},
}
LOST = {"vlm": {0, 3, 5, 7}, "sd3": {3, 5, 7}, "qwen-image": {3, 5, 7}}  # only a language model leaves out the long one


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Pool, captions and their statistics of both captioners, the selection by both."""
    folder = tmp_path_factory.mktemp("world")
    pool = save_pool(folder / "pool", NUM_IMAGES)
    image_ids = read_table(pool, "images")["image_id"].tolist()
    readers = {"vlm": reader("vlm").model_copy(update={"max_tokens": 24})}
    readers |= {family: reader(family) for family in ("sd3", "qwen-image")}
    for name, changes in CAPTIONS.items():
        captions = save_captions(folder / name, image_ids, changes)
        job = CaptionStatisticsJob(captioner=name, pipelines=readers)
        outputs = {f"--{table}": folder / name / f"{table}.csv" for table in ("limits", "lengths")}
        outputs |= {"--out": folder / name / "statistics.csv", "--unusable": folder / name / "unusable.parquet"}
        words = [str(word) for pair in outputs.items() for word in pair]
        statistics.main(["--spec", job.model_dump_json(), "--captions", str(captions), *words])
    select.main([
        "--spec", json.dumps({"pipelines": dict.fromkeys(readers, NUM_IMAGES), "trained_on": True}),
        "--pool", str(pool), "--unusable", *(str(folder / name / "unusable.parquet") for name in CAPTIONS),
        "--out-dir", str(folder / "selection"), "--counts", str(folder / "selection" / "counts.csv"),
    ])  # fmt: skip
    return folder, pool, image_ids


def given(folder, name, pipeline):
    out = folder / pipeline / name
    return out, [
        "--captions", str(folder / name / "captions.json"),
        "--selection", str(folder / "selection" / f"{pipeline}.parquet"),
        "--kept-selection", str(out / "selection.parquet"),
        "--out", str(out / "model.json"), "--log-table", str(out / "training.csv"),
    ]  # fmt: skip


def check_record(world, out, pipeline):
    _, _, image_ids = world
    lost = {image_ids[n] for n in LOST[pipeline]}
    assert read_run_record(out / "model.json")["selection"]["num_left_out"] == len(lost)
    assert set(read_table(out / "selection.parquet", "selection")["image_id"]) == lost


def test_vision_language_models_see_the_same_images_in_the_same_order(world, monkeypatch):
    folder, pool, image_ids = world
    base, data = make_base(folder / "base"), make_conversations(folder / "data", 6)
    start = folder / "align"
    conversations = indexed(align_spec(base, data))
    align.main([
        "--spec", json.dumps(align_spec(base, data, steps=1)), *conversations, "--out", str(start / "model.json"),
        "--log-table", str(start / "training.csv"),
    ])  # fmt: skip
    spec = align_spec(base, data, steps=None)
    spec["stage"] |= {
        "caption_instruction": "describe",
        "max_caption_tokens": 40,
        "epochs": 2,
        "questions_from_captions": True,
    }
    seen: dict[str, list] = {}
    collate = batches.Batches.__call__
    for name in CAPTIONS:
        seen[name] = []

        def watched(self, samples, name=name):
            seen[name] += [(sample.key, sample.images) for sample in samples]
            return collate(self, samples)

        monkeypatch.setattr(batches.Batches, "__call__", watched)
        out, words = given(folder, name, "vlm")
        model = ["--start", str(start / "model.json"), "--pool", str(pool)]
        train.main(["--spec", json.dumps(spec), *model, *conversations, *words])
        check_record(world, out, "vlm")
    assert seen["wordy"] == seen["terse"]
    kept = {f"caption:{image}" for n, image in enumerate(image_ids) if n not in LOST["vlm"]}
    assert {key for key, _ in seen["terse"] if key.startswith("caption:")} == kept
    assert len(seen["terse"]) == 44, "two passes over 8 captions, 8 times questions and 6 conversations"


@pytest.mark.parametrize("family", ["sd3", "qwen-image"])
def test_text_to_image_models_see_the_same_images_with_the_same_noise(world, family, monkeypatch):
    folder, pool, image_ids = world
    base, shared = save_base(family, folder / f"{family}-base"), folder / f"{family}-latents.json"
    spec = {"family": family, "model": {"path": str(base)}, "num_images": NUM_IMAGES, "resolution": 32}
    latents.main(["--spec", json.dumps(spec), "--pool", str(pool), "--out", str(shared)])
    spec |= {"seed": 0, "max_text_tokens": MAX_TEXT_TOKENS[family], "training": training(caption_dropout=0.2)}
    seen: dict[str, list] = {}
    read = flow.Visits.__getitem__
    for name in CAPTIONS:
        seen[name] = []

        def watched(self, visit, name=name):
            made = read(self, visit)
            numbers = torch.cat([made[part].flatten() for part in ("latents", "noise", "sigma")])
            seen[name].append((visit, self.latents.image_ids[int(self.order[visit])], made["labels"], numbers.tolist()))
            return made

        monkeypatch.setattr(flow.Visits, "__getitem__", watched)
        out, words = given(folder, name, family)
        finetune.main(["--spec", json.dumps(spec), "--latents", str(shared), *words])
        check_record(world, out, family)
    assert seen["wordy"] == seen["terse"]
    not_counted = {image for _, image, label, _ in seen["terse"] if label == flow.IGNORED}
    assert not_counted == {image_ids[n] for n in LOST[family]}


def test_by_its_own_captions_alone_each_is_trained_on_other_images(world):
    """What the intersection is for: without it images and their number follow from who captions."""
    folder, _, image_ids = world
    table = read_table(folder / "selection" / "vlm.parquet", "selection")
    own = {name: set(rows["image_id"]) for name, rows in table.groupby("captioner")}
    assert own == {"wordy": {image_ids[n] for n in (0, 3, 5)}, "terse": {image_ids[7]}}
    counts = read_table(folder / "selection" / "counts.csv", "selection_counts").set_index(["pipeline", "captioner"])
    assert counts.loc[("vlm", "wordy"), ["num_too_long", "num_cut", "num_failed", "num_any"]].tolist() == [1, 1, 1, 4]
    assert counts.loc[("sd3", "terse"), ["num_empty", "num_own", "num_any"]].tolist() == [1, 1, 3]
