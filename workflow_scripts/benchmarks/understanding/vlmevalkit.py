"""Read a results folder of VLMEvalKit: `<model>_<data set>_acc.csv`, `_score.csv` or `_score.json`, and the answers.

The answers, `<model>_<data set>.xlsx`, are opened to count them and to see whether requests failed: VLMEvalKit scores
a failed request as a wrong answer. Tables may be csv, tsv, json or xlsx.
"""

import json
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflow_scripts.benchmarks.understanding import BENCHMARKS
from workflow_scripts.benchmarks.understanding.harness import Figure, both, check_names, score_row
from workflow_scripts.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

FAILED = "Failed to obtain answer"  # what stands in the place of an answer


# Benchmark to the data set, the score file's ending, and what of it each variant is. Of a table with several
# rows the keys are `split: column`.
DATA_SETS: dict[str, tuple[str, str, dict[str, Figure]]] = {
    "pope": (
        "POPE",
        "score",
        both("Overall: Overall", weight=0.01, accuracy=Figure.of("Overall: acc", weight=0.01)),
    ),
    "hallusionbench": (
        "HallusionBench",
        "score",
        {
            "published": Figure.of("Overall: qAcc", weight=0.01),
            "overall": Figure.of("Overall: aAcc", "Overall: fAcc", "Overall: qAcc", weight=0.01 / 3),
            "a_acc": Figure.of("Overall: aAcc", weight=0.01),
            "f_acc": Figure.of("Overall: fAcc", weight=0.01),
            "q_acc": Figure.of("Overall: qAcc", weight=0.01),
        },
    ),
    "amber": (
        "AMBER",
        "score",
        {
            "published": Figure.of("Avg ACC", weight=0.01),
            "overall": Figure.of("Avg ACC", weight=0.01, differs="mean accuracy of attribute, existence, relation"),
        },
    ),
    "mme": (
        "MME",
        "score",
        both("perception", "reasoning", perception=Figure.of("perception"), cognition=Figure.of("reasoning")),
    ),
    "mmbench_en": ("MMBench_DEV_EN", "acc", both("Overall")),
    "mmbench_cn": ("MMBench_DEV_CN", "acc", both("Overall")),
    "scienceqa": ("ScienceQA_TEST", "acc", both("Overall")),
    "mmstar": ("MMStar", "acc", both("Overall")),
    "ocrbench": ("OCRBench", "score", both("Final Score")),
    "realworldqa": ("RealWorldQA", "acc", both("Overall")),
    "mmvp": ("MMVP", "acc", {"published": Figure.of("Average"), "overall": Figure.of("Overall")}),
    "cvbench_2d": ("CV-Bench-2D", "acc", both("Overall")),
    "cvbench_3d": ("CV-Bench-3D", "acc", both("Overall")),
    "ai2d": ("AI2D_TEST", "acc", both("Overall")),
    "seedbench_image": ("SEEDBench_IMG", "acc", both("Overall")),
    "mmmu": (
        "MMMU_DEV_VAL",
        "acc",
        {
            "published": Figure({"dev: Overall": 150 / 1050, "validation: Overall": 900 / 1050}),
            "overall": Figure.of("validation: Overall"),
        },
    ),
}
_SIZES = {"seedbench_image": 14232}  # where its data set has another number of questions than the authors'
_TABLES = (".csv", ".tsv", ".json", ".xlsx")


def read_scores(folder: Path, benchmarks: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of table `benchmark_scores` of these benchmarks from a model's results folder.

    `harness` names the judge that matched answers where a file of its verdicts shows one. Scores of a part of the data
    set are not comparable, nor those whose answers are not there to be counted. Raises UserError naming file and data
    set for what is missing, doubled or impossible, and for answers that failed.
    """
    check_names("VLMEvalKit", benchmarks, list(DATA_SETS))
    rows = []
    for benchmark in benchmarks:
        data_set, ending, figures = DATA_SETS[benchmark]
        file = _only(folder, f"{data_set}_{ending}", data_set)
        place = f"{file}: data set {data_set}"
        values = _figures(file)
        num_items = _count_answers(folder, data_set)
        facts = BENCHMARKS[benchmark]
        whole = num_items == _SIZES.get(benchmark, facts.num_prompts or facts.num_items)
        harness = ", ".join(["VLMEvalKit", *_judge(folder, data_set)])
        for variant, figure in figures.items():
            rows.append(score_row(benchmark, variant, figure, values, place, harness, num_items, whole))
    return rows


def _tables(folder: Path, ending: str) -> list[Path]:
    """The tables of this ending below a folder; links to one file count once."""
    return sorted({file.resolve() for suffix in _TABLES for file in folder.rglob(f"*_{ending}{suffix}")})


def _only(folder: Path, ending: str, data_set: str) -> Path:
    files = _tables(folder, ending)
    if len(files) != 1:
        names = "".join(f"\n  {file}" for file in files)
        raise UserError(f"{folder}: {len(files)} tables *_{ending} of data set {data_set}, expected one{names}")
    return files[0]


def _figures(file: Path) -> dict[str, Any]:
    """The numbers of a score file: `column` where it has one row, `split: column` where it has several."""
    content = _json(file) if file.suffix == ".json" else None
    if isinstance(content, dict):
        return content
    table = _table(file)
    if len(table) == 1:
        return table.iloc[0].to_dict()
    if "split" not in table:
        raise UserError(f"{file}: {len(table)} rows without a column 'split', expected one row")
    rows = table.set_index("split").to_dict("index")
    return {f"{split}: {column}": value for split, row in rows.items() for column, value in row.items()}


def _count_answers(folder: Path, data_set: str) -> int | None:
    """How many answers the data set has, None where their file is gone. Raises UserError where some failed."""
    if not _tables(folder, data_set):
        return None
    file = _only(folder, data_set, data_set)
    answers = _table(file)
    if "prediction" not in answers:
        raise UserError(f"{file}: no column 'prediction' in the answers to {data_set}")
    failed = answers["prediction"].astype(str).str.contains(FAILED, regex=False)
    if failed.any():
        raise UserError(
            f"{file}: {int(failed.sum())} of {len(answers)} requests of {data_set} failed and were scored as wrong "
            "answers; run VLMEvalKit again with --reuse"
        )
    return len(answers)


def _judge(folder: Path, data_set: str) -> list[str]:
    """Which judge matched the answers, from the name of the file of its verdicts."""
    names = {
        match[1]
        for file in folder.rglob(f"*_{data_set}_*_result.*")
        if (match := re.search(rf"_{re.escape(data_set)}_(.+)_result\.", file.name))
    }
    return sorted(name.replace("_", " ") for name in names)


def _table(file: Path) -> "pd.DataFrame":
    import pandas as pd  # here, as the config is read without it

    try:
        if file.suffix == ".json":
            return pd.DataFrame(_json(file))
        if file.suffix == ".xlsx":
            return pd.read_excel(file)
        return pd.read_csv(file, sep="\t" if file.suffix == ".tsv" else ",")
    except (ValueError, OSError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"{file}: not a table: {error}") from None


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{file}: not JSON: {error}") from None
