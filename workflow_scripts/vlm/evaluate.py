"""Ask a trained vision-language model the questions of the understanding benchmarks, and score its answers.

    python -m workflow_scripts.vlm.evaluate --spec '{"model": {...}, "benchmarks": {"mme": {"path": "assets/MME"}},
        "engine": {"engine": "vllm", "max_model_len": 4096}, "max_new_tokens": 1024}' \\
        --serving '{"gpus": 1, "threads": 8}' \\
        --model results/understanding/clip-llama/seed-0/exact/model.json \\
        --answers results/understanding/clip-llama/seed-0/exact/answers.parquet \\
        --out results/understanding/clip-llama/seed-0/exact/scores.csv

Files in: the model's manifest, and per benchmark its files or another harness's results of this model. Files out: every
answer as it was given and as it was read; one score a benchmark and variant (written last). Raw answers wait and stay
in raw_answers/ beside --out, and what lmms-eval was asked for in lmms_eval/. Benchmarks of the blocks world are
answered in this process, without the engine.
"""

from collections import Counter
from pathlib import Path

from workflow_scripts import engines
from workflow_scripts.benchmarks.understanding import BENCHMARKS
from workflow_scripts.benchmarks.understanding.base import answer_row, read_questions, score
from workflow_scripts.benchmarks.understanding.brought import read_results
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.files import fingerprint, read_json, write_run_record
from workflow_scripts.model_folders import manifest_folder
from workflow_scripts.plan import EvaluateJob, ServingJob, asked_of_engine, asked_of_lmms_eval
from workflow_scripts.records import write_table
from workflow_scripts.vlm import blocks_benchmarks, through_lmms_eval
from workflow_scripts.vlm.ask import ask, asked_engine
from workflow_scripts.vlm.scale import check_evaluation
from workflow_scripts.vlm.scoring import score as score_blocks


def main(argv: list[str] | None = None) -> None:
    """Answer and score every benchmark with one model."""
    arguments = parser(__doc__)
    arguments.add_argument("--serving", default="{}", help="how the engine runs, as JSON: GPUs, threads")
    arguments.add_argument("--model", type=Path, required=True, help="manifest of the trained model")
    arguments.add_argument("--answers", type=Path, required=True, help="every answer, Parquet")
    arguments.add_argument("--out", type=Path, required=True, help="scores of the benchmarks, CSV")
    args = arguments.parse_args(argv)
    job, serving = load_spec(args.spec, EvaluateJob), load_spec(args.serving, ServingJob)
    check_evaluation(job)
    model = manifest_folder(args.model)
    answers, scores, facts = {}, {}, {}

    # All files are read before anything heavy begins, so that what is missing shows at once.
    blocks, asked, harness_asked = {}, [], []
    engine_asked, lmms_eval_asked = asked_of_engine(job.benchmarks), asked_of_lmms_eval(job.benchmarks)
    for name, benchmark in job.benchmarks.items():
        if benchmark.results is not None:
            answers[name], scores[name] = read_results(name, benchmark)
        elif name in engine_asked:
            questions = read_questions(BENCHMARKS[name], benchmark.path)
            (harness_asked if name in lmms_eval_asked else asked).append((BENCHMARKS[name], questions))
        else:
            blocks[name] = blocks_benchmarks.read_questions(benchmark.path)

    if blocks:
        answers |= blocks_benchmarks.answer(model, job.model, blocks, job.max_new_tokens)
        scores |= {name: [score_blocks(name, answers[name])] for name in blocks}
    if asked or harness_asked:
        engines.check(asked_engine(job.engine, model, 1), "understanding")
        weights = fingerprint(read_json(args.model)["files"])
    if harness_asked:
        facts["lmms_eval"] = through_lmms_eval.version()
        kept = args.out.parent / "lmms_eval"
        for name, folder in through_lmms_eval.ask(job, serving, args.model, weights, harness_asked, kept).items():
            answered = job.benchmarks[name].model_copy(update={"results": str(folder)})
            answers[name], scores[name] = read_results(name, answered)
    if asked:
        raw, engine_facts = ask(job, serving, model, weights, asked, args.out.parent / "raw_answers")
        for benchmark, questions in asked:
            rows = raw[benchmark.name]
            answers[benchmark.name] = [answer_row(benchmark, q, rows[q.id]["raw_answer"]) for q in questions]
            scores[benchmark.name] = score(benchmark, answers[benchmark.name])
        ends = {name: dict(Counter(row["finish_reason"] for row in rows.values())) for name, rows in raw.items()}
        facts |= {"finish_reasons": ends, **engine_facts}
    all_answers = [row for name in job.benchmarks for row in answers[name]]
    write_table(args.answers, all_answers, "answers")
    write_run_record(args.out, job.model_dump(mode="json"), num_questions=len(all_answers), **facts)
    write_table(args.out, [row for name in job.benchmarks for row in scores[name]], "benchmark_scores")


if __name__ == "__main__":
    run(main)
