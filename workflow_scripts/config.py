"""Read a sweep's config and find all its faults at once, before any job."""

from pathlib import Path
from string import Formatter
from typing import Any

import yaml
from pydantic import ValidationError

from workflow_scripts.benchmarks import UNDERSTANDING
from workflow_scripts.benchmarks.generation.roles import MODELS
from workflow_scripts.benchmarks.understanding.brought import faults_of_results
from workflow_scripts.benchmarks.understanding.lmms_eval_tasks import faults_of_asked
from workflow_scripts.config_messages import hint, message
from workflow_scripts.errors import UserError
from workflow_scripts.plan import (
    asked_of_engine,
    assets_of,
    conversations_name,
    conversations_of,
    in_world,
    index_job,
    pipelines_of,
    training_stages,
)
from workflow_scripts.spec import BASELINES, INTERSECTION, Config
from workflow_scripts.t2i.benchmarks import GENERATION


class _OneOfEachKey(yaml.SafeLoader):
    """A YAML loader that refuses a key that stands twice in one mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise UserError(
                    f"{key.start_mark.name}:{line}: key {key.value!r} stands twice, first in line {seen[key.value]}"
                )
            seen[key.value] = line
        return super().construct_mapping(node, deep)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """A YAML file as a dict. Raises UserError naming file and line where it is absent, broken or has a key twice."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            value = yaml.load(file, _OneOfEachKey)  # noqa: S506 (a SafeLoader)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML: {error}") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected a mapping of keys")
    return value


def load_config(path: str | Path) -> Config:
    """Read and check a config file. Raises UserError with every fault."""
    return check_config(read_yaml(path), str(path))


def check_config(raw: dict[str, Any], place: str = "config") -> Config:
    """Validate a config that is already read. Raises UserError that lists every fault with its key and nearest name."""
    faults: list[str] = []
    config = None
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        faults += [message(e) for e in error.errors()]
    faults += _faults_between_sections(raw, config)
    if faults:
        raise UserError(f"{place}: {len(faults)} fault{'s' * (len(faults) > 1)}\n  " + "\n  ".join(faults))
    assert config is not None
    return config


def _section(raw: Any, *keys: str) -> dict[str, Any]:
    """A mapping inside the raw config; empty where it is absent or something else (Pydantic says so)."""
    for key in keys:
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw if isinstance(raw, dict) else {}


def _faults_between_sections(raw: dict[str, Any], config: Config | None) -> list[str]:
    """Names that must exist elsewhere in the config. Read from the raw text, so that they show beside other faults."""
    faults = []
    samplings = list(_section(raw, "captioning", "samplings"))
    users = {"captioning.sampling": _section(raw, "captioning").get("sampling")}
    for name, captioner in _section(raw, "captioners").items():
        users[f"captioners.{name}.sampling"] = _section(captioner).get("sampling")
    for place, name in users.items():
        if name is not None and name not in samplings:
            faults.append(f"{place}: no sampling {name!r}{hint(str(name), samplings)}")
    for kind, known in (("understanding", UNDERSTANDING), ("generation", GENERATION)):
        for name in _section(raw, kind, "benchmarks"):
            if name not in known:
                faults.append(f"{kind}.benchmarks.{name}: unknown benchmark{hint(str(name), list(known))}")
    if config is not None:
        faults += _faults_of_whole(config)
    return faults


def _faults_of_whole(config: Config) -> list[str]:
    """What a config needs as a whole, once every section is sound by itself."""
    checks = (
        *(_faults_of_analysis, _faults_of_assets, _faults_of_scorers, _faults_of_conversations),
        *(_faults_of_training, _faults_of_results, _faults_of_pictures),
    )
    faults = [fault for check in checks for fault in check(config)]
    if config.published is not None:
        return faults
    for key in ("captioners", "captioning", "pool", "capeval"):
        if not getattr(config, key):
            faults.append(f"{key}: missing, a sweep that measures needs it")
    for kind in ("understanding", "generation"):
        section = getattr(config, kind)
        if bool(section.pipelines) != bool(section.benchmarks):
            faults.append(f"{kind}: pipelines and benchmarks go together")
    if config.pool is not None:
        held = sum(source.count for source in config.pool.sources.values())
        if held < config.pool.size:
            faults.append(f"pool.size: {config.pool.size} images asked, the sources hold {held}")
        for name, pipeline in config.generation.pipelines.items():
            if pipeline.num_images > config.pool.size:
                faults.append(
                    f"generation.pipelines.{name}.num_images: {pipeline.num_images} asked, "
                    f"the pool has {config.pool.size}"
                )
    faults += [
        f"understanding.benchmarks.{name}.harness: {fault}"
        for name, fault in faults_of_asked(config.understanding.benchmarks, config.understanding.engine).items()
    ]
    if config.jobs == "whole":
        faults += [
            f"understanding.benchmarks.{name}: is asked in a process of its own, `jobs: whole` knows only one"
            for name in asked_of_engine(config.understanding.benchmarks)
        ]
    for name in set(config.captioners) & set(BASELINES):
        faults.append(f"captioners.{name}: the name of a baseline of CAPEval, give the captioner another")
    if INTERSECTION in config.captioners:
        faults.append(f"captioners.{INTERSECTION}: the name of all captioners' selection of images, give it another")
    if config.world is not None:
        faults += _faults_of_world(config)
    for what, named in (
        ("seeds", config.seeds),
        ("captioners: label", [captioner.label for captioner in config.captioners.values()]),
    ):
        faults += [f"{what} {name!r} stands twice" for name in sorted(set(named), key=str) if named.count(name) > 1]
    for name, captioner in config.captioners.items():
        if captioner.engine == "exact" and config.world is None:
            faults.append(f"captioners.{name}.engine: 'exact' reads blocks pictures, this sweep has no 'world'")
    return faults


def _faults_of_assets(config: Config) -> list[str]:
    """Repositories that two places of the config want in different ways: there is one folder for both."""
    faults = []
    for uses in assets_of(config).values():
        (key, first), *others = uses.items()
        for other, source in others:
            for field in ("hub", "kind", "revision"):
                if getattr(first, field) != getattr(source, field):
                    faults.append(
                        f"{other}: {field} {getattr(source, field)!r}, but {key} has {getattr(first, field)!r} "
                        "for the same repository"
                    )
    return faults


def _faults_of_scorers(config: Config) -> list[str]:
    """Roles behind a generation benchmark's scores that are missing, unknown, or filled with what does not fit."""
    faults = []
    for name, benchmark in config.generation.benchmarks.items():
        roles, place = MODELS.get(name, {}), f"generation.benchmarks.{name}.models"
        faults += [
            f"{place}.{role}: {name} has no such role{hint(role, list(roles))}"
            for role in benchmark.models
            if role not in roles
        ]
        for role, ways in roles.items():
            model, choices = benchmark.models.get(role), ", ".join(map(repr, ways))
            if model is None:
                faults.append(f"{place}.{role}: missing, {name} needs it; its `through` is one of {choices}")
            elif model.through not in ways:
                faults.append(f"{place}.{role}.through: {model.through!r} does not fit, expected one of {choices}")
            elif model.hub and not ways[model.through].on_hub:
                faults.append(f"{place}.{role}.hub: not for {model.through!r}, give its folder as `path`")
    return faults


def _faults_of_conversations(config: Config) -> list[str]:
    """Data sets that two stages want in different ways: there is one list for both."""
    faults, first = [], conversations_of(config)
    for pipeline, one in config.understanding.pipelines.items():
        for name, stage in (("align", one.align), ("sft", one.sft)):
            other = first[conversations_name(stage)]
            mine, its = (index_job(config, of).model_dump() for of in (stage, other))
            faults += [
                f"understanding.pipelines.{pipeline}.{name}.{key}: {mine[key]}, but another stage with the data "
                f"{conversations_name(stage)} has {its[key]}"
                for key in ("data", "images", "faulty_samples")
                if mine[key] != its[key]
            ]
    return faults


def _faults_of_training(config: Config) -> list[str]:
    """Training jobs of several processes without a GPU for each, or where one process does it all."""
    faults = []
    for key, stage in training_stages(config).items():
        gpus, nodes, devices = stage.needs.gpus, stage.needs.nodes, stage.devices
        if gpus == 0 and devices != nodes:
            faults.append(
                f"{key}.needs.gpus: 0, but devices is {devices}: say how many GPUs a node has, devices is needs.gpus x "
                f"needs.nodes; on machines without, devices is {nodes}"
            )
        if config.jobs == "whole" and devices > 1 and not key.endswith(".align"):
            faults.append(f"{key}.devices: {devices}, but `jobs: whole` trains in one process: 1, or `jobs: apart`")
    return faults


def _faults_of_results(config: Config) -> list[str]:
    """Results of a harness that it cannot have, or that several models would share."""
    benchmarks = config.understanding.benchmarks
    faults = [
        f"understanding.benchmarks.{name}.harness: {fault}" for name, fault in faults_of_results(benchmarks).items()
    ]
    differ = {"captioner": True, "pipeline": len(config.understanding.pipelines) > 1, "seed": len(config.seeds) > 1}
    for name, one in benchmarks.items():
        said = {field for _, field, *_ in Formatter().parse(one.results or "")}
        missing = [f"{{{what}}}" for what, several in differ.items() if several and what not in said]
        if one.results is not None and missing:
            faults.append(
                f"understanding.benchmarks.{name}.results: {one.results!r} has no {' and no '.join(missing)}, so "
                "several models would get the same scores"
            )
    return faults


def _faults_of_pictures(config: Config) -> list[str]:
    """More pictures of a prompt than a benchmark's official layout holds."""
    faults = []
    for name, one in config.generation.benchmarks.items():
        if name not in GENERATION:
            continue
        try:
            GENERATION[name].files([], one.images_per_prompt)
        except UserError as error:
            faults.append(f"generation.benchmarks.{name}.images_per_prompt: {error}")
    return faults


def _faults_of_world(config: Config) -> list[str]:
    """A made world that this sweep would not use: its paths lie in the results of another one."""
    faults, made = [], config.results / "world"
    for name, source in config.pool.sources.items() if config.pool else ():
        place = f"pool.sources.{name}"
        if not in_world(config, source):
            faults.append(f"{place}.path: {source.path} is not of this sweep's world, which is made in {made}")
        elif source.count != config.world.pool_images:
            faults.append(f"{place}.count: {source.count}, world.pool_images is {config.world.pool_images}")
    data = config.capeval.data if config.capeval else None
    if data and not in_world(config, data):
        faults.append(f"capeval.data.path: {data.path} is not of this sweep's world, which is made in {made}")
    return faults


def _faults_of_analysis(config: Config) -> list[str]:
    """Captioners, pipelines and benchmarks that the analysis names and the sweep does not have."""
    try:
        pipelines = pipelines_of(config)
    except OSError as error:
        return [f"published.tables: {error.filename}: no such file"]
    benchmarks = list(dict.fromkeys(name for one in pipelines.values() for name in one.benchmarks))
    captioners = list(config.captioners)
    named: list[tuple[str, list[str], list[str]]] = [("aggregate", list(config.analysis.aggregate), list(pipelines))]
    for name, composite in config.analysis.composites.items():
        named.append((f"composites.{name}.pipelines", composite.pipelines, list(pipelines)))
        named.append((f"composites.{name}.benchmarks", composite.benchmarks, benchmarks))
    for name, variant in config.analysis.sensitivity.items():
        named.append((f"sensitivity.{name}.without_benchmarks", variant.without_benchmarks, benchmarks))
        named.append((f"sensitivity.{name}.only_benchmarks", variant.only_benchmarks, benchmarks))
        if not config.published:
            named.append((f"sensitivity.{name}.without_captioners", variant.without_captioners, captioners))
    return [
        f"analysis.{place}: {name!r} is not in this sweep{hint(name, known)}"
        for place, names, known in named
        for name in names
        if name not in known
    ]
