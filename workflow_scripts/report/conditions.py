"""What was run: captioners, pool, judge and pipelines, from the run records of what was really made."""

from pathlib import Path
from typing import Any

from workflow_scripts.files import read_run_record
from workflow_scripts.report.sweep import Sweep

Data = dict[str, Any]


ASKED = ("vllm", "transformers", "server")  # engines that read a prompt


def what_was_run(sweep: Sweep) -> Data:
    """The settings of the sweep, as (name, value) pairs a part. Raises UserError where a run record is absent."""
    first = sweep.captioners[0]
    specs = {name: read_run_record(sweep.capeval_file(name, "captions.parquet"))["spec"] for name in sweep.captioners}
    judged = read_run_record(sweep.capeval_file(first, "verdicts.parquet"))["spec"]
    scored = read_run_record(sweep.capeval_file(first, "scores.csv"))["spec"]
    pool = read_run_record(sweep.results / "pool/images.parquet")["spec"]
    prompts = list(dict.fromkeys(spec["prompt"] for spec in specs.values() if spec["engine"]["engine"] in ASKED))
    return {
        "captioners": [
            {"label": sweep.label(name), "family": sweep.design.family[name], **_captioner(spec, prompts)}
            for name, spec in specs.items()
        ],
        "prompts": prompts,
        "facts": [
            ("Pool", f"{pool['size']:,} images from {', '.join(pool['sources'])}, seed {pool['seed']}"),
            ("Judge", _judge(judged, scored)),
            ("Training seeds", ", ".join(map(str, sweep.job.analysis.seeds))),
        ],
        "pipelines": [{"name": name, "facts": _pipeline(sweep, name, first)} for name in sweep.pipelines()],
    }


def name_of(source: Data | None) -> str:
    """A model or data set by its repository or folder."""
    if source is None:
        return "none"
    return source["hub"] or Path(source["path"]).name.replace("--", "/")


def _captioner(spec: Data, prompts: list[str]) -> Data:
    engine = spec["engine"]
    if engine["engine"] == "exact":
        dial = engine["dial"]
        made = f"facts of the image, {dial['drop']:.0%} dropped, {dial['falsify']:.0%} falsified"
        return {"engine": "exact", "model": made, "sampling": f"seed {dial['seed']}", "prompt": None}
    if engine["engine"] == "replay":
        file = Path(engine["replay"]["file"]).name
        return {"engine": "replay", "model": file, "sampling": "as in the file", "prompt": None}
    return {
        "engine": engine["engine"],
        "model": engine["server_model"] or name_of(engine["model"]),
        "sampling": f"{_sampling(spec['sampling'])}; at most {spec['max_new_tokens']:,} tokens",
        "prompt": spec["prompt"] if len(prompts) > 1 else None,
    }


def _sampling(sampling: Data) -> str:
    if sampling["temperature"] == 0:
        return "greedy"
    unlike_default = {"top_p": 1.0, "top_k": 0, "presence_penalty": 0.0}
    more = [
        f"{key.replace('_', '-')} {sampling[key]}" for key, usual in unlike_default.items() if sampling[key] != usual
    ]
    return ", ".join([f"temperature {sampling['temperature']}", *more])


def _judge(judge: Data, scored: Data) -> str:
    engine = judge["engine"]
    who = "exact (parses the caption)"
    if engine["engine"] != "exact":
        who = f"{engine['server_model'] or name_of(engine['model'])} under {engine['engine']}"
        who += f", prompt version {judge['prompt_version']}"
    votes = f"{judge['votes']} vote" + "s" * (judge["votes"] > 1)
    missing = scored["missing_verdict"].replace("_", " ")
    return (
        f"{who}, {votes} an item; an item without a verdict is {missing}; "
        f"{scored['confidence']:.0%} intervals from {scored['resamples']:,} bootstrap resamples of images"
    )


def _pipeline(sweep: Sweep, pipeline: str, captioner: str) -> list[tuple[str, str]]:
    settings = sweep.job.analysis.pipelines[pipeline]
    folder = sweep.model_folder(pipeline, sweep.job.analysis.seeds[0], captioner)
    spec = read_run_record(folder / "model.json")["spec"]
    benchmarks = ("Benchmarks", ", ".join(settings.benchmarks))
    if settings.objective == "understanding":
        model, stage = spec["model"], spec["stage"]
        parts = [model["base"]] if model["base"] else [model["vision"], model["language"]]
        return [
            ("Model", " + ".join(map(name_of, parts))),
            ("Stage 2", f"{_training(stage)}; learns {', '.join(stage['train'])}"),
            benchmarks,
        ]
    made = read_run_record(folder / settings.benchmarks[0] / "pictures.parquet")["spec"]
    size = f"{spec['resolution']} px" + (" or sizes of about that area" if spec["aspect"] == "buckets" else "")
    return [
        ("Model", f"{name_of(spec['model'])} ({spec['family']})"),
        ("Fine-tuning", f"{spec['num_images']:,} images at {size}; {_training(spec['training'])}"),
        ("Pictures", f"{made['steps']} steps, guidance {made['guidance']:g}"),
        benchmarks,
    ]


def _training(stage: Data) -> str:
    length = (
        f"{stage['steps']:,} steps" if stage["steps"] else f"{stage['epochs']:g} epoch" + "s" * (stage["epochs"] != 1)
    )
    return (
        f"{length} of {stage['global_batch']}, learning rate {stage['learning_rate']:g} ({stage['schedule']}), "
        f"{stage['precision']}"
    )
