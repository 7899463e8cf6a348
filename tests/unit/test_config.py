"""A config's faults are all found at once, and each names its key, its place and the nearest right name."""

import copy

import pytest

from workflow_scripts import docs
from workflow_scripts.config import check_config, load_config, read_yaml
from workflow_scripts.errors import UserError
from workflow_scripts.plan import assets_of, caption_job, caption_jobs, finetune_job, num_shards, sft_job


@pytest.fixture(scope="module")
def raw(root):
    return read_yaml(root / "config.yaml")


def faults_of(raw, *edits):
    edited = copy.deepcopy(raw)
    for edit in edits:
        edit(edited)
    with pytest.raises(UserError) as caught:
        check_config(edited, "config.yaml")
    return str(caught.value)


@pytest.mark.parametrize("sweep", ["config.yaml", "resources/sweeps/published.yaml", "resources/sweeps/blocks.yaml"])
def test_shipped_configs_are_sound(root, sweep, monkeypatch):
    monkeypatch.chdir(root)
    load_config(sweep)


def test_default_is_the_papers_sweep(root):
    config = load_config(root / "config.yaml")
    assert len(config.captioners) == 10
    assert len({one.family for one in config.captioners.values()}) == 4
    assert len(config.understanding.benchmarks) == 16
    assert len(config.generation.benchmarks) == 3
    assert sum(source.count for source in config.pool.sources.values()) == 1_246_901
    assert num_shards(config) == 120
    assert [len(shards) for shards in caption_jobs(config).values()] == [12] * 10
    assert {name: p.sft.accumulation for name, p in config.understanding.pipelines.items()} == {
        "clip-vicuna": 4,
        "siglip-qwen3": 4,
    }


def test_unknown_key_names_the_nearest(raw):
    def edit(config):
        config["captioners"]["qwen3-vl-8b"]["engin"] = config["captioners"]["qwen3-vl-8b"].pop("engine")

    text = faults_of(raw, edit)
    assert "captioners.qwen3-vl-8b.engin: unknown key, did you mean 'engine'?" in text
    assert "captioners.qwen3-vl-8b.engine: missing" in text


def test_all_faults_at_once(raw):
    text = faults_of(
        raw,
        lambda c: c["captioning"].update(sampling="sampeld"),
        lambda c: c["understanding"]["benchmarks"].update(mmbench_fr={"path": "x"}),
        lambda c: c["generation"]["pipelines"]["qwen-image"].update(family="qwen_image"),
        lambda c: c["pool"].update(size=2_000_000),
        lambda c: c["understanding"]["pipelines"]["clip-vicuna"]["sft"].update(global_batch=100),
    )
    assert "captioning.sampling: no sampling 'sampeld', did you mean 'sampled'?" in text
    assert "understanding.benchmarks.mmbench_fr: unknown benchmark, did you mean 'mmbench_" in text
    assert "generation.pipelines.qwen-image.family: 'qwen_image'" in text and "did you mean 'qwen-image'?" in text
    assert "understanding.pipelines.clip-vicuna.sft: global_batch 100 is no multiple" in text


def test_faults_of_the_whole(raw):
    text = faults_of(
        raw,
        lambda c: c["pool"].update(size=2_000_000),
        lambda c: c["captioners"].update(
            dialled={"label": "D", "family": "D", "engine": "exact", "dial": {"drop": 0, "falsify": 0}},
            intersection={**c["captioners"]["qwen3-vl-8b"], "label": "I"},
        ),
        lambda c: c["analysis"]["composites"]["hallucination"]["benchmarks"].append("popee"),
    )
    assert "pool.size: 2000000 images asked, the sources hold 1246901" in text
    assert "captioners.intersection: the name of all captioners' selection of images" in text
    assert "captioners.dialled.engine: 'exact' reads blocks pictures" in text
    assert "analysis.composites.hallucination.benchmarks: 'popee' is not in this sweep, did you mean 'pope'?" in text


def test_captions_that_fill_a_whole_sample_are_a_fault(raw):
    def sft(**changes):
        return lambda c: c["understanding"]["pipelines"]["clip-vicuna"]["sft"].update(changes)

    edited = copy.deepcopy(raw)
    sft(max_length=2048, max_caption_tokens=2047)(edited)
    check_config(edited, "config.yaml")
    text = faults_of(raw, sft(max_length=1024, max_caption_tokens=1024))
    assert "clip-vicuna.sft: max_caption_tokens 1024 is not below max_length 1024" in text


def test_devices_are_the_gpus_of_all_nodes(raw):
    def sft(**changes):
        return lambda c: c["understanding"]["pipelines"]["clip-vicuna"]["sft"].update(changes)

    needs = {"gpus": 8, "nodes": 2, "mem_gb": 512, "hours": 72, "threads": 64}
    edited = copy.deepcopy(raw)
    sft(devices=16, needs=needs)(edited)
    check_config(edited, "config.yaml")
    assert "sft: devices is 8, needs.gpus x needs.nodes is 8 x 2" in faults_of(raw, sft(needs=needs))
    assert "sft: devices 8 is no multiple of needs.nodes 3" in faults_of(raw, sft(needs={"nodes": 3}))
    assert "needs.nodes: unknown key" in faults_of(raw, lambda c: c["pool"]["needs"].update(nodes=2))


def test_processes_without_a_gpu_are_one_a_node(raw):
    def sft(**changes):
        return lambda c: c["understanding"]["pipelines"]["clip-vicuna"]["sft"].update(changes)

    key = "understanding.pipelines.clip-vicuna.sft.needs.gpus"
    assert f"{key}: 0, but devices is 8: say how many GPUs a node has" in faults_of(raw, sft(needs={}))
    text = faults_of(raw, sft(needs={"nodes": 2}))
    assert f"{key}: 0, but devices is 8" in text and "on machines without, devices is 2" in text
    for devices, nodes in ((1, 1), (2, 2)):
        edited = copy.deepcopy(raw)
        sft(devices=devices, needs={"nodes": nodes})(edited)
        check_config(edited)


def test_a_sweep_of_whole_jobs_trains_in_one_process(root):
    raw = read_yaml(root / "resources/sweeps/blocks.yaml")
    changes = {"devices": 2, "per_device_batch": 16, "needs": {"gpus": 2}}
    text = faults_of(raw, lambda c: c["generation"]["pipelines"]["sd3"].update(
        training=c["generation"]["pipelines"]["sd3"]["training"] | changes
    ))  # fmt: skip
    assert "generation.pipelines.sd3.training.devices: 2, but `jobs: whole` trains in one process" in text


def test_pictures_are_whole_patches(raw):
    def edit(resolution):
        return lambda c: c["generation"]["pipelines"]["qwen-image"].update(resolution=resolution)

    place = "generation.pipelines.qwen-image.resolution"
    assert f"{place}: 1000 is no multiple of 16, the nearest are 992 and 1008" in faults_of(raw, edit(1000))
    assert f"{place}: 5 is no multiple of 16, the nearest are 16 and 32" in faults_of(raw, edit(5))


def test_pictures_of_a_prompt_fit_the_official_layout(raw):
    text = faults_of(raw, lambda c: c["generation"]["benchmarks"]["dpg_bench"].update(images_per_prompt=10))
    assert "1 fault\n" in text
    assert "dpg_bench.images_per_prompt: dpg_bench: 10 pictures a prompt, but the official layout has 4 tiles" in text
    text = faults_of(raw, lambda c: c["generation"]["benchmarks"].update(dpg={"path": "x"}))
    assert "generation.benchmarks.dpg: unknown benchmark" in text


def test_every_model_has_results_of_its_own(raw):
    def mme(results):
        return lambda c: c["understanding"]["benchmarks"].update(mme={"results": results, "harness": "lmms-eval"})

    place = "understanding.benchmarks.mme.results"
    assert f"{place}: 'runs' has no {{captioner}} and no {{pipeline}}, so several models" in faults_of(raw, mme("runs"))
    assert "has no {pipeline}, so" in faults_of(raw, mme("runs/{captioner}"))
    assert "has no {captioner}, so" in faults_of(raw, mme("runs/{{captioner}}/{pipeline}"))
    both = mme("runs/{pipeline}/{captioner}")
    assert "has no {seed}, so" in faults_of(raw, both, lambda c: c.update(seeds=[0, 1]))
    edited = copy.deepcopy(raw)
    both(edited)
    del edited["understanding"]["pipelines"]["clip-vicuna"]
    edited["analysis"]["composites"] = {}
    mme("runs/{captioner}")(edited)
    check_config(edited)


@pytest.mark.parametrize("harness", ["lmms-eval", "VLMEvalKit"])
def test_a_harness_has_results_of_the_benchmarks_that_its_reader_reads(raw, harness):
    benchmarks = raw["understanding"]["benchmarks"]
    results = {"results": "runs/{pipeline}/{captioner}", "harness": harness}
    edited = copy.deepcopy(raw)
    edited["understanding"]["benchmarks"] = {name: results for name in benchmarks if name != "amber"}
    edited["understanding"]["benchmarks"]["amber"] = results | {"harness": "VLMEvalKit"}
    check_config(edited)
    text = faults_of(
        edited,
        lambda c: c["understanding"]["benchmarks"].update(
            amber=results | {"harness": "lmms-eval"}, blocks_pope=results
        ),
    )
    place = "understanding.benchmarks"
    assert "2 faults" in text and f"{place}.blocks_pope.harness: {harness!r} has no results of it: leave out" in text
    assert f"{place}.amber.harness: 'lmms-eval' has no results of it: take those of 'VLMEvalKit', or leave out" in text


def test_a_key_in_the_wrong_section_is_told_where_it_belongs(raw):
    def edit(config):
        pipelines = config["generation"]["pipelines"]
        pipelines["qwen-image"]["training"]["aspect"] = pipelines["qwen-image"]["loader_workers"] = 1
        config["understanding"]["pipelines"]["clip-vicuna"]["loader_workers"] = 1
        config["captioners"]["qwen3-vl-8b"]["needs"]["nodes"] = 2
        config |= {"train_on": "own", "seed": 1, "colour": 1}
        config["pool"] |= {"report": {}, "seeds": [1]}

    text = faults_of(raw, edit)
    vlm, pipeline = "understanding.pipelines.clip-vicuna", "generation.pipelines.qwen-image"
    for line in (
        f"{pipeline}.training.aspect: unknown key, it belongs to {pipeline}.aspect",
        f"{pipeline}.loader_workers: unknown key, it belongs to {pipeline}.training.loader_workers",
        f"{vlm}.loader_workers: unknown key, it belongs to {vlm}.align.loader_workers or {vlm}.sft.loader_workers",
        "captioners.qwen3-vl-8b.needs.nodes: unknown key, it belongs to understanding.pipelines.*.align.needs.nodes or "
        "understanding.pipelines.*.sft.needs.nodes or generation.pipelines.*.training.needs.nodes",
        "train_on: unknown key, it belongs to captioning.train_on",
        "pool.report: unknown key, it belongs to the top level",
        "pool.seeds: unknown key, did you mean 'seed'?",
        "seed: unknown key, did you mean 'seeds'?",
        "colour: unknown key",
    ):
        assert f"\n  {line}\n" in text + "\n"


def test_what_a_value_should_be_is_said_in_plain_words(raw):
    def edit(config):
        sft, pool = config["understanding"]["pipelines"]["clip-vicuna"]["sft"], config["pool"]
        config["generation"]["pipelines"]["qwen-image"]["embedding_disk_gb"] = "200GB"
        config["generation"]["benchmarks"]["geneval"]["models"]["colors"] = "owner/name"
        sft |= {"images": ["a"], "needs": None, "learning_rate": "fast", "steps": 1.5, "train": "vision"}
        sft["gradient_checkpointing"] = "perhaps"
        config["captioners"]["qwen3-vl-4b"] |= {"label": 3, "remote_code": "main"}
        config["captioners"]["a b"] = config["captioners"]["qwen3-vl-8b"]
        pool |= {"size": 0, "sources": ["a"]}

    text = faults_of(raw, edit)
    sft, captioner = "understanding.pipelines.clip-vicuna.sft", "captioners.qwen3-vl-4b"
    colors = "generation.benchmarks.geneval.models.colors"
    for line in (
        "generation.pipelines.qwen-image.embedding_disk_gb: expected a whole number, got '200GB'",
        f"{colors}: expected a section like {{through: ..., hub: ...}}, got 'owner/name'",
        f"{sft}.images: expected a path, got ['a']",
        f"{sft}.needs: expected a section like {{gpus: ..., mem_gb: ...}}, got nothing",
        f"{sft}.learning_rate: expected a number, got 'fast'",
        f"{sft}.steps: expected a whole number, got 1.5",
        f"{sft}.train: expected a list, got 'vision'",
        f"{sft}.gradient_checkpointing: expected true or false, got 'perhaps'",
        f"{captioner}.label: expected text, got 3",
        f"{captioner}.remote_code: 'main' does not match ^[0-9a-f]{{40}}$ (opt in",
        "captioners.a b: a name has letters, digits, '.', '_', '-'",
        "pool.size: should be greater than 0 (got 0)",
        "pool.sources: expected a mapping like {name: ...}, got ['a']",
    ):
        assert f"\n  {line}" in text
    assert not any(word in text for word in ("instance of", "<class", "Input", "parse"))


def test_reading_ahead_and_what_a_job_asks_of_the_machine_rerun_nothing(raw):
    edited = copy.deepcopy(raw)
    stage = edited["understanding"]["pipelines"]["clip-vicuna"]["sft"]
    stage["loader_workers"] = 12
    stage["needs"]["hours"] = 1
    edited["generation"]["pipelines"]["qwen-image"]["training"]["loader_workers"] = 0
    one, other = (check_config(config, "config.yaml") for config in (raw, edited))
    assert sft_job(one, "clip-vicuna", 0) == sft_job(other, "clip-vicuna", 0)
    assert finetune_job(one, "qwen-image", 0) == finetune_job(other, "qwen-image", 0)


def test_a_seed_or_a_label_twice(raw):
    label = raw["captioners"]["glm-4.6v-flash"]["label"]
    text = faults_of(
        raw, lambda c: c.update(seeds=[1, 1]), lambda c: c["captioners"]["qwen3-vl-8b"].update(label=label)
    )
    assert "seeds 1 stands twice" in text and f"captioners: label {label!r} stands twice" in text


def test_the_world_of_another_sweep(root):
    raw = read_yaml(root / "resources/sweeps/blocks.yaml")
    text = faults_of(raw, lambda c: c.update(results="results/mine"))
    assert "pool.sources.blocks.path: results/blocks/world/pool/images is not of this sweep's world" in text
    assert "made in results/mine/world" in text and "capeval.data.path: results/blocks/world/capeval is not" in text
    text = faults_of(raw, lambda c: c["world"].update(pool_images=200))
    assert "pool.sources.blocks.count: 1500, world.pool_images is 200" in text


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ({}, "exactly one of 'hub' and 'path'"),
        ({"hub": "a/b", "path": "c"}, "exactly one of 'hub' and 'path'"),
        ({"hub": "no-owner"}, "hub"),
    ],
)
def test_a_source_is_in_one_place(raw, source, fault):
    assert fault in faults_of(raw, lambda c: c["captioners"]["qwen3-vl-8b"].update(model=source))


def test_every_role_behind_a_generation_benchmark_is_filled_with_what_fits(raw):
    def edit(config):
        benchmarks = config["generation"]["benchmarks"]
        geneval, dpg, compbench = (benchmarks[name]["models"] for name in ("geneval", "dpg_bench", "t2i_compbench"))
        geneval["instance"] = geneval.pop("instances")
        dpg["answers"] = {"through": "modelscope", "hub": "damo/mplug"}
        compbench["depth"]["through"] = "clip"

    text = faults_of(raw, edit)
    assert "4 faults" in text
    place = "generation.benchmarks"
    assert f"{place}.geneval.models.instance: geneval has no such role, did you mean 'instances'?" in text
    assert f"{place}.geneval.models.instances: missing, geneval needs it; its `through` is one of 'mask2former'" in text
    assert f"{place}.dpg_bench.models.answers.hub: not for 'modelscope', give its folder as `path`" in text
    assert f"{place}.t2i_compbench.models.depth.through: 'clip' does not fit, expected one of 'dpt'" in text
    text = faults_of(raw, lambda c: c["generation"]["benchmarks"]["geneval"]["models"]["colors"].update(through="clp"))
    assert f"{place}.geneval.models.colors.through: 'clp'" in text and "did you mean 'clip'?" in text


def test_the_blocks_worlds_pictures_need_no_model(root):
    raw = read_yaml(root / "resources/sweeps/blocks.yaml")
    colors = {"through": "clip", "path": "clip"}
    text = faults_of(raw, lambda c: c["generation"]["benchmarks"]["blocks_dpg"].update(models={"colors": colors}))
    assert "generation.benchmarks.blocks_dpg.models.colors: blocks_dpg has no such role" in text


def test_remote_code_is_for_transformers(raw):
    text = faults_of(raw, lambda c: c["captioners"]["qwen3-vl-8b"].update(remote_code="a" * 40))
    assert "remote_code is for engine 'transformers', the engine is 'vllm'" in text


def test_remote_code_needs_a_commit(raw):
    text = faults_of(raw, lambda c: c["captioners"]["llava-ov-1.5-8b"].update(remote_code="main"))
    assert "captioners.llava-ov-1.5-8b.remote_code" in text


def test_a_key_twice_is_an_error(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("sweep: a\nresults: r\nsweep: b\n")
    with pytest.raises(UserError, match=r"config.yaml:3: key 'sweep' stands twice, first in line 1"):
        read_yaml(path)


def test_a_job_knows_only_what_it_uses(root):
    config = load_config(root / "config.yaml")
    edited = copy.deepcopy(read_yaml(root / "config.yaml"))
    edited["captioners"]["qwen3-vl-8b"]["needs"]["hours"] = 99
    edited["captioners"]["qwen3-vl-8b"]["label"] = "Another label"
    edited["captioners"]["qwen3-vl-8b"]["model"]["licence"] = "another"
    assert caption_job(check_config(edited), "qwen3-vl-8b") == caption_job(config, "qwen3-vl-8b")
    edited["captioners"]["qwen3-vl-8b"]["prompt"] = "Describe."
    assert caption_job(check_config(edited), "qwen3-vl-8b") != caption_job(config, "qwen3-vl-8b")


def test_assets_have_one_name_each(root):
    assets = assets_of(load_config(root / "config.yaml"))
    assert "Qwen--Qwen3-VL-8B-Instruct" in assets
    assert all(source.hub for uses in assets.values() for source in uses.values())


@pytest.mark.parametrize("path", docs.documents(), ids=lambda path: path.name)
def test_documents_are_as_the_models_make_them(path):
    assert path.read_text(encoding="utf-8") == docs.documents()[path], "run `make docs`"


def test_two_stages_share_one_list_of_their_conversations(raw):
    text = faults_of(
        raw, lambda c: c["understanding"]["pipelines"]["siglip-qwen3"]["sft"].update(faulty_samples="leave_out")
    )
    assert (
        "understanding.pipelines.siglip-qwen3.sft.faulty_samples: leave_out, but another stage with the data "
        "liuhaotian--LLaVA-Instruct-150K has error" in text
    )
