"""Real benchmarks put to a model: what it is shown, what is kept, what stops."""

import json

import pytest
from asked_models import evaluate_spec, run_evaluate, save_trained
from PIL import Image
from transformers import LlavaForConditionalGeneration
from vlm_helpers import make_base

from workflow_scripts.benchmarks.understanding import BENCHMARKS
from workflow_scripts.benchmarks.understanding.base import IMAGE, read_questions
from workflow_scripts.benchmarks.understanding.make_tiny import make
from workflow_scripts.config import check_config, read_yaml
from workflow_scripts.engines.interface import Answer
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_run_record
from workflow_scripts.plan import brought_results, evaluate_environment, evaluate_job
from workflow_scripts.records import read_table
from workflow_scripts.spec import VlmModel
from workflow_scripts.vlm import ask
from workflow_scripts.vlm.answering import write_answers
from workflow_scripts.vlm.batches import Batches
from workflow_scripts.vlm.model import load


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return make(tmp_path_factory.mktemp("tiny"), items=9)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("base") / "clip-llama")


@pytest.fixture(scope="module")
def manifest(base, tmp_path_factory):
    return save_trained(base, tmp_path_factory.mktemp("trained"), pad_to_square=True)


class Scripted:
    """An engine that says what a function makes of (benchmark, question), and remembers its requests."""

    reads_images = True

    def __init__(self, script=lambda benchmark, question: question.answers[0]):
        self.script, self.requests, self.facts, self._waiting = script, [], {}, []

    def room(self):
        return 4 - len(self._waiting)

    def submit(self, request):
        self.requests.append(request)
        self._waiting.append(request)

    def collect(self):
        done, self._waiting = self._waiting[::-1], []
        return [(request, self._answer(*request.key)) for request in done]

    def _answer(self, benchmark, question):
        text = self.script(benchmark.name, question)
        return text if isinstance(text, Answer) else Answer(text, 1, "stop")

    def close(self):
        pass


@pytest.fixture
def scripted(monkeypatch):
    """`scripted(script)` answers the next evaluation."""

    def put(*script):
        engine = Scripted(*script)
        monkeypatch.setattr(ask, "open_engine", lambda job, serving, pictures: setattr(engine, "job", job) or engine)
        return engine

    return put


def test_right_answers_are_full_scores_in_all_sixteen(base, manifest, folders, scripted, tmp_path):
    engine = scripted()
    run_evaluate(manifest, evaluate_spec(base, folders), tmp_path)
    scores = read_table(tmp_path / "scores.csv", "benchmark_scores").set_index(["benchmark", "variant"])
    assert {name for name, _ in scores.index} == set(BENCHMARKS)
    for name in BENCHMARKS:
        for variant in ("published", "overall"):
            assert scores.loc[(name, variant), "score"] == pytest.approx(100), (name, variant)
    assert scores["num_unparsed"].sum() == 0
    answers = read_table(tmp_path / "answers.parquet", "answers")
    assert len(answers) == len(engine.requests) == read_run_record(tmp_path / "scores.csv")["num_questions"]
    assert answers["extraction"].notna().all() and answers["correct"].all()
    assert engine.job.max_images == 2, "MMMU's"
    assert all(len(request.images) == request.text.count(IMAGE) for request in engine.requests)
    assert {request.sampling.temperature for request in engine.requests} == {0}


def test_failed_requests_stop_their_benchmarks_and_alone_are_asked_again(base, manifest, folders, scripted, tmp_path):
    broken = {"mme": 3, "pope": 2}
    spec = evaluate_spec(base, {name: folders[name] for name in ("mme", "pope", "ai2d")})

    def script(name, question):
        if broken.get(name, 0) > 0:
            broken[name] -= 1
            return Answer(None, error="no memory")
        return question.answers[0]

    first = scripted(script)
    with pytest.raises(UserError, match=r"benchmarks\.mme: 3 failed, first .*no memory(.|\n)*pope: 2 failed") as caught:
        run_evaluate(manifest, spec, tmp_path)
    assert "ai2d" not in str(caught.value)
    assert not (tmp_path / "scores.csv").exists()
    second = scripted()
    run_evaluate(manifest, spec, tmp_path)
    assert len(second.requests) == 5
    again = {request.key[1].id for request in second.requests}
    assert len(again) == 5 and len(first.requests) == len(read_table(tmp_path / "answers.parquet", "answers"))


def test_another_benchmark_asks_nothing_again_another_model_everything(base, manifest, folders, scripted, tmp_path):
    two = {name: folders[name] for name in ("ai2d", "mmstar")}
    scripted()
    run_evaluate(manifest, evaluate_spec(base, {"ai2d": folders["ai2d"]}), tmp_path)
    further = scripted()
    run_evaluate(manifest, evaluate_spec(base, two), tmp_path)
    assert {request.key[0].name for request in further.requests} == {"mmstar"}
    nothing = scripted()
    run_evaluate(manifest, evaluate_spec(base, two), tmp_path)
    assert nothing.requests == []
    longer = scripted()
    run_evaluate(manifest, evaluate_spec(base, two, max_new_tokens=9), tmp_path)
    assert len(longer.requests) == 18
    other = save_trained(make_base(tmp_path / "siglip", "siglip-qwen3"), tmp_path / "other",
                         vision_feature_select_strategy="full")  # fmt: skip
    anew = scripted()
    run_evaluate(other, evaluate_spec(base, two), tmp_path)
    assert len(anew.requests) == 18


def test_a_question_beyond_the_context_is_unparsed(base, manifest, folders, scripted, tmp_path):
    ids = []

    def script(name, question):
        ids.append(question.id)
        return Answer(None, error="prompt of 999 tokens", too_long=True) if len(ids) == 1 else question.answers[0]

    scripted(script)
    run_evaluate(manifest, evaluate_spec(base, {"ai2d": folders["ai2d"]}), tmp_path)
    scores = read_table(tmp_path / "scores.csv", "benchmark_scores")
    assert set(scores["num_unparsed"]) == {1} and scores["score"].iloc[0] == pytest.approx(100 * 8 / 9)
    assert read_run_record(tmp_path / "scores.csv")["finish_reasons"] == {"ai2d": {"too_long": 1, "stop": 8}}


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """AMBER with noise for pictures, wide and tall."""
    folder = make(tmp_path_factory.mktemp("wide"), items=6)["amber"]
    for number, path in enumerate(sorted((folder / "image").iterdir())):
        size = (60, 30 + number) if number % 2 else (20 + number, 50)
        Image.effect_noise(size, 90).convert("RGB").save(path, "PNG")
    return folder


@pytest.mark.parametrize("pad", [True, False])
def test_the_model_is_shown_what_training_shows_it(base, wide, tmp_path, monkeypatch, pad):
    """Tokens and pixels that the engine makes of the trained folder alone are those of the training's preprocessing."""
    manifest = save_trained(base, tmp_path / "trained", pad_to_square=pad)
    generate, seen = LlavaForConditionalGeneration.generate, []

    def watched(self, **inputs):
        seen.append(inputs)
        return generate(self, **inputs)

    monkeypatch.setattr(LlavaForConditionalGeneration, "generate", watched)
    spec = evaluate_spec(base, {"amber": wide})
    spec["model"]["pad_to_square"] = pad
    run_evaluate(manifest, spec, tmp_path)
    settings = VlmModel.model_validate(spec["model"])
    model, processor = load(manifest.parent / "model", settings)
    questions = read_questions(BENCHMARKS["amber"], wide)
    asked = [
        (question.images[0].file, BENCHMARKS["amber"].prompt(question).removeprefix(IMAGE).strip())
        for question in questions
    ]
    expected = write_answers(model.eval(), Batches(processor, 128), asked, 8)
    ours, trainings = seen
    for name in ("input_ids", "pixel_values"):
        rows = ([row.tolist() for row in inputs[name]] for inputs in (ours, trainings))
        first, second = (sorted(some) for some in rows)
        assert first == second, name
    assert len({str(row.tolist()) for row in ours["pixel_values"]}) == 3
    found = read_table(tmp_path / "answers.parquet", "answers")
    assert found["raw_answer"].tolist() == expected


def lmms_results(folder):
    results = {"mme": {"alias": "mme", "mme_perception_score,none": 1000.0, "mme_cognition_score,none": 400.0}}
    folder.mkdir(parents=True)
    samples = {"mme": {"original": 2374, "effective": 2374}}
    (folder / "now_results.json").write_text(json.dumps({"results": results, "n-samples": samples}))
    return folder


def test_results_that_a_team_has_are_read(base, manifest, tmp_path):
    section = {"results": str(lmms_results(tmp_path / "lmms")), "harness": "lmms-eval"}
    run_evaluate(manifest, evaluate_spec(base, {"mme": section}), tmp_path)
    scores = read_table(tmp_path / "scores.csv", "benchmark_scores").set_index("variant")
    assert scores.loc["overall", "score"] == pytest.approx(50)
    assert set(scores["harness"]) == {"lmms-eval"}
    assert len(read_table(tmp_path / "answers.parquet", "answers")) == 0
    section["results"] = str(tmp_path / "absent")
    with pytest.raises(UserError, match=r"understanding\.benchmarks\.mme\.results: no such folder"):
        run_evaluate(manifest, evaluate_spec(base, {"mme": section}), tmp_path)


def test_answers_that_lmms_eval_logged_are_scored_by_our_rules(base, manifest, folders, tmp_path, caplog):
    (tmp_path / "lmms").mkdir()
    questions = read_questions(BENCHMARKS["mmmu"], folders["mmmu"])
    asked = [question for question in questions if question.kind.startswith("validation/")]
    lines = [
        json.dumps({"doc_id": n, "target": q.answers[0], "input": q.text, "resps": [[q.answers[0] if n else "?!"]]})
        for n, q in enumerate(asked)
    ]
    (tmp_path / "lmms/now_samples_mmmu_val.jsonl").write_text("\n".join(lines) + "\n")
    figures = {"results": {"mmmu_val": {"mmmu_acc,none": 0.25}}}
    counts = {"n-samples": {"mmmu_val": {"original": len(asked), "effective": len(asked)}}}
    (tmp_path / "lmms/now_results.json").write_text(json.dumps(figures | counts))
    section = {"path": str(folders["mmmu"]), "results": str(tmp_path / "lmms"), "harness": "lmms-eval"}
    run_evaluate(manifest, evaluate_spec(base, {"mmmu": section}), tmp_path)
    scores = read_table(tmp_path / "scores.csv", "benchmark_scores").set_index("variant")
    assert scores.loc["overall", "score"] == pytest.approx(100 * (1 - 1 / len(asked)))
    assert scores.loc["lmms-eval: overall", "score"] == 25
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == "mmmu, overall (accuracy, validation): 85.71 by our rules, 25.00 by lmms-eval's own"
    assert len(read_table(tmp_path / "answers.parquet", "answers")) == len(asked)


def test_config_says_where_and_how(root):
    raw = read_yaml(root / "config.yaml")
    config = check_config(raw)
    job = evaluate_job(config, "clip-vicuna", 0, "qwen3-vl-8b")
    assert (job.engine.engine, job.engine.max_model_len, evaluate_environment(config)) == ("vllm", 4096, "serve")
    raw["understanding"]["benchmarks"]["mme"] = {
        "results": "runs/{pipeline}/{captioner}-{seed}",
        "harness": "lmms-eval",
    }
    config = check_config(raw)
    names = ("clip-vicuna", 1, "qwen3-vl-8b")
    assert evaluate_job(config, *names).benchmarks["mme"].results == "runs/clip-vicuna/qwen3-vl-8b-1"
    assert brought_results(config, *names) == ["runs/clip-vicuna/qwen3-vl-8b-1"]


@pytest.mark.parametrize(
    ("benchmark", "fault"),
    [
        ({}, "exactly one of 'hub' and 'path', or 'results'"),
        ({"path": "a", "results": "b"}, "'results' needs 'harness'"),
        ({"path": "a", "harness": "VLMEvalKit"}, "VLMEvalKit is not run, its results are read"),
        ({"harness": "lmms-eval"}, "exactly one of 'hub' and 'path', or 'results'"),
        ({"path": "a", "hub": "b/c"}, "only one of 'hub' and 'path'"),
        ({"results": "{model}", "harness": "lmms-eval"}, "the names are {pipeline}, {seed}, {captioner}"),
        ({"path": "a", "results": "b", "harness": "VLMEvalKit"}, "leave out 'hub' and 'path'"),
    ],
)
def test_faults_of_a_benchmark(root, benchmark, fault):
    raw = read_yaml(root / "config.yaml")
    raw["understanding"]["benchmarks"]["mme"] = benchmark
    with pytest.raises(UserError) as caught:
        check_config(raw)
    assert "understanding.benchmarks.mme" in str(caught.value) and fault in str(caught.value)


def test_whole_jobs_ask_in_one_process(root):
    raw = read_yaml(root / "config.yaml")
    raw["jobs"] = "whole"
    with pytest.raises(UserError, match=r"understanding\.benchmarks\.mme: is asked in a process of its own"):
        check_config(raw)
