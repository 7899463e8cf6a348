"""The models behind the scores, one module each: what fills a role of `roles`, and how the scores' table calls it.

    models = open_models("geneval", benchmark.models, batch=16)
    models["instances"].detect(pictures)

Models of transformers run in float32, on the GPU where there is one. What a picture gets does not depend on `batch`,
but for rounding.
"""

import importlib
from pathlib import Path
from typing import Any

from workflow_scripts.benchmarks.generation import compbench_parsing
from workflow_scripts.benchmarks.generation.roles import MODELS
from workflow_scripts.plan import ServingJob
from workflow_scripts.spec import ScorerModel

# role and `through` -> module of this package and its class
_CLASSES = {
    ("instances", "mask2former"): ("mask2former", "InstanceDetector"),
    ("colors", "clip"): ("clip", "ColorClassifier"),
    ("answers", "modelscope"): ("modelscope", "QuestionAnswerer"),
    ("answers", "vllm"): ("engine", "QuestionAnswerer"),
    ("answers", "transformers"): ("engine", "QuestionAnswerer"),
    ("attributes", "blip"): ("blip", "YesProbability"),
    ("objects", "unidet"): ("unidet", "ObjectDetector"),
    ("objects", "owlv2"): ("owlv2", "ObjectDetector"),
    ("depth", "dpt"): ("dpt", "DepthEstimator"),
    ("similarity", "clip"): ("clip", "TextSimilarity"),
}


def open_models(
    benchmark: str, models: dict[str, ScorerModel], batch: int, serving: ServingJob | None = None
) -> dict[str, Any]:
    """What fills each role of a benchmark, as the protocols of `roles`; `models` are local folders.

    Each sees up to `batch` pictures at once. `serving` is for a model behind an engine, by default all GPUs. Raises
    UserError for a folder that is not there or holds something else, and for a package that is not installed.
    """
    opened = {}
    for role in MODELS.get(benchmark, {}):
        module, name = _CLASSES[role, models[role].through]
        opened[role] = getattr(importlib.import_module(f"{__name__}.{module}"), name)(models[role], batch, serving)
    return opened


def close_models(models: dict[str, Any]) -> None:
    """Let go of what models hold beside memory: an engine has processes of its own."""
    for model in models.values():
        if hasattr(model, "close"):
            model.close()


def harness(benchmark: str, models: dict[str, ScorerModel]) -> str:
    """What scores a benchmark, for table `benchmark_scores`: each role's model, and what reads the prompts."""
    if benchmark not in MODELS:
        return "capsweep: exact detector"
    told = [f"{role} {_name(models[role].path)} through {models[role].through}" for role in MODELS[benchmark]]
    if benchmark == "t2i_compbench":
        told.append(f"prompts {compbench_parsing.parser_name()}")
    return "capsweep: " + ", ".join(told)


def comparable(benchmark: str, models: dict[str, ScorerModel]) -> bool:
    """Whether the authors' models score a benchmark, and read its prompts. A local folder is what it is called."""
    if benchmark == "t2i_compbench" and not compbench_parsing.has_spacy():
        return False
    return all(
        _name(models[role].path).split("/")[-1] == ways[models[role].through].official.split("/")[-1]
        for role, ways in MODELS.get(benchmark, {}).items()
    )


def _name(folder: Path) -> str:
    """A fetched folder's name on the hub, another folder's last part."""
    return folder.name.replace("--", "/", 1)
