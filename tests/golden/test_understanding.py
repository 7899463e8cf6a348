"""Every benchmark's figures against the authors' scorers, lmms-eval and VLMEvalKit on the same answers."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.golden.make_understanding import ITEMS, SEED, answers_of
from workflow_scripts.benchmarks.understanding import BENCHMARKS
from workflow_scripts.benchmarks.understanding.base import answer_row, read_questions
from workflow_scripts.benchmarks.understanding.make_tiny import MAKERS, make

GOLDEN = json.loads((Path(__file__).parent / "understanding.json").read_text())


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """The questions and the rows of table `answers` of every benchmark."""
    found = {}
    for name, folder in make(tmp_path_factory.mktemp("made"), ITEMS, SEED).items():
        benchmark = BENCHMARKS[name]
        questions = read_questions(benchmark, folder)
        raw = answers_of(benchmark, questions)
        found[name] = (questions, [answer_row(benchmark, q, text) for q, text in zip(questions, raw, strict=True)])
    return found


@pytest.mark.parametrize("name", MAKERS)
def test_figures_are_those_of_other_scorers(name, answered):
    benchmark, (_, rows) = BENCHMARKS[name], answered[name]
    readable = benchmark.metrics([row for row in rows if row["answer"] is not None])
    found = benchmark.metrics(rows) | {f"readable: {variant}": value for variant, value in readable.items()}
    for golden in GOLDEN["figures"][name]:
        expected = pytest.approx(golden["value"], rel=1e-12, abs=golden.get("within", 0.0))
        assert found[golden["variant"]] == expected, golden


@pytest.mark.parametrize("name", MAKERS)
def test_both_headlines_of_every_benchmark_have_a_golden(name):
    """A variant that shares its figure with the other headline needs no golden of its own."""
    benchmark = BENCHMARKS[name]
    covered = {benchmark.variants[g["variant"]].metric for g in GOLDEN["figures"][name] if ":" not in g["variant"]}
    parts = {"sum of accuracy and accuracy+"}  # MME's two sums
    assert {benchmark.published.metric, benchmark.overall.metric} <= covered | parts


@pytest.mark.parametrize("name", GOLDEN["sha256_of_prompts"])
def test_prompts_are_those_of_lmms_eval(name, answered):
    """Where both ask alike. Elsewhere they differ on purpose, see each benchmark's module."""
    texts = [BENCHMARKS[name].prompt(question).removeprefix("<image>\n") for question in answered[name][0]]
    assert hashlib.sha256("\0".join(texts).encode()).hexdigest() == GOLDEN["sha256_of_prompts"][name]
