"""Models behind the generation scores that other programs run: an engine, ModelScope, UniDet's package."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from opened_scorers import PICTURES
from PIL import Image

from workflow_scripts.benchmarks.generation.models import (
    engine,
    open_models,
    unidet,
)
from workflow_scripts.errors import UserError
from workflow_scripts.spec import ScorerModel


def test_a_model_behind_an_engine_says_one_word(root):
    source = ScorerModel(through="transformers", path=root / "resources/blocks/clip-llama")
    answerer = engine.QuestionAnswerer(source, 4, None)
    asked = [
        (picture.resize((32, 32)), question) for picture in PICTURES[:2] for question in ("is there a circle?", "no?")
    ]
    said = answerer.answers(asked)
    assert len(said) == 4 and all(word == word.lower() and " " not in word for word in said)
    assert said == [answerer.answers([one])[0] for one in asked]


@pytest.mark.parametrize(
    ("text", "word"),
    [("Yes.", "yes"), ("yes, there is", "yes"), ("**No**", "no"), ("Yesterday", "yesterday"), ("", "")],
)
def test_the_first_word_of_an_answer_counts(text, word):
    assert engine.first_word(text) == word


def test_an_answer_that_failed_is_no_answer(root):
    source = ScorerModel(through="transformers", path=root / "resources/blocks/clip-llama")
    answerer = engine.QuestionAnswerer(source, 4, None)
    with pytest.raises(UserError, match=r"dpg_bench: no answer to 'aaaa.*fills max_model_len"):
        answerer.answers([(PICTURES[0].resize((32, 32)), "aaaa " * engine.MAX_MODEL_LEN)])


def test_mplug_is_asked_through_modelscope(tmp_path, monkeypatch):
    source = ScorerModel(through="modelscope", path=tmp_path)
    monkeypatch.setitem(sys.modules, "modelscope", None)
    with pytest.raises(UserError, match=r"needs ModelScope's package.*pip install 'modelscope\[multi-modal\]'"):
        open_models("dpg_bench", {"answers": source}, 4)
    calls = []

    def pipeline(task, model, device):
        calls.append((task, model, device))
        return lambda asked: {"text": "yes" if asked["question"] == "a?" else f"{asked['image'].width}"}

    package = ModuleType("modelscope.pipelines")
    package.pipeline = pipeline
    monkeypatch.setitem(sys.modules, "modelscope", ModuleType("modelscope"))
    monkeypatch.setitem(sys.modules, "modelscope.pipelines", package)
    answerer = open_models("dpg_bench", {"answers": source}, 4)["answers"]
    assert answerer.answers([(PICTURES[0], "a?"), (PICTURES[2], "b?")]) == ["yes", "96"]
    assert calls == [("visual-question-answering", str(tmp_path), "cuda" if torch.cuda.is_available() else "cpu")]


def test_unidet_is_asked_through_its_package(tmp_path, monkeypatch):
    source = ScorerModel(through="unidet", path=tmp_path)
    with pytest.raises(UserError, match=r"detection_features.pt: no such file; UniDet's folder is UniDet_eval"):
        unidet.ObjectDetector(source, 2)
    for name in ("dataset", "experts/expert_weights"):
        (tmp_path / name).mkdir(parents=True)
    torch.save({"labels": ["cow", "picture, frame"]}, tmp_path / "dataset/detection_features.pt")
    (tmp_path / f"experts/expert_weights/{unidet.NAME}.pth").write_bytes(b"")
    with pytest.raises(UserError, match=r"needs detectron2 .*PYTHONPATH=.*experts/obj_detection"):
        unidet.ObjectDetector(source, 2)

    def model(inputs):
        assert all(one["image"].shape == (3, 479, 479) and one["height"] == 479 for one in inputs)
        seen = SimpleNamespace(
            pred_classes=torch.tensor([1, 0]),
            scores=torch.tensor([0.5, 0.25]),
            pred_boxes=SimpleNamespace(tensor=torch.tensor([[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]])),
        )
        return [{"instances": seen}] * len(inputs)

    settings = SimpleNamespace(
        MODEL=SimpleNamespace(ROI_HEADS=SimpleNamespace()), MULTI_DATASET=SimpleNamespace(), merge_from_file=str
    )
    for name, attributes in {
        "detectron2": {},
        "detectron2.config": {"get_cfg": lambda: settings},
        "detectron2.engine": {},
        "detectron2.engine.defaults": {"DefaultPredictor": lambda cfg: SimpleNamespace(model=model)},
        "unidet": {},
        "unidet.config": {"add_unidet_config": lambda cfg: None},
    }.items():
        module = ModuleType(name)
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
    found = unidet.ObjectDetector(source, 2).detect(PICTURES[:3], [[]] * 3)
    assert found[0][0].label == "picture, frame" and found[0][1].box == (4, 5, 6, 7) and len(found) == 3
    assert settings.MODEL.ROI_HEADS.SCORE_THRESH_TEST == 0.1
    red = unidet.prepare(Image.new("RGB", (10, 10), (255, 0, 0)))
    assert red[2].min() == 255 and not red[:2].any()
