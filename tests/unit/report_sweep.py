"""A small sweep's results folder, made up but exact in shape, for the tests of the report.

python tests/unit/report_sweep.py FOLDER      makes one to look at, and prints the report's spec
"""

import json
import random
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from engine_helpers import caption_job, engine_job
from PIL import Image

from workflow_scripts import plan
from workflow_scripts.analysis import regress
from workflow_scripts.analysis.settings import AnalysisJob, PipelineScores, figure_names
from workflow_scripts.blocks.judge import DIMENSIONS, checklist, judge_item
from workflow_scripts.blocks.world import describe, dial, render, sample_scene, say
from workflow_scripts.capeval.benchmark import read_benchmark
from workflow_scripts.capeval.diagnose import diagnose, fault_shares
from workflow_scripts.captions.read import FAULTS
from workflow_scripts.files import write_json, write_jsonl, write_run_record, write_text
from workflow_scripts.records import SCHEMAS, write_table
from workflow_scripts.report.settings import ReportJob
from workflow_scripts.spec import (
    BASELINES,
    PoolSource,
    SftStage,
    Source,
    T2iTraining,
    VlmModel,
)

CAPTIONERS = {
    "exact": ("Exact", "dialled", 0.0, 0.0),
    "gaps": ("Gaps", "dialled", 0.35, 0.0),
    "errors": ("Errors", "dialled", 0.0, 0.3),
    "late": ("Late", "LLaVA", 0.1, 0.1),
    "early": ("Early", "LLaVA", 0.5, 0.25),
    "brief": ("Brief", "LLaVA", 0.6, 0.05),
    "warm": ("Warm", "LLaVA", 0.2, 0.4),
    "both": ("Both", "dialled", 0.4, 0.4),
}
BENCHMARKS = {"understanding": ["exist", "count", "color"], "generation": ["attributes", "counting"]}
PIPELINES = {
    "clip-llama": "understanding",
    "siglip-qwen3": "understanding",
    "sd3": "generation",
    "qwen-image": "generation",
}
EMPTY_SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><circle cx="5" cy="5" r="4"/></svg>'
OPTIMISATION = {
    "learning_rate": 1e-3,
    "global_batch": 48,
    "per_device_batch": 48,
    "steps": 100,
    "devices": 1,
    "precision": "fp32",
}
SOURCE = Source(path=Path("bases/model"))


def write_sweep(results: Path, images: int = 12, seeds: tuple[int, ...] = (0,)) -> ReportJob:
    """Write everything that the report reads, without a single fault to warn of, and return its settings."""
    analysis = AnalysisJob(
        pipelines={name: PipelineScores(objective=o, benchmarks=BENCHMARKS[o]) for name, o in PIPELINES.items()},
        composites={"hallucination": {"benchmarks": ["exist"], "pipelines": ["clip-llama", "siglip-qwen3"]}},
        sensitivity={"only_llava_and_exact": {"without_captioners": ["gaps", "both"]}},
        seeds=list(seeds),
        wild_draws=99,
        simex_draws=20,
    )
    _Writer(results, images, seeds).write(analysis)
    return ReportJob(
        sweep="made-up",
        world=True,
        analysis=analysis,
        num_examples=2,
        num_prompts=3,
        conversations=["align", "instruct"],
        licences={"bases/model": "Apache-2.0"},
    )


def _capeval_row(captioner: str, kind: str, group: str, verdicts: pd.DataFrame) -> dict:
    """A row of table `capeval`, with intervals of a fixed width."""
    counts = verdicts["verdict"].value_counts()
    yes, no, unsaid = (int(counts.get(verdict, 0)) for verdict in ("yes", "no", "not_mentioned"))
    c, p = 100 * (yes + no) / (yes + no + unsaid), 100 * yes / (yes + no)
    return {
        "captioner": captioner,
        "group_kind": kind,
        "group": group,
        "C": c,
        "C_low": c - 2.5,
        "C_high": c + 2.5,
        "P": p,
        "P_low": p - 3,
        "P_high": p + 3,
        "num_yes": yes,
        "num_no": no,
        "num_not_mentioned": unsaid,
        "num_unjudged": 0,
    }


class _Writer:
    def __init__(self, results: Path, images: int, seeds: tuple[int, ...]) -> None:
        self.results, self.seeds, self.rng = results, seeds, random.Random(0)
        scenes = [sample_scene(self.rng, counts=(1 + n % 4,)) for n in range(images)]
        self.scenes = {f"B{n:03d}.png": scene for n, scene in enumerate(scenes)}
        self.data = results / "world/capeval"
        self.dimensions: list[dict] = []  # rows of table `capeval`
        self.verdicts: dict[str, pd.DataFrame] = {}
        self.said: dict[str, pd.Series] = {}  # captions of the benchmark's images
        probe = results / "probe"
        write_run_record(probe, {})  # slow, so once
        self.record = json.loads(Path(f"{probe}.run.json").read_text())
        Path(f"{probe}.run.json").unlink()

    def write(self, analysis: AnalysisJob) -> None:
        self.write_world()
        for name in ("align", "instruct"):
            index = f"conversations/{name}/index.parquet"
            self.note(index, plan.IndexJob(data=SOURCE), num_conversations=1000, num_left_out={})
        capeval = [self.write_capeval(name) for name in CAPTIONERS]
        scores = [row for name in CAPTIONERS for row in self.write_models(name, capeval)]
        captioners = [
            {"captioner": c, "family": family, "label": label} for c, (label, family, *_) in CAPTIONERS.items()
        ]
        self.write_judging(capeval)
        self.write_selection()
        overall_first = capeval + self.dimensions
        for name, rows in (("capeval", overall_first), ("scores", scores), ("captioners", captioners)):
            write_table(self.results / f"{name}.csv", rows, name)
        tables = [part for name in ("capeval", "scores", "captioners") for part in (f"--{name}", self._table(name))]
        for name in ("models", "influence", "sensitivity"):
            tables += [f"--{name}", self._table(f"regression_{name}")]
        regress.main(
            [
                "--spec",
                analysis.model_dump_json(),
                *tables,
                "--regression",
                self._table("regression"),
                "--summary",
                str(self.results / "summary.json"),
            ]
        )
        for name in (*figure_names(analysis), "caption_faults", "caption_lengths"):
            write_text(self.results / f"figures/{name}.svg", EMPTY_SVG)
        pool = plan.PoolJob(sources={"world": PoolSource(path=Path("pool"), count=100)}, size=100, seed=0)
        self.note("pool/images.parquet", pool)
        tsv = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"
        for path, seconds in (
            ("regress", 5.5),
            ("understanding/clip-llama-0/exact", 81.25),
            ("captions/exact/00000", 9),
        ):
            write_text(
                self.results / f"logs/{path}.tsv", f"{tsv}{seconds}\t0:00:05\t700.5\t1\t1\t1\t0\t0\t90\t{seconds}\n"
            )
        write_text(self.results / "logs/captions/exact/collect.tsv", f"{tsv}0.2\t0:00:00\t-\t-\t-\t-\t-\t-\t-\tNA\n")

    def _table(self, name: str) -> str:
        return str(self.results / f"{name}.csv")

    def note(self, output: str, job: plan.Section, **facts) -> None:
        """A run record."""
        write_json(self.results / f"{output}.run.json", {**self.record, "spec": job.model_dump(mode="json"), **facts})

    def write_world(self) -> None:
        rows, table = [], ["id,img_path,category,subcategory"]
        for name, scene in self.scenes.items():
            self.save(render(scene, self.rng), self.data / "image" / name)
            rows.append({"id": name[:-4], "img_path": name, **checklist(scene)})
            table.append(f"{name[:-4]},{name},Blocks,{scene.background} background")
        write_jsonl(self.data / "checklist.jsonl", rows)
        write_text(self.data / "images.csv", "\n".join(table) + "\n")

    def save(self, pixels: np.ndarray, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)

    def write_capeval(self, captioner: str) -> dict:
        """One captioner's captions and verdicts; its row of capeval.csv."""
        _, _, drop, falsify = CAPTIONERS[captioner]
        captions, verdicts = [], []
        for name, scene in self.scenes.items():
            caption = say(dial(describe(scene), drop, falsify, random.Random(f"{captioner}:{name}")))
            captions.append(
                {
                    "image_id": name,
                    "caption": caption,
                    "num_tokens": len(caption.split()),
                    "num_attempts": 1,
                    "finish_reason": "stop",
                    "error": None,
                }
            )
            items = [(d, item) for d in DIMENSIONS for item in checklist(scene)[f"{d}_checklist"]]
            verdicts += [
                {
                    "image_id": name,
                    "item_index": n,
                    "dimension": d,
                    "tags": item["Tags"],
                    "votes": 1,
                    "judge": "exact",
                    "verdict": judge_item(caption, item["Question"]),
                    "reasoning": None,
                }
                for n, (d, item) in enumerate(items)
            ]
        folder = f"capeval/{captioner}"
        write_table(self.results / folder / "captions.parquet", captions, "captions")
        write_table(self.results / folder / "verdicts.parquet", verdicts, "verdicts")
        captioning = caption_job(engine_job("exact", dial={"drop": drop, "falsify": falsify}), shard_size=None)
        self.note(f"{folder}/captions.parquet", captioning)
        self.note(
            f"{folder}/verdicts.parquet",
            plan.JudgeJob(engine=plan.EngineJob(engine="exact", max_model_len=1), data=Source(path=self.data)),
        )
        self.note(
            f"{folder}/scores.csv",
            plan.ScoreCaptionsJob(
                captioner=captioner,
                data=Source(path=self.data),
                missing_verdict="unjudged",
                max_unjudged_share=0.01,
                resamples=2000,
                confidence=0.95,
                seed=0,
            ),
        )
        self.write_captions(captioner)
        write_table(self.results / folder / "flagged.csv", [], "flagged")
        self.verdicts[captioner] = table = pd.DataFrame(verdicts)
        self.said[captioner] = pd.DataFrame(captions).set_index("image_id")["caption"]
        self.dimensions += [_capeval_row(captioner, "dimension", d, rows) for d, rows in table.groupby("dimension")]
        return _capeval_row(captioner, "overall", "all", table)

    def write_captions(self, captioner: str) -> None:
        """One captioner's tables of its captions of the pool: 100, all sound."""
        faults = ("asked_again", *FAULTS, "failed")
        statistics = {"captioner": captioner, "num_images": 100, "num_usable": 100, "share_at_limit": 0.0}
        statistics |= {f"num_{fault}": 0 for fault in faults}
        for unit in ("words", "tokens"):
            statistics |= {f"{unit}_mean": 9.5, f"{unit}_p50": 9.0, f"{unit}_p95": 14.0, f"{unit}_max": 16}
        statistics |= {"distinct_words": 20, "repetition": 0.01}
        encoders = [("clip-llama", "language model", 64), ("sd3", "CLIP-L", 77), ("qwen-image", "Qwen", 64)]
        limits = [
            {"captioner": captioner, "pipeline": pipeline, "encoder": encoder, "limit": limit, "num_captions": 100,
             "num_over": n, "share_over": n / 100}
            for n, (pipeline, encoder, limit) in enumerate(encoders)
        ]  # fmt: skip
        folder = self.results / "captions" / captioner
        write_table(folder / "statistics.csv", [statistics], "caption_statistics")
        write_table(folder / "limits.csv", limits, "caption_limits")

    def write_selection(self) -> None:
        """No image is left out, and every model was trained on the same ones."""
        models = [(pipeline, captioner) for pipeline in PIPELINES for captioner in CAPTIONERS]
        none = dict.fromkeys(SCHEMAS["selection_counts"].names, 0)
        counts = [{**none, "pipeline": p, "captioner": c, "num_images": 100} for p, c in models]
        write_table(self.results / "selection/intersection/counts.csv", counts, "selection_counts")
        apart = {"num_images": 100, "num_apart": 0, "share_apart": 0.0}
        rows = [{"pipeline": p, "seed": 0, "captioner": c, **apart} for p, c in models]
        write_table(self.results / "selection/apart.csv", rows, "selections_apart")

    def write_judging(self, capeval: list[dict]) -> None:
        """Baselines, the diagnosis of every captioner, and no comparison of judgements: the judge is exact."""
        baselines = [{**capeval[0], "captioner": name} for name in BASELINES]
        write_table(self.results / "capeval_baselines.csv", baselines, "capeval")
        write_table(self.results / "reliability.csv", [], "reliability")
        write_table(self.results / "pool/left_out.csv", [], "left_out")
        benchmark = read_benchmark(self.data)
        shares = {name: fault_shares(table) for name, table in self.verdicts.items()}
        means = pd.concat(shares.values()).groupby(level=0).mean()
        for name, table in self.verdicts.items():
            rows = diagnose(table, self.said[name], benchmark, shares[name], means, num_examples=3)
            rows = [{"captioner": name, **row} for row in rows]
            write_table(self.results / "capeval" / name / "diagnosis.csv", rows, "diagnosis")

    def write_models(self, captioner: str, capeval: list[dict]) -> list[dict]:
        """One captioner's models and pictures; its rows of scores.csv."""
        of = next(row for row in capeval if row["captioner"] == captioner)
        rows = []
        for number, (pipeline, objective) in enumerate(PIPELINES.items()):
            for seed in self.seeds:
                folder = f"{objective}/{pipeline}/seed-{seed}"
                for model in ["align", captioner] if objective == "understanding" else [captioner]:
                    self.write_curve(self.results / folder / model / "training.csv")
                self.write_pipeline(f"{folder}/{captioner}", captioner, objective)
                weights = (0.25, 0.2) if objective == "understanding" else (0.1, 0.5)
                for place, benchmark in enumerate(BENCHMARKS[objective]):
                    noise = self.rng.uniform(-1, 1)
                    score = 30 + number + 3 * place + weights[0] * of["C"] + weights[1] * of["P"] + noise
                    rows.append(
                        {
                            "captioner": captioner,
                            "family": CAPTIONERS[captioner][1],
                            "pipeline": pipeline,
                            "seed": seed,
                            "objective": objective,
                            "benchmark": benchmark,
                            "variant": None,
                            "metric": "accuracy",
                            "raw": score / 100,
                            "score": min(score, 100.0),
                            "std_error": 2.5,
                            "chance": [25.0, 12.5, 0.0][place],
                            "num_items": 240,
                            "num_unparsed": 0,
                            "harness": "blocks",
                            "comparable": True,
                        }
                    )
                    if objective == "generation":
                        parts = [("color", score - 10.0, 3.0), ("position", score - 20.0, None)]
                        rows += [
                            {**rows[-1], "variant": part, "metric": "mean", "score": value, "std_error": error}
                            for part, value, error in parts
                        ]
        return rows

    def write_curve(self, path: Path) -> None:
        steps = range(1, 101)
        write_table(
            path,
            [
                {
                    "step": s,
                    "epoch": s / 50,
                    "loss": 3 * 0.97**s + 0.3 + self.rng.uniform(0, 0.1),
                    "learning_rate": 1e-3,
                    "grad_norm": None,
                    "tokens_per_second": 41000 + self.rng.uniform(0, 2000),
                    "model_tflops": 390 + self.rng.uniform(0, 20),
                    "mfu": 0.4,
                    "share_waiting": 0.01,
                    "share_truncated": 0.05,
                }
                for s in steps
            ],
            "training",
        )

    def write_pipeline(self, folder: str, captioner: str, objective: str) -> None:
        if objective == "understanding":
            model = VlmModel(base=SOURCE, image_size=32, chat_template="blocks")
            stage = SftStage(
                data=SOURCE, train=["projector", "language"], caption_instruction="describe", **OPTIMISATION
            )
            self.note(
                f"{folder}/model.json",
                plan.SftJob(model=model, stage=stage, seed=0),
                num_samples=150,
                num_cut_samples=0,
                num_unlearnt_samples=0,
            )
            return
        shared = {"family": "sd3", "model": SOURCE, "resolution": 32, "max_text_tokens": 24}
        self.note(
            f"{folder}/model.json",
            plan.FinetuneJob(**shared, num_images=100, training=T2iTraining(**OPTIMISATION), seed=0),
        )
        for benchmark in BENCHMARKS["generation"]:
            made = self.results / folder / benchmark
            prompts = [f"{'large red circle' if n % 2 else 'small blue ring'} {n}" for n in range(6)]
            for n in range(6):
                self.save(render(sample_scene(self.rng), self.rng), made / f"pictures/{n}.png")
            write_table(
                made / "pictures.parquet",
                [
                    {
                        "benchmark": benchmark,
                        "prompt_id": f"p{n}",
                        "index": 0,
                        "prompt": prompt,
                        "path": f"pictures/{n}.png",
                        "noise_seed": n,
                    }
                    for n, prompt in enumerate(prompts)
                ],
                "pictures",
            )
            write_table(
                made / "picture_scores.parquet",
                [
                    {
                        "benchmark": benchmark,
                        "prompt_id": f"p{n}",
                        "index": 0,
                        "category": "color",
                        "score": n / 6,
                        "reason": None,
                        "seen": "{}",
                    }
                    for n in range(6)
                ],
                "picture_scores",
            )
            self.note(
                f"{folder}/{benchmark}/pictures.parquet",
                plan.GenerateJob(
                    **shared,
                    steps=8,
                    guidance=1,
                    precision="fp32",
                    name=benchmark,
                    prompts=Path("b"),
                    images_per_prompt=4,
                    noise_seed=0,
                ),
            )


if __name__ == "__main__":
    print(write_sweep(Path(sys.argv[1])).model_dump_json())
