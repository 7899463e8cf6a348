"""What each rule needs of the config: one model a rule's `--spec`, and the functions that cut it out of a sweep.

A job depends on what it uses and on nothing else, so that an edit reruns just what it touches. Memory and time are
left out, so are licences, and a hub repository stands as the local folder that it is fetched into, however that is
done. `stage_version` is raised by hand when a stage's code changes its results: GPU stages rerun for that, never for an
edited comment.
"""

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from workflow_scripts.analysis.settings import AnalysisJob, PipelineScores, published_pipelines
from workflow_scripts.assets.lockfile import Lock
from workflow_scripts.capeval.prompt import PROMPT_VERSION
from workflow_scripts.files import canonical_json, fingerprint
from workflow_scripts.report.settings import ReportJob
from workflow_scripts.spec import (
    BASELINES,
    INTERSECTION,
    Captioner,
    CaptionFile,
    Config,
    Dial,
    Judge,
    Kind,
    Needs,
    Optimisation,
    PoolSource,
    Replay,
    Sampling,
    Section,
    Server,
    Serving,
    SftStage,
    Source,
    T2iBenchmark,
    T2iTraining,
    UnderstandingBenchmark,
    VlmModel,
    VlmStage,
)


class FetchJob(Section):
    """Fetch one repository of the hub. `commit` is what the lock pins `revision` to, null where it does not."""

    stage_version: int = 1
    hub: str
    kind: Kind = "model"
    revision: str = "main"
    commit: str | None = None
    files: list[str] = Field([])
    remote_code: str | None = None


class LockJob(Section):
    """Pin repositories: name on the hub, kind and revision of each."""

    repositories: list[tuple[str, Kind, str]]


class LicencesJob(Section):
    """The rows of table `licences`."""

    rows: list[dict[str, str | None]]


class PoolJob(Section):
    """Sample the pool from its sources."""

    stage_version: int = 2
    sources: dict[str, PoolSource]
    size: int
    seed: int


class ReplayFile(CaptionFile):
    """The file of captions that a job reads, and what to do about its faults."""

    on_missing: str = "error"
    on_empty: str = "error"
    on_duplicate: str = "error"
    on_unknown: str = "warn"


class EngineJob(Section):
    """Everything of an engine that decides its answers. How it is served (`Serving`, `Server`) decides nothing."""

    engine: str
    model: Source | None = None
    server_model: str | None = None
    max_model_len: int
    max_pixels: int | None = None
    max_images: int = 1
    chat_template_kwargs: dict[str, bool | int | str] = Field({})
    remote_code: str | None = None
    replay: ReplayFile | None = None
    dial: Dial | None = None


class ServingJob(Section):
    """How an engine runs, given to a command as `--serving`: GPUs, threads, the address of a server."""

    gpus: int = 0
    threads: int = 1
    serving: Serving = Serving()
    server: Server | None = None


class CaptionJob(Section):
    """Caption images with one captioner: the pool's shards, or CAPEval's images (`shard_size` is null then)."""

    stage_version: int = 2
    engine: EngineJob
    prompt: str
    sampling: Sampling
    max_new_tokens: int
    attempts: int
    retry_temperature: float
    shard_size: int | None


class CollectCaptionsJob(Section):
    """Bring one captioner's shards together; captions with the faults in `leave_out` stay out of training."""

    stage_version: int = 1
    captioner: str
    leave_out: list[str]


class TextReader(Section):
    """A pipeline that reads captions: a language model or a text-to-image pipeline's folder, and the longest caption
    in tokens that it takes where a text encoder has no limit of its own."""

    family: Literal["vlm", "sd3", "qwen-image"]
    model: Source
    max_tokens: int


class CaptionStatisticsJob(Section):
    """Measure one captioner's captions."""

    stage_version: int = 1
    captioner: str
    pipelines: dict[str, TextReader]


class SelectJob(Section):
    """Choose the images to train on: how many of the pool's first ones each pipeline looks at. Where `trained_on` is
    false the selection is only reported and may be empty."""

    stage_version: int = 1
    pipelines: dict[str, int]
    trained_on: bool


class JudgeJob(Section):
    """Judge one captioner's captions of CAPEval's images."""

    stage_version: int = 2
    engine: EngineJob
    prompt_version: int = PROMPT_VERSION
    items_per_prompt: int | None = None
    reasoning: bool = True
    sampling: Sampling = Sampling()
    votes: int = 1
    attempts: int = 2
    data: Source


class ScoreCaptionsJob(Section):
    """Coverage and precision of one captioner from its verdicts."""

    stage_version: int = 1
    captioner: str
    data: Source
    missing_verdict: str
    max_unjudged_share: float
    resamples: int
    confidence: float
    seed: int


class BaselinesJob(Section):
    """Captions of CAPEval's images that no captioner wrote."""

    stage_version: int = 1
    data: Source
    seed: int


class ReliabilityJob(Section):
    """Agreement of judgements. `captioners` are all that were judged, baselines too; the other lists are of them."""

    stage_version: int = 1
    captioners: list[str]
    second_judged: list[str]
    retested: list[str]
    labels: Path | None
    data: Source
    resamples: int
    confidence: float
    seed: int


class DiagnoseJob(Section):
    """What the captioners miss and get wrong."""

    stage_version: int = 1
    captioners: list[str]
    data: Source
    num_examples: int = 3


class IndexJob(Section):
    """List and check a data set of conversations."""

    stage_version: int = 1
    data: Source
    images: Path | None = None
    faulty_samples: Literal["error", "leave_out"] = "error"


class AssembleJob(Section):
    """Put a vision-language model together from its parts."""

    stage_version: int = 2
    model: VlmModel
    seed: int


class AlignJob(Section):
    """Stage 1 of a vision-language model."""

    stage_version: int = 2
    model: VlmModel
    stage: VlmStage
    seed: int


class SftJob(Section):
    """Stage 2 of a vision-language model; whose captions they are is not its business."""

    stage_version: int = 2
    model: VlmModel
    stage: SftStage
    seed: int


class EvaluateJob(Section):
    """Answer and score understanding benchmarks with one model: `engine` is null where none needs it, else its model
    is the trained one."""

    stage_version: int = 2
    model: VlmModel
    benchmarks: dict[str, UnderstandingBenchmark]
    engine: EngineJob | None = None
    max_new_tokens: int


class LatentsJob(Section):
    """Encode the images that a text-to-image model trains on."""

    stage_version: int = 2
    family: str
    model: Source
    num_images: int
    resolution: int
    aspect: Literal["centre_crop", "buckets"] = "centre_crop"


class FinetuneJob(Section):
    """Fine-tune a text-to-image transformer on latents and one source's captions."""

    stage_version: int = 1
    family: str
    model: Source
    num_images: int
    resolution: int
    aspect: Literal["centre_crop", "buckets"] = "centre_crop"
    max_text_tokens: int
    training: T2iTraining
    seed: int


class GenerateJob(Section):
    """Make one benchmark's pictures with one fine-tuned model. What scores them is left out of `benchmark`."""

    stage_version: int = 1
    family: str
    model: Source
    resolution: int
    max_text_tokens: int
    steps: int
    guidance: float
    precision: Literal["bf16", "fp32"]
    name: str
    prompts: Path
    images_per_prompt: int
    noise_seed: int


class ScoreImagesJob(Section):
    """Score one benchmark's pictures. `benchmark.models` are what looks at them."""

    stage_version: int = 1
    name: str
    benchmark: T2iBenchmark


class Subject(Section):
    """Whose scores a file holds, and the spec that must have made it."""

    path: str
    fingerprint: str
    pipeline: str
    objective: str
    seed: int
    benchmarks: list[str]


class CollectCaptionerJob(Section):
    """One captioner's scores from all its models. `made_with` are the specs that its other files must carry."""

    stage_version: int = 1
    captioner: str
    family: str
    subjects: list[Subject]
    made_with: dict[str, str]


class TrainedOn(Section):
    """What a pipeline is trained on: so many of the pool's first images, but for those that `selection` (its file, with
    a place for the captioner's name) leaves out."""

    objective: str
    num_images: int
    selection: str


class CompareSelectionsJob(Section):
    """How far the images of trained models may be from the sweep's."""

    stage_version: int = 1
    captioners: list[str]
    pipelines: dict[str, TrainedOn]
    seeds: list[int]
    max_images_apart: float


class CaptionersJob(Section):
    """All captioners: the rows of table `captioners`."""

    stage_version: int = 1
    captioners: list[dict[str, str]]


class CollectJob(CaptionersJob):
    """The sweep's tables from all captioners. `collected_as` are the specs that each one's scores must carry."""

    collected_as: dict[str, str]


def as_param(job: BaseModel) -> str:
    """A job's settings as Snakemake compares them: canonical JSON."""
    return canonical_json(job.model_dump(mode="json"))


def as_params(*jobs: BaseModel) -> str:
    """The settings of several commands that run in one process."""
    return canonical_json([job.model_dump(mode="json") for job in jobs])


def asset_name(source: Source) -> str:
    """The folder of a hub repository under the assets: `owner--name`."""
    assert source.hub is not None
    return source.hub.replace("/", "--")


def sources_of(config: Config) -> dict[str, Source]:
    """Every source that the sweep does not make itself, by its key in the config (`captioners.x.model`).

    A captioner that opts in to remote code uses its repository at exactly that commit.
    """
    found = {key: source for key, source in _sources_in(config) if not in_world(config, source)}
    for name, captioner in config.captioners.items():
        if captioner.model and captioner.remote_code:
            found[f"captioners.{name}.model"] = captioner.model.model_copy(update={"revision": captioner.remote_code})
    return found


def absent_paths(config: Config) -> list[tuple[str, Path]]:
    """The local files and folders that the sweep uses and that are not there, with the keys that name them."""
    local = [(key, source.path) for key, source in sources_of(config).items() if source.path]
    return [(key, path) for key, path in local if not path.exists()]


def in_world(config: Config, source: Source) -> bool:
    """Whether a source is made by the sweep: a part of its blocks world."""
    world = config.results / "world"
    return config.world is not None and source.path is not None and source.path.is_relative_to(world)


def _sources_in(value: Any, key: str = "") -> list[tuple[str, Source]]:
    own = [(key, value)] if isinstance(value, Source) and (value.hub or value.path) else []
    if isinstance(value, Section):
        value = {field: getattr(value, field) for field in type(value).model_fields}
    if isinstance(value, dict):
        prefix = f"{key}." if key else ""
        return own + [found for name, part in value.items() for found in _sources_in(part, f"{prefix}{name}")]
    return []


def assets_of(config: Config) -> dict[str, dict[str, Source]]:
    """Every hub repository that the sweep uses, by asset name: the key of each use in the config, and what it says."""
    assets: dict[str, dict[str, Source]] = {}
    for key, source in sources_of(config).items():
        if source.hub:
            assets.setdefault(asset_name(source), {})[key] = source
    return assets


def _settled(value: Any, assets: Path) -> Any:
    """A section as its job sees it: repositories are local folders; what the job asks of the machine and how it reads
    ahead is left out."""
    if isinstance(value, Needs):
        return type(value)()
    if isinstance(value, Section):
        settled = {field: _settled(getattr(value, field), assets) for field in type(value).model_fields}
        if isinstance(value, Source):
            settled |= {"licence": "unstated", "kind": "model", "files": []}
            settled |= {"hub": None, "path": assets / asset_name(value)} if value.hub else {}
        if isinstance(value, Optimisation):
            settled |= {"loader_workers": 0}
        return value.model_copy(update=settled)
    if isinstance(value, dict):
        return {key: _settled(part, assets) for key, part in value.items()}
    return value


def fetch_job(config: Config, asset: str, lock: Lock) -> FetchJob:
    """How one repository is fetched: all files that any of its uses asks for."""
    uses = assets_of(config)[asset]
    first = next(iter(uses.values()))
    files = sorted({pattern for source in uses.values() for pattern in source.files or ["*"]})
    code = {one.remote_code for name, one in config.captioners.items() if f"captioners.{name}.model" in uses}
    return FetchJob(
        hub=first.hub,
        kind=first.kind,
        revision=first.revision,
        commit=_pinned(first, lock),
        files=[] if files == ["*"] else files,
        remote_code=next(iter(code - {None}), None),
    )


def _pinned(source: Source, lock: Lock) -> str | None:
    """The commit of a source in the lock, null where the lock is of another revision."""
    locked = lock.get(source.hub)
    asked = (source.kind, source.revision)
    return locked.commit if locked and (locked.kind, locked.revision) == asked else None


def lock_job(config: Config) -> LockJob:
    """What `assets.lock.yaml` pins."""
    firsts = (next(iter(uses.values())) for uses in assets_of(config).values())
    return LockJob(repositories=[(source.hub, source.kind, source.revision) for source in firsts])


def licences_job(config: Config, lock: Lock) -> LicencesJob:
    """What the sweep uses and under which licences, with the keys of the config that use it."""
    used: dict[str, list[str]] = {}
    sources = sources_of(config)
    for key, source in sources.items():
        used.setdefault(source.hub or str(source.path), []).append(key)
    rows = []
    for name, keys in used.items():
        source = sources[keys[0]]
        pinned = {"kind": source.kind, "revision": _pinned(source, lock) or source.revision} if source.hub else {}
        licences = dict.fromkeys(sources[key].licence for key in keys if sources[key].licence != "unstated")
        licence = "; ".join(licences) or "unstated"
        rows.append({"asset": name, "kind": "folder", "used_by": " ".join(keys), "licence": licence, **pinned})
    return LicencesJob(rows=rows)


def pool_job(config: Config) -> PoolJob:
    """How the pool is sampled."""
    pool = config.pool
    return PoolJob(sources=_settled(pool.sources, config.assets), size=pool.size, seed=pool.seed)


def num_shards(config: Config) -> int:
    """Caption shards of the pool."""
    return -(-config.pool.size // config.pool.shard_size)


def caption_jobs(config: Config) -> dict[str, range]:
    """The caption jobs of one captioner: name of the job -> its shards."""
    per_job, shards = config.captioning.shards_per_job, num_shards(config)
    starts = range(0, shards, per_job)
    return {f"{start:05d}": range(start, min(start + per_job, shards)) for start in starts}


def caption_job(config: Config, captioner: str, capeval: bool = False) -> CaptionJob:
    """How one captioner captions the pool, or CAPEval's images."""
    one, shared = config.captioners[captioner], config.captioning
    return CaptionJob(
        engine=_engine_job(
            config,
            one,
            shared.max_model_len,
            max_pixels=one.max_pixels,
            remote_code=one.remote_code,
            replay=_replay_file(one.replay, capeval),
            dial=one.dial,
        ),
        prompt=one.prompt or shared.prompt,
        sampling=shared.samplings[one.sampling or shared.sampling],
        max_new_tokens=shared.max_new_tokens,
        attempts=shared.attempts,
        retry_temperature=shared.retry_temperature,
        shard_size=None if capeval else config.pool.shard_size,
    )


def _engine_job(config: Config, asked: Captioner | Judge, max_model_len: int, **own: Any) -> EngineJob:
    """The engine of a captioner or judge; `own` are the settings that only captioners have."""
    return EngineJob(
        engine=asked.engine,
        model=_settled(asked.model, config.assets),
        server_model=asked.server.model if asked.server else None,
        max_model_len=max_model_len,
        chat_template_kwargs=asked.chat_template_kwargs,
        **own,
    )


def _replay_file(replay: Replay | None, capeval: bool) -> ReplayFile | None:
    """The file with the captions of the pool, or of CAPEval's images."""
    if replay is None:
        return None
    file = (capeval and replay.capeval) or replay.pool
    return ReplayFile(
        **file.model_dump(), **replay.model_dump(include={"on_missing", "on_empty", "on_duplicate", "on_unknown"})
    )


def collect_captions_job(config: Config, captioner: str) -> CollectCaptionsJob:
    """Which captions of one captioner enter training."""
    return CollectCaptionsJob(captioner=captioner, leave_out=config.captioning.leave_out)


def text_readers(config: Config) -> dict[str, TextReader]:
    """Every pipeline as a reader of captions."""
    readers = {}
    for name, one in config.understanding.pipelines.items():
        model = one.model.base or one.model.language
        readers[name] = TextReader(family="vlm", model=model, max_tokens=one.sft.max_caption_tokens)
    for name, one in config.generation.pipelines.items():
        readers[name] = TextReader(family=one.family, model=one.model, max_tokens=one.max_text_tokens)
    return readers


def caption_statistics_job(config: Config, captioner: str) -> CaptionStatisticsJob:
    """Whose captions are measured, and the pipelines that will read them."""
    return CaptionStatisticsJob(captioner=captioner, pipelines=_settled(text_readers(config), config.assets))


def images_of_pipelines(config: Config) -> dict[str, int]:
    """How many of the pool's first images each pipeline looks at."""
    pipelines = dict.fromkeys(config.understanding.pipelines, config.pool.size)
    return pipelines | {name: one.num_images for name, one in config.generation.pipelines.items()}


def select_job(config: Config, selection: str) -> SelectJob:
    """What is selected from: by all captioners, or by the one that the selection is named after."""
    trained_on = (selection == INTERSECTION) == (config.captioning.train_on == "intersection")
    return SelectJob(pipelines=images_of_pipelines(config), trained_on=trained_on)


def selection_of(config: Config) -> str:
    """The selection that models are trained by: everybody's, or their captioner's own (a wildcard)."""
    return INTERSECTION if config.captioning.train_on == "intersection" else "{captioner}"


def selected_from(config: Config, selection: str) -> list[str]:
    """The captioners whose unusable captions a selection leaves out: all of them, or the one that it is named after."""
    return list(config.captioners) if selection == INTERSECTION else [selection]


def environment_of(asked: Captioner | Judge) -> str:
    """The environment of envs/ that a captioner's or judge's engine runs in."""
    if getattr(asked, "remote_code", None):
        return "remote"
    return "serve" if asked.engine == "vllm" else "core"


def serving_job(asked: Captioner | Judge) -> ServingJob:
    """How a captioner's or judge's engine runs."""
    needs = asked.needs
    return ServingJob(gpus=needs.gpus, threads=needs.threads, serving=asked.serving, server=asked.server)


def judge_job(config: Config, judge: Judge | None = None) -> JudgeJob:
    """How captions are judged: by CAPEval's judge, or by another."""
    judge = judge or config.capeval.judge
    return JudgeJob(
        engine=_engine_job(config, judge, judge.max_model_len),
        items_per_prompt=judge.items_per_prompt,
        reasoning=judge.reasoning,
        sampling=judge.sampling,
        votes=judge.votes,
        attempts=judge.attempts,
        data=_settled(config.capeval.data, config.assets),
    )


def score_captions_job(config: Config, captioner: str) -> ScoreCaptionsJob:
    """How verdicts become coverage and precision."""
    capeval = config.capeval
    return ScoreCaptionsJob(
        captioner=captioner,
        data=_settled(capeval.data, config.assets),
        missing_verdict=capeval.missing_verdict,
        max_unjudged_share=capeval.max_unjudged_share,
        resamples=capeval.resamples,
        confidence=capeval.confidence,
        seed=capeval.seed,
    )


def retest_job(config: Config) -> JudgeJob:
    """The judge once more, with nothing but its seed changed."""
    job = judge_job(config)
    return job.model_copy(update={"sampling": job.sampling.model_copy(update={"seed": job.sampling.seed + 1})})


def judge_is_model(config: Config) -> bool:
    """Whether the judge can err: then it is asked again, and about canaries."""
    return config.capeval.judge.engine != "exact"


def judged_sources(config: Config) -> list[str]:
    """Everybody whose captions are judged: the captioners, then the baselines."""
    return [*config.captioners, *BASELINES]


def baselines_job(config: Config) -> BaselinesJob:
    """Which captions the baselines have."""
    return BaselinesJob(data=_settled(config.capeval.data, config.assets), seed=config.capeval.seed)


def reliability_job(config: Config) -> ReliabilityJob:
    """Which judgements are compared."""
    capeval = config.capeval
    return ReliabilityJob(
        captioners=judged_sources(config),
        second_judged=list(config.captioners) if capeval.second_judge else [],
        retested=["human"] if judge_is_model(config) else [],
        labels=capeval.labels,
        data=_settled(capeval.data, config.assets),
        resamples=capeval.resamples,
        confidence=capeval.confidence,
        seed=capeval.seed,
    )


def diagnose_job(config: Config) -> DiagnoseJob:
    """Whose captions are looked into."""
    return DiagnoseJob(captioners=list(config.captioners), data=_settled(config.capeval.data, config.assets))


def conversations_name(stage: VlmStage) -> str:
    """What a stage's data set of conversations is called: `owner--name`, or its path with `--` for `/`."""
    return asset_name(stage.data) if stage.data.hub else re.sub(r"[^\w.-]+", "--", str(stage.data.path)).strip("-")


def index_job(config: Config, stage: VlmStage) -> IndexJob:
    """How a stage's data set of conversations is listed."""
    settled = _settled(stage, config.assets)
    return IndexJob(data=settled.data, images=settled.images, faulty_samples=settled.faulty_samples)


def conversations_of(config: Config) -> dict[str, VlmStage]:
    """Every data set of conversations by name, and the first stage that reads it."""
    stages = (stage for one in config.understanding.pipelines.values() for stage in (one.align, one.sft))
    found: dict[str, VlmStage] = {}
    for stage in stages:
        found.setdefault(conversations_name(stage), stage)
    return found


def assemble_job(config: Config, pipeline: str, seed: int) -> AssembleJob:
    """What a vision-language model is assembled from."""
    settled = _settled(config.understanding.pipelines[pipeline], config.assets)
    return AssembleJob(model=settled.model, seed=seed)


def align_job(config: Config, pipeline: str, seed: int) -> AlignJob:
    """How a vision-language model is aligned."""
    settled = _settled(config.understanding.pipelines[pipeline], config.assets)
    return AlignJob(model=settled.model, stage=settled.align, seed=seed)


def sft_job(config: Config, pipeline: str, seed: int) -> SftJob:
    """How a vision-language model is trained on captions."""
    settled = _settled(config.understanding.pipelines[pipeline], config.assets)
    return SftJob(model=settled.model, stage=settled.sft, seed=seed)


def evaluate_job(config: Config, pipeline: str, seed: int, captioner: str) -> EvaluateJob:
    """Which benchmarks a vision-language model answers, and how."""
    understanding = _settled(config.understanding, config.assets)
    asked = asked_of_engine(understanding.benchmarks)
    return EvaluateJob(
        model=understanding.pipelines[pipeline].model,
        benchmarks={
            name: benchmark.model_copy(update={"results": benchmark.results_of(pipeline, seed, captioner)})
            for name, benchmark in understanding.benchmarks.items()
        },
        engine=EngineJob(engine=understanding.engine, max_model_len=understanding.max_model_len) if asked else None,
        max_new_tokens=understanding.max_new_tokens,
    )


def asked_of_engine(benchmarks: dict[str, UnderstandingBenchmark]) -> list[str]:
    """The benchmarks whose questions an engine answers: neither those of the blocks world nor results of others."""
    return [name for name, one in benchmarks.items() if one.results is None and not name.startswith("blocks_")]


def asked_of_lmms_eval(benchmarks: dict[str, UnderstandingBenchmark]) -> list[str]:
    """Those of them that lmms-eval puts to the model."""
    return [name for name in asked_of_engine(benchmarks) if benchmarks[name].harness == "lmms-eval"]


def evaluate_environment(config: Config) -> str:
    """The environment of envs/ in which a vision-language model is evaluated."""
    understanding = config.understanding
    return "serve" if understanding.engine == "vllm" and asked_of_engine(understanding.benchmarks) else "evaluate"


def evaluate_serving(config: Config) -> ServingJob:
    """How the engine that answers the benchmarks runs."""
    understanding = config.understanding
    needs = understanding.evaluate_needs
    return ServingJob(gpus=needs.gpus, threads=needs.threads, serving=understanding.serving)


def brought_results(config: Config, pipeline: str, seed: int, captioner: str) -> list[str]:
    """The folders with other harnesses' results of one model."""
    found = (one.results_of(pipeline, seed, captioner) for one in config.understanding.benchmarks.values())
    return list(dict.fromkeys(folder for folder in found if folder))


def training_stages(config: Config) -> dict[str, Optimisation]:
    """Every training stage by its key in the config."""
    stages: dict[str, Optimisation] = {}
    for name, one in config.understanding.pipelines.items():
        stages |= {f"understanding.pipelines.{name}.{key}": getattr(one, key) for key in ("align", "sft")}
    for name, one in config.generation.pipelines.items():
        stages[f"generation.pipelines.{name}.training"] = one.training
    return stages


def latents_job(config: Config, pipeline: str) -> LatentsJob:
    """Which latents a text-to-image model trains on."""
    settled = _settled(config.generation.pipelines[pipeline], config.assets)
    return LatentsJob(
        family=settled.family,
        model=settled.model,
        num_images=settled.num_images,
        resolution=settled.resolution,
        aspect=settled.aspect,
    )


def finetune_job(config: Config, pipeline: str, seed: int) -> FinetuneJob:
    """How a text-to-image model is fine-tuned."""
    settled = _settled(config.generation.pipelines[pipeline], config.assets)
    return FinetuneJob(
        family=settled.family,
        model=settled.model,
        num_images=settled.num_images,
        resolution=settled.resolution,
        aspect=settled.aspect,
        max_text_tokens=settled.max_text_tokens,
        training=settled.training,
        seed=seed,
    )


def generate_job(config: Config, pipeline: str, benchmark: str) -> GenerateJob:
    """How a benchmark's pictures are made."""
    settled = _settled(config.generation, config.assets)
    made = settled.pipelines[pipeline]
    return GenerateJob(
        family=made.family,
        model=made.model,
        resolution=made.resolution,
        max_text_tokens=made.max_text_tokens,
        steps=made.generate.steps,
        guidance=made.generate.guidance,
        precision=made.generate.precision,
        name=benchmark,
        prompts=settled.benchmarks[benchmark].path,
        images_per_prompt=settled.benchmarks[benchmark].images_per_prompt,
        noise_seed=settled.noise_seed,
    )


def score_images_job(config: Config, benchmark: str) -> ScoreImagesJob:
    """How a benchmark's pictures are scored."""
    return ScoreImagesJob(name=benchmark, benchmark=_settled(config.generation.benchmarks[benchmark], config.assets))


def score_environment(config: Config, benchmark: str) -> str:
    """The environment of envs/ in which a generation benchmark is scored."""
    models = config.generation.benchmarks[benchmark].models.values()
    return "serve" if any(model.through == "vllm" for model in models) else "evaluate"


def score_serving(config: Config) -> ServingJob:
    """How an engine that looks at pictures runs."""
    needs = config.generation.score_needs
    return ServingJob(gpus=needs.gpus, threads=needs.threads)


def collect_captioner_job(config: Config, captioner: str) -> CollectCaptionerJob:
    """The files that hold one captioner's scores, and the specs that must have made them."""
    results, subjects, made_with = config.results, [], {}
    for job in caption_jobs(config):
        made_with[str(results / f"captions/{captioner}/jobs/{job}.json")] = _made_by(caption_job(config, captioner))
    for pipeline in config.understanding.pipelines:
        for seed in config.seeds:
            folder = results / f"understanding/{pipeline}/seed-{seed}/{captioner}"
            made_with[str(folder / "model.json")] = _made_by(sft_job(config, pipeline, seed))
            subjects.append(
                Subject(
                    path=str(folder / "scores.csv"),
                    fingerprint=_made_by(evaluate_job(config, pipeline, seed, captioner)),
                    pipeline=pipeline,
                    objective="understanding",
                    seed=seed,
                    benchmarks=list(config.understanding.benchmarks),
                )
            )
    for pipeline in config.generation.pipelines:
        for seed in config.seeds:
            folder = results / f"generation/{pipeline}/seed-{seed}/{captioner}"
            made_with[str(folder / "model.json")] = _made_by(finetune_job(config, pipeline, seed))
            for benchmark in config.generation.benchmarks:
                made_with[str(folder / benchmark / "pictures.parquet")] = _made_by(
                    generate_job(config, pipeline, benchmark)
                )
                subjects.append(
                    Subject(
                        path=str(folder / benchmark / "scores.csv"),
                        fingerprint=_made_by(score_images_job(config, benchmark)),
                        pipeline=pipeline,
                        objective="generation",
                        seed=seed,
                        benchmarks=[benchmark],
                    )
                )
    return CollectCaptionerJob(
        captioner=captioner,
        family=config.captioners[captioner].family,
        subjects=subjects,
        made_with=made_with,
    )


def compare_selections_job(config: Config) -> CompareSelectionsJob:
    """The models whose images are compared with the sweep's."""
    pipelines = {
        name: TrainedOn(
            objective=pipelines_of(config)[name].objective,
            num_images=num_images,
            selection=f"{selection_of(config)}/{name}.parquet",
        )
        for name, num_images in images_of_pipelines(config).items()
    }
    return CompareSelectionsJob(
        captioners=list(config.captioners),
        pipelines=pipelines,
        seeds=config.seeds,
        max_images_apart=config.captioning.max_images_apart,
    )


def captioners_job(config: Config) -> CaptionersJob:
    """The captioners of the sweep, with what figures call them."""
    return CaptionersJob(
        captioners=[
            {"captioner": name, "family": one.family, "label": one.label} for name, one in config.captioners.items()
        ]
    )


def collect_job(config: Config) -> CollectJob:
    """The captioners, and how their scores must have been collected."""
    return CollectJob(
        captioners=captioners_job(config).captioners,
        collected_as={name: _made_by(collect_captioner_job(config, name)) for name in config.captioners},
    )


def pipelines_of(config: Config) -> dict[str, PipelineScores]:
    """Every pipeline of the sweep with its objective and the benchmarks that it must have been measured on."""
    if config.published:
        return published_pipelines(config.published.tables)
    return {
        name: PipelineScores(objective=objective, benchmarks=list(section.benchmarks))
        for objective, section in (("understanding", config.understanding), ("generation", config.generation))
        for name in section.pipelines
    }


def analysis_job(config: Config) -> AnalysisJob:
    """The regression's settings, and what the sweep must have measured."""
    confidence = {"capeval_confidence": config.capeval.confidence} if config.capeval else {}
    return AnalysisJob(**config.analysis.model_dump(), pipelines=pipelines_of(config), seeds=config.seeds, **confidence)


def report_job(config: Config) -> ReportJob:
    """What the report says that the tables do not."""
    licences = {row["asset"]: row["licence"] for row in licences_job(config, {}).rows}
    return ReportJob(
        sweep=config.sweep,
        published=config.published is not None,
        world=config.world is not None,
        train_on=config.captioning.train_on if config.captioning else "intersection",
        analysis=analysis_job(config),
        num_examples=config.report.num_examples,
        num_prompts=config.report.num_prompts,
        conversations=list(conversations_of(config)),
        licences=licences,
    )


def _made_by(job: Section) -> str:
    return fingerprint(job.model_dump(mode="json"))
