"""The config of a sweep as Pydantic models: what every key means, and every fault of a config at once.

`python -m workflow_scripts.docs` writes the JSON schema and the README's table from these models.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from workflow_scripts.analysis.settings import Analysis
from workflow_scripts.blocks.settings import World

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Share = Annotated[float, Field(ge=0, le=1)]
Kind = Literal["model", "dataset"]


class Section(BaseModel):
    """A part of the config: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Needs(Section):
    """What one job asks of the machine."""

    gpus: int = Field(0, ge=0, description="GPUs of one job")
    mem_gb: int = Field(4, ge=1, description="host memory of one job in GB")
    hours: float = Field(1.0, gt=0, description="time limit of the first attempt in hours; it grows with each attempt")
    threads: int = Field(1, ge=1, description="CPU threads of one job")


class TrainingNeeds(Needs):
    """What one training job asks of the machine; GPUs, memory and threads are those of each of its nodes."""

    nodes: int = Field(1, ge=1, description="nodes of one job; more than one needs Slurm")


class Source(Section):
    """Where files come from: a repository on the Hugging Face hub, or a local folder or file that takes its place."""

    hub: str | None = Field(None, pattern=r"^[\w.-]+/[\w.-]+$", description="repository on the hub, `owner/name`")
    kind: Kind = Field("model", description="kind of the repository")
    revision: str = Field("main", description="commit, tag or branch of the repository; assets.lock.yaml pins it")
    files: list[str] = Field(
        [],
        description="patterns of the files to fetch, such as `*.json`; default: all. Of models only what runs no code; "
        "a PyTorch pickle that is named in full is converted to safetensors",
    )
    path: Path | None = Field(None, description="local folder or file; nothing is downloaded then")
    licence: str = Field("unstated", description="licence of the files, for the report")

    @model_validator(mode="after")
    def _one_place(self) -> "Source":
        if (self.hub is None) == (self.path is None):
            raise ValueError("give exactly one of 'hub' and 'path'")
        return self


class PoolSource(Source):
    """One part of the image pool."""

    path: Path | None = Field(
        None, description="folder or file: images, plain tars of them, or Parquet files that hold their bytes"
    )
    count: int = Field(gt=0, description="images that the source holds; the sample keeps the sources' proportions")


class Pool(Section):
    """The images that every captioner describes."""

    sources: dict[Name, PoolSource] = Field(min_length=1, description="parts of the pool by name")
    size: int = Field(gt=0, description="images sampled from all sources together")
    seed: int = Field(0, description="seed of the sample and of the pool's order")
    shard_size: int = Field(gt=0, description="images in one caption shard")
    needs: Needs = Needs()


class Sampling(Section):
    """How a model draws its tokens."""

    temperature: float = Field(0.0, ge=0, description="0 is greedy")
    top_p: float = Field(1.0, gt=0, le=1, description="draw from the likeliest tokens of this joint probability")
    top_k: int = Field(0, ge=0, description="0 keeps all tokens")
    presence_penalty: float = Field(0.0, ge=-2, le=2, description="taken from the logit of every token already said")
    seed: int = Field(0, description="joined with the image's id for each caption")


CaptionFault = Literal["empty", "one_symbol", "repetition", "refusal", "echo", "cut"]


class Captioning(Section):
    """What all captioners share."""

    prompt: str = Field(description="the question asked about every image")
    max_new_tokens: int = Field(gt=0, description="longest caption in tokens; a caption cut there is counted")
    max_model_len: int = Field(gt=0, description="context of the engine in tokens, image included")
    sampling: Name = Field(description="the entry of `samplings` that captioners use unless they name another")
    samplings: dict[Name, Sampling] = Field(min_length=1, description="named ways to draw tokens")
    attempts: int = Field(2, gt=0, description="times that an image is asked for, while its caption has a fault")
    retry_temperature: float = Field(0.7, gt=0, description="temperature of the further attempts of a greedy captioner")
    leave_out: list[CaptionFault] = Field(
        list(get_args(CaptionFault)), description="faults that keep a caption out of training; CAPEval judges it anyway"
    )
    train_on: Literal["intersection", "own"] = Field(
        "intersection",
        description="the images that a captioner's models are trained on: those that every captioner describes usably, "
        "the same for all; or `own`, those that it does",
    )
    max_images_apart: Share = Field(
        0.001,
        description="a captioner that comes later changes the intersection, and trained models stay: more of their "
        "images than this may not differ from it",
    )
    shards_per_job: int = Field(
        1, gt=0, description="shards that one job captions with one engine; an edit keeps captions and reruns training"
    )
    statistics_needs: Needs = Needs()


class CaptionFile(Section):
    """A file of captions: CSV, JSON, JSONL, Parquet, an {image: caption} map, or concatenated JSON."""

    file: Path = Field(description="the file, its format named by its suffix")
    image_key: str = Field("image", description="key or column of the image: its id, path, file name, stem or number")
    caption_key: str = Field("caption", description="key or column of the caption")


class Replay(Section):
    """Captions that already exist, and what to do about faults in their files."""

    pool: CaptionFile = Field(description="the captions of the pool's images")
    capeval: CaptionFile | None = Field(None, description="the captions of CAPEval's images; default: those of `pool`")
    on_missing: Literal["error", "warn"] = Field("error", description="an image without a caption")
    on_empty: Literal["error", "warn"] = Field("error", description="a caption without a word")
    on_duplicate: Literal["error", "warn"] = Field(
        "error", description="two captions of one image; `warn` keeps the first"
    )
    on_unknown: Literal["error", "warn"] = Field(
        "warn", description="a caption of an image that the sweep does not have"
    )


class Dial(Section):
    """A captioner of the blocks world that reads the facts of an image and says them wrongly in known shares."""

    drop: Share = Field(description="probability that an attribute goes unsaid (an object: half of it)")
    falsify: Share = Field(description="probability that a said fact is wrong (an invented object: half of it)")
    seed: int = Field(0, description="joined with the image's id for each caption")


class Server(Section):
    """Any OpenAI-compatible address, for engine server."""

    url: str = Field(pattern=r"^https?://", description="base address, such as http://localhost:8000/v1")
    model: str = Field(description="what the server calls the model")
    key_variable: str | None = Field(
        None,
        pattern=r"^[A-Za-z_]\w*$",
        description="environment variable that holds the key; the key is never written",
    )
    concurrency: int = Field(32, gt=0, description="requests in flight at once")
    requests_per_minute: int | None = Field(None, gt=0, description="the server's rate limit; default: none")
    attempts: int = Field(6, gt=0, description="times that a request is sent before its failure is an error")
    timeout_seconds: float = Field(600, gt=0, description="longest wait for one answer")


class Serving(Section):
    """How engine vllm uses the job's GPUs: none of it is part of what is asked, so an edit reruns nothing."""

    tensor_parallel: int = Field(1, gt=0, description="GPUs that share one copy of the model; others hold more copies")
    max_num_seqs: int = Field(256, gt=0, description="answers that one copy writes at once")
    gpu_memory: float = Field(0.9, gt=0, le=1, description="share of a GPU's memory that the engine takes")


class Captioner(Section):
    """One caption source."""

    label: str = Field(description="name in figures")
    family: str = Field(description="model family, for colours and leave-one-family-out")
    engine: Literal["vllm", "transformers", "server", "replay", "exact"] = Field(
        description="what turns images into captions"
    )
    model: Source | None = Field(None, description="weights, for engines vllm and transformers")
    server: Server | None = Field(None, description="for engine server")
    serving: Serving = Serving()
    prompt: str | None = Field(None, description="in place of captioning.prompt")
    sampling: Name | None = Field(None, description="in place of captioning.sampling")
    max_pixels: int | None = Field(None, gt=0, description="larger images are scaled down to this many pixels")
    chat_template_kwargs: dict[str, bool | int | str] = Field({}, description="passed to the model's chat template")
    remote_code: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{40}$",
        description="opt in to the repository's own Python code at exactly this commit; read it first",
    )
    replay: Replay | None = Field(None, description="for engine replay")
    dial: Dial | None = Field(None, description="for engine exact (blocks world only)")
    needs: Needs = Needs()

    @model_validator(mode="after")
    def _fits_engine(self) -> "Captioner":
        _require_keys_of_engine(self, ("model", "server", "replay", "dial"))
        _require_whole_copies(self.engine, self.needs, self.serving)
        if self.remote_code and self.engine != "transformers":
            raise ValueError(f"remote_code is for engine 'transformers', the engine is {self.engine!r}")
        if self.remote_code and self.model and self.model.revision not in ("main", self.remote_code):
            raise ValueError(
                f"model.revision is {self.model.revision!r}, remote_code opts in to the commit {self.remote_code}"
            )
        return self


_KEY_OF_ENGINE = {"vllm": "model", "transformers": "model", "server": "server", "replay": "replay", "exact": "dial"}


def _require_keys_of_engine(section: Any, keys: tuple[str, ...]) -> None:
    """Raise ValueError where one of `keys` is missing or given though the engine of the section says otherwise."""
    for key in keys:
        wanted = _KEY_OF_ENGINE[section.engine] == key
        if wanted and getattr(section, key) is None:
            raise ValueError(f"engine {section.engine!r} needs the key {key!r}")
        if not wanted and getattr(section, key) is not None:
            raise ValueError(f"engine {section.engine!r} does not use the key {key!r}")


def _require_whole_copies(engine: str, needs: Needs, serving: Serving) -> None:
    """Raise ValueError where the GPUs of engine vllm do not hold whole copies of the model."""
    gpus, parallel = needs.gpus, serving.tensor_parallel
    if engine == "vllm" and gpus % parallel:
        raise ValueError(f"needs.gpus {gpus} is no multiple of serving.tensor_parallel {parallel}")


class Judge(Section):
    """What reads captions against CAPEval's checklists. It never sees an image."""

    engine: Literal["vllm", "transformers", "server", "exact"] = Field(
        description="`exact` parses the blocks world's captions"
    )
    model: Source | None = Field(None, description="weights of a language model, for engines vllm and transformers")
    server: Server | None = Field(None, description="for engine server")
    serving: Serving = Serving()
    chat_template_kwargs: dict[str, bool | int | str] = Field({}, description="passed to the model's chat template")
    max_model_len: int = Field(32768, gt=0, description="context of the judge in tokens")
    items_per_prompt: int | None = Field(
        None, gt=0, description="most items of a prompt; default: what the context holds"
    )
    reasoning: bool = Field(True, description="ask for a short reason before each verdict")
    sampling: Sampling = Sampling()
    votes: int = Field(1, gt=0, description="judgements of each item in orders of their own; a tie is unjudged")
    attempts: int = Field(2, gt=0, description="times that an item is asked for, while it has no verdict")
    needs: Needs = Needs()

    @model_validator(mode="after")
    def _fits_engine(self) -> "Judge":
        _require_keys_of_engine(self, ("model", "server"))
        _require_whole_copies(self.engine, self.needs, self.serving)
        return self


INTERSECTION = "intersection"  # the selection of all captioners; others are named after their captioner
BASELINES = ("human", "shuffled", "template")  # judged like captioners in every sweep; no captioner bears their names


class Capeval(Section):
    """The benchmark of captions: images, checklists, judge."""

    data: Source = Field(description="checklist.jsonl, gt_caption.jsonl, images.csv and the folder image/")
    judge: Judge
    second_judge: Judge | None = Field(None, description="judges everything too, for kappa; it never enters C and P")
    labels: Path | None = Field(
        None, description="CSV of verdicts by people: captioner, image_id, item_index, verdict; for kappa"
    )
    missing_verdict: Literal["unjudged", "not_mentioned"] = Field(
        "unjudged",
        description="what an item without a readable verdict is; the published code says not_mentioned",
    )
    max_unjudged_share: Share = Field(0.01, description="a captioner with a larger share of unjudged items stops")
    resamples: int = Field(2000, gt=0, description="image-level bootstrap resamples behind the intervals of C and P")
    confidence: float = Field(0.95, gt=0, lt=1, description="level of those intervals")
    seed: int = Field(0, description="seed of the resampling")


class Optimisation(Section):
    """How a model is trained: the same keys for every stage."""

    learning_rate: float = Field(gt=0, description="peak learning rate of AdamW")
    schedule: Literal["cosine", "linear", "constant", "constant_with_warmup"] = Field(
        "cosine", description="course of the learning rate"
    )
    warmup_steps: int = Field(0, ge=0, description="steps of linear warm-up; 0 leaves it to warmup_ratio")
    warmup_ratio: Share = Field(0.0, description="share of the steps that warm up")
    weight_decay: float = Field(0.0, ge=0, description="AdamW's decoupled weight decay")
    betas: tuple[float, float] = Field((0.9, 0.999), description="AdamW's decay rates")
    max_grad_norm: float = Field(1.0, gt=0, description="gradients are clipped to this norm")
    global_batch: int = Field(gt=0, description="samples a step over all GPUs")
    per_device_batch: int = Field(gt=0, description="samples that one GPU holds at once")
    steps: int | None = Field(None, gt=0, description="optimiser steps; default: `epochs` over the data")
    epochs: float = Field(1.0, gt=0, description="passes over the data, where `steps` is not given")
    precision: Literal["bf16", "fp32"] = Field("bf16", description="of the forward and backward pass")
    zero_stage: Literal[0, 2, 3] = Field(3, description="DeepSpeed ZeRO stage; 0 trains without DeepSpeed")
    offload_optimizer: bool = Field(False, description="optimiser state in host memory, about 12 bytes a parameter")
    gradient_checkpointing: bool = Field(True, description="recompute activations to save memory")
    devices: int = Field(
        8,
        gt=0,
        description="processes of the job, one a GPU: needs.gpus x needs.nodes (one a node on machines without)",
    )
    loader_workers: int = Field(
        4, ge=0, description="processes a GPU that read and decode samples ahead; an edit reruns nothing"
    )
    needs: TrainingNeeds = TrainingNeeds()

    @model_validator(mode="after")
    def _batch_divides(self) -> "Optimisation":
        if self.global_batch % (self.per_device_batch * self.devices):
            raise ValueError(
                f"global_batch {self.global_batch} is no multiple of per_device_batch x devices "
                f"= {self.per_device_batch} x {self.devices}"
            )
        return self

    @model_validator(mode="after")
    def _devices_fit(self) -> "Optimisation":
        gpus, nodes = self.needs.gpus, self.needs.nodes
        if gpus and self.devices != gpus * nodes:
            raise ValueError(f"devices is {self.devices}, needs.gpus x needs.nodes is {gpus} x {nodes}")
        if self.devices % nodes:
            raise ValueError(f"devices {self.devices} is no multiple of needs.nodes {nodes}")
        return self

    @property
    def accumulation(self) -> int:
        """Forward passes a step on each GPU."""
        return self.global_batch // (self.per_device_batch * self.devices)


Module = Literal["vision", "projector", "language"]


class VlmStage(Optimisation):
    """One training stage of a vision-language model."""

    data: Source = Field(
        description="conversations in LLaVA's JSON shape (an array or lines): the file, or a folder with data.json or "
        "only one JSON file"
    )
    images: Path | None = Field(
        None,
        description="folder or zip in which the conversations' images are named; default: `images` or `images.zip` "
        "beside the file",
    )
    faulty_samples: Literal["error", "leave_out"] = Field(
        "error",
        description="conversations that cannot be trained on (an image is missing or does not decode, turns do not "
        "alternate): all are listed, then the sweep stops or goes on without them",
    )
    train: list[Module] = Field(description="modules that learn; the others are frozen")
    vision_from_layer: int = Field(0, ge=0, description="first vision layer that learns, where `vision` does")
    max_length: int = Field(2048, gt=0, description="longest sample in tokens, image tokens included")


class SftStage(VlmStage):
    """The stage that the captions enter."""

    caption_instruction: str = Field(description="the human turn before every caption")
    max_caption_tokens: int = Field(1024, gt=0, description="an image with a longer caption is left out, and counted")
    questions_from_captions: bool = Field(
        False, description="blocks world only: also ask the questions that a caption answers by rule"
    )

    @model_validator(mode="after")
    def _captions_fit(self) -> "SftStage":
        if self.max_caption_tokens >= self.max_length:
            raise ValueError(
                f"max_caption_tokens {self.max_caption_tokens} is not below max_length {self.max_length}, which holds "
                "the image and the instruction besides"
            )
        return self


class VlmModel(Section):
    """What a vision-language model is made of: a whole LLaVA folder, or vision tower + language model + projector."""

    base: Source | None = Field(None, description="a LLaVA folder that has all parts")
    vision: Source | None = Field(None, description="the vision tower")
    language: Source | None = Field(None, description="the language model")
    projector: Source | None = Field(None, description="published projector weights to start from; default: random")
    vision_feature_layer: int = Field(-2, description="hidden layer of the vision tower that the projector reads")
    vision_feature_select_strategy: Literal["default", "full"] = Field("default", description="`default` drops [CLS]")
    image_size: int = Field(336, gt=0, description="side of the square that the vision tower sees, in pixels")
    pad_to_square: bool = Field(True, description="pad with the mean colour; otherwise the image is stretched")
    chat_template: Literal["vicuna", "qwen3", "blocks"] = Field(description="how turns are written")

    @model_validator(mode="after")
    def _whole(self) -> "VlmModel":
        if (self.base is None) == (self.vision is None and self.language is None):
            raise ValueError("give either 'base', or 'vision' and 'language'")
        if self.base is None and (self.vision is None or self.language is None):
            raise ValueError("'vision' and 'language' go together")
        return self


class VlmPipeline(Section):
    """One vision-language model and its two stages."""

    model: VlmModel
    align: VlmStage = Field(description="stage 1: the same for every captioner, trained once a seed")
    sft: SftStage = Field(description="stage 2: once a captioner and seed")


class UnderstandingBenchmark(Source):
    """An understanding benchmark: its files, and who asks it, or results that another harness has of it already."""

    results: str | None = Field(
        None,
        description="a harness's results folder of the model, read in place of asking; {pipeline}, {seed} and "
        "{captioner} in it stand for the model's. With the benchmark's files as well, the answers in it are scored by "
        "our rules (lmms-eval with --log_samples)",
    )
    harness: Literal["lmms-eval", "VLMEvalKit"] | None = Field(
        None,
        description="whose `results` those are. Without them, `lmms-eval` asks this benchmark, for those of which it "
        "has a task that needs no other model; default: the workflow asks",
    )

    @model_validator(mode="after")
    def _one_place(self) -> "UnderstandingBenchmark":
        if self.results is not None and self.harness is None:
            raise ValueError("'results' needs 'harness'")
        if self.harness == "VLMEvalKit" and self.results is None:
            raise ValueError("VLMEvalKit is not run, its results are read: give 'results', or leave out 'harness'")
        if self.hub is not None and self.path is not None:
            raise ValueError("give only one of 'hub' and 'path'")
        if self.results is None and self.hub is None and self.path is None:
            raise ValueError("give exactly one of 'hub' and 'path', or 'results'")
        if self.harness == "VLMEvalKit" and (self.hub or self.path):
            raise ValueError("the scores of VLMEvalKit are read as they are: leave out 'hub' and 'path'")
        self.results_of("p", 0, "c")
        return self

    def results_of(self, pipeline: str, seed: int, captioner: str) -> str | None:
        """The results folder of one model. Raises ValueError for another placeholder."""
        try:
            return self.results and self.results.format(pipeline=pipeline, seed=seed, captioner=captioner)
        except (KeyError, IndexError, ValueError):
            raise ValueError(f"results {self.results!r}: the names are {{pipeline}}, {{seed}}, {{captioner}}") from None


class Understanding(Section):
    """What the captions are worth for understanding images."""

    pipelines: dict[Name, VlmPipeline] = Field({}, description="vision-language models by name")
    benchmarks: dict[Name, UnderstandingBenchmark] = Field(
        {}, description="the benchmarks behind U and where their files are"
    )
    engine: Literal["vllm", "transformers"] = Field(
        "vllm", description="what answers their questions, greedily; those of the blocks world need neither"
    )
    serving: Serving = Serving()
    max_model_len: int = Field(4096, gt=0, description="context of the engine in tokens, images included")
    max_new_tokens: int = Field(1024, gt=0, description="longest answer in tokens")
    index_needs: Needs = Needs()
    evaluate_needs: Needs = Needs()

    @model_validator(mode="after")
    def _whole_copies(self) -> "Understanding":
        _require_whole_copies(self.engine, self.evaluate_needs, self.serving)
        return self


class T2iTraining(Optimisation):
    """Fine-tuning of a text-to-image transformer by flow matching; only the transformer learns."""

    timestep_sampling: Literal["logit_normal", "uniform"] = Field(
        "logit_normal", description="how noise levels are drawn"
    )
    logit_mean: float = Field(0.0, description="mean of the normal behind logit_normal; below 0 is more noise")
    logit_std: float = Field(1.0, gt=0, description="its standard deviation")
    caption_dropout: Share = Field(0.0, description="share of captions replaced by the empty one, for guidance")


class Generate(Section):
    """How pictures are made for the benchmarks."""

    steps: int = Field(gt=0, description="denoising steps")
    guidance: float = Field(ge=0, description="classifier-free guidance scale")
    batch: int = Field(8, gt=0, description="pictures made at once on each GPU of the job; an edit reruns nothing")
    precision: Literal["bf16", "fp32"] = Field("bf16", description="of the whole pipeline while it makes pictures")
    needs: Needs = Needs()


class T2iPipeline(Section):
    """One text-to-image model."""

    family: Literal["sd3", "qwen-image"] = Field(description="model class: how text and latents are read")
    model: Source = Field(description="a diffusers pipeline folder")
    num_images: int = Field(gt=0, description="training images: the first of the pool's order, so subsets are nested")
    resolution: int = Field(
        gt=0, multiple_of=16, description="side of training and generated pictures in pixels, a multiple of 16"
    )
    aspect: Literal["centre_crop", "buckets"] = Field(
        "centre_crop",
        description="training images become squares; or the nearest of several sizes of about the same area, with "
        "sides up to 2:1, and a batch holds one size. Generated pictures are square",
    )
    max_text_tokens: int = Field(512, gt=0, description="longest text of the encoder without a limit of its own")
    latents_needs: Needs = Needs()
    embedding_disk_gb: int = Field(
        200,
        ge=0,
        description="GB of disk for one captioner's encoded captions while a model trains: where they fit they are "
        "encoded once, else (always with 0) in every step, which keeps the text encoders in GPU memory. An edit reruns "
        "nothing",
    )
    training: T2iTraining
    generate: Generate


class ScorerModel(Source):
    """A model behind a generation benchmark's scores."""

    through: Literal["mask2former", "clip", "blip", "dpt", "owlv2", "unidet", "modelscope", "vllm", "transformers"] = (
        Field(description="how it is run; each role takes some of these")
    )


class T2iBenchmark(Source):
    """A generation benchmark: its prompts, how many pictures each gets, and what looks at them."""

    images_per_prompt: int = Field(4, gt=0, description="pictures made of every prompt")
    models: dict[Name, ScorerModel] = Field(
        {},
        description="what scores the pictures, by role: GenEval's `instances` and `colors`, DPG-Bench's `answers`, "
        "T2I-CompBench++'s `attributes`, `objects`, `depth` and `similarity`",
    )
    mode: Literal["official", "fixed"] = Field(
        "official", description="`official` repeats the official scorer's faults"
    )


class Generation(Section):
    """What the captions are worth for making images."""

    pipelines: dict[Name, T2iPipeline] = Field({}, description="text-to-image models by name")
    benchmarks: dict[Name, T2iBenchmark] = Field({}, description="the benchmarks behind G")
    noise_seed: int = Field(
        0, description="with prompt and picture number it fixes the noise, the same for all captioners"
    )
    score_needs: Needs = Needs()


class Report(Section):
    """The page of a sweep."""

    num_examples: int = Field(4, ge=0, description="example images with their captions and checklists")
    num_prompts: int = Field(4, ge=0, description="prompts whose pictures are shown for every captioner")


class Published(Section):
    """Scores taken from published tables in place of measuring: only the analysis runs."""

    tables: Path = Field(description="folder with captioners.csv, table3_capeval.csv, table4_benchmarks.csv and so on")


class Config(Section):
    """A sweep."""

    sweep: Name = Field(description="name of the sweep, for the report")
    results: Path = Field(Path("results"), description="folder of every output; sweeps with their own never mix")
    assets: Path = Field(Path("assets"), description="folder of downloaded weights, data sets and benchmark files")
    jobs: Literal["apart", "whole"] = Field(
        "apart",
        description="`whole` trains and measures a model in one process, for sweeps where starting one costs more: an "
        "edit of a benchmark then trains again",
    )
    seeds: list[int] = Field([0], min_length=1, description="training seeds; results are averaged within a captioner")
    world: World | None = Field(None, description="make a blocks world as the data of this sweep")
    published: Published | None = Field(None, description="take scores from published tables; only the analysis runs")
    captioners: dict[Name, Captioner] = Field({}, description="the caption sources, the one thing that varies")
    captioning: Captioning | None = Field(None, description="what all captioners share")
    pool: Pool | None = Field(None, description="the images that are captioned and trained on")
    capeval: Capeval | None = Field(None, description="how coverage and precision are measured")
    understanding: Understanding = Understanding()
    generation: Generation = Generation()
    analysis: Analysis
    report: Report = Report()
