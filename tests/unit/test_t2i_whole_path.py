"""From captions to the scores of all three generation benchmarks, with real classes at tiny size."""

import json

import pytest
from generation_data import write_benchmarks
from opened_scorers import TINY
from selections import save_selection
from t2i_world import MAX_TEXT_TOKENS, save_base, save_captions, save_pool, training

from workflow_scripts.benchmarks.generation import canaries
from workflow_scripts.benchmarks.generation.roles import MODELS
from workflow_scripts.errors import UserError
from workflow_scripts.records import read_table
from workflow_scripts.t2i import finetune, generate, latents, score

PICTURES = 2  # a prompt
CATEGORIES = {"geneval": 2, "dpg_bench": 0, "t2i_compbench": 8}


@pytest.fixture(scope="module")
def scorers(root, scorer_folders):
    """The models of each benchmark by role, as the config names them; random, but for the one that answers."""
    made = {role: {"through": through, "path": str(scorer_folders[role])} for role, (through, _) in TINY.items()}
    made["answers"] = {"through": "transformers", "path": str(root / "resources/blocks/captioner-late")}
    return {name: {role: made[role] for role in roles} for name, roles in MODELS.items()}


@pytest.fixture(scope="module", params=["sd3", "qwen-image"])
def trained(request, tmp_path_factory):
    """(family and base as in a spec, manifest of the transformer that was trained on captions)"""
    folder, family = tmp_path_factory.mktemp(request.param), request.param
    base, pool = save_base(family, folder / "base"), save_pool(folder / "pool", 8)
    common = {"family": family, "model": {"path": str(base)}, "resolution": 32}
    spec = json.dumps({**common, "num_images": 8})
    latents.main(["--spec", spec, "--pool", str(pool), "--out", str(folder / "latents.json")])
    captions = save_captions(folder / "captions", latents.Latents(folder / "latents.json").image_ids)
    common["max_text_tokens"] = MAX_TEXT_TOKENS[family]
    spec = json.dumps({**common, "num_images": 8, "seed": 0, "training": training(steps=3)})
    selection = save_selection(folder / "given.parquet", captions)
    files = ["--latents", str(folder / "latents.json"), "--captions", str(captions), "--selection", str(selection)]
    files += ["--kept-selection", str(folder / "selection.parquet")]
    out = ["--out", str(folder / "model.json"), "--log-table", str(folder / "training.csv")]
    finetune.main(["--spec", spec, *files, *out])
    return common, folder / "model.json"


def measure(trained, name, data, models, folder):
    """Pictures and their scores: the tables `benchmark_scores` and `picture_scores`."""
    common, manifest = trained
    making = {"steps": 2, "guidance": 1.0, "precision": "fp32"}
    spec = {**common, "name": name, "prompts": str(data), "images_per_prompt": PICTURES, **making}
    pictures = folder / "pictures.parquet"
    generate.main(["--spec", json.dumps({**spec, "noise_seed": 0}), "--model", str(manifest), "--out", str(pictures)])
    spec = {"name": name, "benchmark": {"path": str(data), "images_per_prompt": PICTURES, "models": models}}
    out = ["--out", str(folder / "scores.csv"), "--per-picture", str(folder / "picture_scores.parquet")]
    score.main(["--spec", json.dumps(spec), "--pictures", str(pictures), *out])
    return read_table(folder / "scores.csv", "benchmark_scores"), read_table(out[-1], "picture_scores")


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MODELS))
def test_from_captions_to_scores(trained, scorers, tmp_path, monkeypatch, name):
    """Random models see no canary: that they stop the run is tested first, then they are let through."""
    data = write_benchmarks(tmp_path / "data")[name]
    with pytest.raises(UserError, match=f"{name}: the model .* does not see what a test picture shows"):
        measure(trained, name, data, scorers[name], tmp_path / "stopped")
    monkeypatch.setattr(canaries, "require", lambda *_: None)
    scores, pictures = measure(trained, name, data, scorers[name], tmp_path / "made")
    (headline,) = scores[scores.variant.isna()].itertuples()
    assert headline.num_items == len(pictures) and 0 <= headline.score <= 100
    assert set(pictures.category) <= {*scores.variant.dropna(), "dpg"}
    assert scores.variant.dropna().isin(set(pictures.category)).sum() == CATEGORIES[name]
    assert not scores.comparable.any()  # neither whole nor by the authors' models
    seen = [json.loads(text) for text in pictures.seen]
    assert all(seen) if name != "geneval" else all("detections" in one for one in seen)
    assert (tmp_path / "made/official").is_dir()
