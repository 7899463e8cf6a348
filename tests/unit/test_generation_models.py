"""What the models behind the scores are called, and what opening the wrong one says."""

from pathlib import Path

import pytest

from workflow_scripts.benchmarks.generation import compbench_parsing
from workflow_scripts.benchmarks.generation.models import comparable, harness
from workflow_scripts.config import load_config
from workflow_scripts.plan import score_environment, score_images_job
from workflow_scripts.spec import ScorerModel


def models(**roles) -> dict[str, ScorerModel]:
    return {role: ScorerModel(through=through, path=path) for role, (through, path) in roles.items()}


GENEVAL = {
    "instances": ("mask2former", "assets/facebook--mask2former-swin-small-coco-instance"),
    "colors": ("clip", "assets/openai--clip-vit-large-patch14"),
}
MMDETS = "models/mask2former_swin-s-p4-w7-224_lsj_8x2_50e_coco"
COMPBENCH = {
    "attributes": ("blip", "assets/Salesforce--blip-vqa-capfilt-large"),
    "objects": ("unidet", "models/UniDet_eval"),
    "depth": ("dpt", "assets/Intel--dpt-hybrid-midas"),
    "similarity": ("clip", "assets/openai--clip-vit-base-patch32"),
}


def test_a_score_names_its_models():
    assert harness("geneval", models(**GENEVAL)) == (
        "capsweep: instances facebook/mask2former-swin-small-coco-instance through mask2former, "
        "colors openai/clip-vit-large-patch14 through clip"
    )
    assert harness("dpg_bench", models(answers=("vllm", "models/my-vlm"))) == ("capsweep: answers my-vlm through vllm")


def test_a_score_names_what_read_its_prompts(monkeypatch):
    monkeypatch.setattr(compbench_parsing, "has_spacy", lambda: False)
    assert harness("t2i_compbench", models(**COMPBENCH)).endswith(", prompts by closed classes of words")
    monkeypatch.setattr(compbench_parsing, "has_spacy", lambda: True)
    monkeypatch.setattr("importlib.metadata.version", lambda package: "3.8.0")
    assert harness("t2i_compbench", models(**COMPBENCH)).endswith(", prompts spacy 3.8.0 en_core_web_sm 3.8.0")


@pytest.mark.parametrize(
    ("benchmark", "roles", "as_published"),
    [
        ("geneval", GENEVAL | {"instances": ("mask2former", MMDETS)}, True),
        ("geneval", GENEVAL, False),
        (
            "geneval",
            {"instances": ("mask2former", MMDETS), "colors": ("clip", "assets/openai--clip-vit-base-patch32")},
            False,
        ),
        ("dpg_bench", {"answers": ("modelscope", "models/mplug_visual-question-answering_coco_large_en")}, True),
        ("dpg_bench", {"answers": ("modelscope", "models/another")}, False),
        ("dpg_bench", {"answers": ("vllm", "assets/Qwen--Qwen2.5-VL-7B-Instruct")}, False),
        ("t2i_compbench", COMPBENCH, False),
        ("t2i_compbench", COMPBENCH | {"objects": ("owlv2", "assets/google--owlv2-base-patch16-ensemble")}, False),
    ],
)
def test_only_the_authors_models_make_comparable_scores(monkeypatch, benchmark, roles, as_published):
    monkeypatch.setattr(compbench_parsing, "has_spacy", lambda: True)
    assert comparable(benchmark, models(**roles)) == as_published
    monkeypatch.setattr(compbench_parsing, "has_spacy", lambda: False)
    assert comparable(benchmark, models(**roles)) == (as_published and benchmark != "t2i_compbench")


def test_a_job_has_its_models_as_folders(root):
    config = load_config(root / "config.yaml")
    job = score_images_job(config, "geneval")
    assert {role: model.path for role, model in job.benchmark.models.items()} == {
        "instances": Path("assets/facebook--mask2former-swin-small-coco-instance"),
        "colors": Path("assets/openai--clip-vit-large-patch14"),
    }
    assert [score_environment(config, name) for name in ("geneval", "dpg_bench")] == ["evaluate", "serve"]
