"""The generation benchmarks from pictures to scores, with doubles for the models: what is asked, kept, resumed."""

import json

import numpy as np
import pytest
from generation_data import COMPBENCH, QUESTIONS, write_benchmarks
from PIL import Image
from told_models import ToldModels

from workflow_scripts.benchmarks.generation.base import read_prompts
from workflow_scripts.benchmarks.generation.roles import MODELS, Detection
from workflow_scripts.errors import UserError
from workflow_scripts.records import read_table, write_table
from workflow_scripts.t2i import score
from workflow_scripts.t2i.benchmarks import GENERATION


@pytest.fixture
def data(tmp_path):
    """A folder with each benchmark's own shape."""
    write_benchmarks(tmp_path)
    return tmp_path


def draw(data, name, images_per_prompt=2):
    """Pictures of one colour each: (prompt's number, picture's number, 9)."""
    rows = []
    for number, prompt in enumerate(read_prompts(GENERATION[name], data / name)):
        for index in range(images_per_prompt):
            path = data / "made" / f"{prompt.id}-{index}.png"
            path.parent.mkdir(exist_ok=True)
            Image.new("RGB", (8, 8), (number, index, 9)).save(path)
            row = {"benchmark": name, "prompt_id": prompt.id, "index": index, "prompt": prompt.text}
            rows.append({**row, "path": path.name, "noise_seed": 0})
    write_table(data / "made/pictures.parquet", rows, "pictures")


def measure(data, name, monkeypatch, say, mode="official", images_per_prompt=2, double=ToldModels):
    """Scores by variant and pictures' scores, and what the models were asked."""
    models = double(say)
    monkeypatch.setattr(score, "open_models", lambda *_: models.roles)
    settings = {"path": str(data / name), "images_per_prompt": images_per_prompt, "mode": mode}
    settings["models"] = {
        role: {"through": next(iter(ways)), "path": str(data / f"of-{role}")} for role, ways in MODELS[name].items()
    }
    out = {"--out": data / "scores.csv", "--per-picture": data / "picture_scores.parquet"}
    words = [str(word) for pair in out.items() for word in pair]
    spec = json.dumps({"name": name, "benchmark": settings})
    score.main(["--spec", spec, "--pictures", str(data / "made/pictures.parquet"), *words])
    scores = read_table(out["--out"], "benchmark_scores")
    scores["variant"] = scores.variant.fillna("")
    return scores.set_index("variant"), read_table(out["--per-picture"], "picture_scores"), models.asked


def geneval_says(role, picture, asked):
    number, index, _ = picture.getpixel((0, 0))
    if role == "colors":
        return "red" if index == 0 else "blue"
    return [Detection("cow", 0.8, (0, 0, 4, 4))] if (number, index) != (0, 1) else []


def test_geneval(data, monkeypatch):
    draw(data, "geneval")
    scores, pictures, asked = measure(data, "geneval", monkeypatch, geneval_says)
    assert pictures.score.tolist() == [1, 0, 1, 0]
    assert pictures.reason.tolist() == ["", "0 cow, expected 1", "", "cow blue, expected red"]
    assert scores.score.to_dict() == {"": 50, "single_object": 50, "colors": 50}
    assert not scores.comparable.any()  # not the whole benchmark
    assert scores.harness[""].startswith("official rules, capsweep: instances of-instances")
    assert [role for role, *_ in asked].count("colors") == 2  # of the prompt with a colour only
    (seen,) = json.loads(pictures.seen[3])["detections"]
    assert seen == {"label": "cow", "score": 0.8, "box": [0, 0, 4, 4], "color": "blue"}


def dpg_says(role, picture, asked):
    index = picture.getpixel((0, 0))[1]
    return {"Is there a cow?": "yes", "Is the cow red?": "yes" if index else "no"}.get(asked, "no" if index else "yes")


def test_dpg_bench(data, monkeypatch):
    draw(data, "dpg_bench")
    scores, pictures, _ = measure(data, "dpg_bench", monkeypatch, dpg_says)
    assert pictures.score.tolist() == [0.5, 1, 1, 0]
    assert scores.score[""] == pytest.approx(100 * 2.5 / 4)
    # by category: the last tile alone, in official mode
    assert scores.score["attribute"] == scores.score["attribute - color"] == 100
    assert scores.score["entity"] == pytest.approx(100 / 3) and scores.num_items["entity"] == 3
    assert json.loads(pictures.seen[0]) == {"answers": {"1": "yes", "2": "no"}}
    fixed, _, _ = measure(data, "dpg_bench", monkeypatch, dpg_says, mode="fixed")
    assert fixed.score["entity"] == pytest.approx(100 * 4 / 6) and fixed.num_items["entity"] == 6
    assert fixed.harness[""].startswith("fixed rules")


def compbench_says(role, picture, asked):
    number = picture.getpixel((0, 0))[0]
    if role == "attributes":
        return {"a red cow?": 0.5, "a green cup?": 0.5, "The red cow?": 0.25, "the green cup?": 1.0}.get(asked, 0.9)
    if role == "similarity":
        return 0.3
    if role == "depth":
        return np.linspace(1, 0, 64).reshape(8, 8)  # nearer above
    if number == 5:
        return [Detection("cow", 0.9, (9 * n, 0, 9 * n + 3, 3)) for n in range(2)]
    return [Detection("cow", 1.0, (0, 0, 4, 4)), Detection("cup", 1.0, (5, 0, 8, 4))]


def test_t2i_compbench(data, monkeypatch):
    draw(data, "t2i_compbench", 1)
    scores, pictures, asked = measure(data, "t2i_compbench", monkeypatch, compbench_says, images_per_prompt=1)
    of = pictures.set_index("category").score
    assert of["color"] == 0.25 and of["shape"] == of["texture"] == 0.81
    assert of["spatial"] == 1.0  # both seen for sure, the cow on the left
    assert of["3d_spatial"] == 0.5  # both seen, no overlap
    assert of["numeracy"] == 0.5  # two cows and no cup
    assert of["non_spatial"] == 0.3
    assert of["complex"] == pytest.approx((0.25 + 1.0) / 2)
    assert scores.score[""] == pytest.approx(100 * of.mean())
    assert set(scores.index) == {"", *COMPBENCH}
    names = {picture[0]: some for role, picture, some in asked if role == "objects"}
    assert names == {3: ("cow", "cup"), 4: ("cow", "cup"), 5: ("cow", "cup"), 7: ("cow", "cup")}
    assert [some for role, _, some in asked if role == "similarity"] == ["a farmer milks a cow"]
    assert [some for role, _, some in asked if role == "depth"] == [(8, 8)]


def test_a_model_that_sees_nothing_stops_before_any_score(data, monkeypatch):
    draw(data, "geneval")

    class Blind(ToldModels):
        def detect(self, pictures, names=None):
            return [[] for _ in pictures]

    with pytest.raises(UserError, match=r"geneval: the model .*/of-instances for instances does not see"):
        measure(data, "geneval", monkeypatch, geneval_says, double=Blind)
    assert not (data / "scores.csv").exists()


def break_off(data, monkeypatch):
    """A run of GenEval that is killed at the second prompt, when the first one's pictures are scored."""
    draw(data, "geneval")
    monkeypatch.setattr(score, "AT_ONCE", 2)

    def breaks_off(role, picture, asked):
        if picture.getpixel((0, 0))[0] == 1:
            raise KeyboardInterrupt
        return geneval_says(role, picture, asked)

    with pytest.raises(KeyboardInterrupt):
        measure(data, "geneval", monkeypatch, breaks_off)


def test_a_killed_run_asks_only_about_what_is_missing(data, monkeypatch):
    break_off(data, monkeypatch)
    scores, pictures, asked = measure(data, "geneval", monkeypatch, geneval_says)
    assert {picture for _, picture, _ in asked} == {(1, 0, 9), (1, 1, 9)}
    assert pictures.score.tolist() == [1, 0, 1, 0] and scores.score[""] == 50
    assert not list((data / "picture_scores").iterdir())  # nothing stays behind


def test_scores_of_an_edited_benchmark_are_not_mixed(data, monkeypatch):
    """The prompt stands, what it asks for is another: what a killed run left is of no use."""
    break_off(data, monkeypatch)
    path = data / "geneval/evaluation_metadata.jsonl"
    path.write_text(path.read_text().replace('"count": 1', '"count": 2', 1))
    _, pictures, _ = measure(data, "geneval", monkeypatch, geneval_says)
    assert pictures.reason[0] == "1 cow, expected 2" and pictures.score.tolist() == [0, 0, 1, 0]


def test_an_item_that_official_scoring_drops_is_counted(data, monkeypatch):
    draw(data, "dpg_bench")
    lines = QUESTIONS.splitlines(keepends=True)
    (data / "dpg_bench/dpg_bench.csv").write_text(lines[0] + "".join(lines[2:]))  # item 7's first question is not read
    scores, pictures, _ = measure(data, "dpg_bench", monkeypatch, dpg_says)
    assert pictures.score.isna().tolist() == [True, True, False, False]
    assert (scores.num_items[""], scores.num_unparsed[""]) == (4, 2)
    assert "question 2 depends on question 1" in pictures.reason[0]
