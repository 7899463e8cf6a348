"""Which benchmarks lmms-eval asks for us, and its tasks on our local files.

A task of ours is a small YAML that includes the built-in one, with its prompts and figures, and changes where the
questions come from and how long an answer may be. Listed are the benchmarks of which lmms-eval (0.7) has a task that
needs no other model: its HallusionBench and Chinese MMBench ask one, and of AMBER it has the descriptions alone.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workflow_scripts.benchmarks.understanding import mmvp
from workflow_scripts.errors import UserError
from workflow_scripts.images import decode
from workflow_scripts.plan import asked_of_lmms_eval
from workflow_scripts.spec import UnderstandingBenchmark

TABLES = "tables"  # where lmms-eval's library keeps a task's rows while it runs; they are as large as the files


@dataclass(frozen=True)
class Task:
    """A built-in task.

    `definition` is its file below lmms-eval's folder of tasks, `files` those of ours that it reads as its `split`;
    `copy` makes them where ours have another shape, or much that is not asked. `figure` names the one to make, and
    the function that makes it, where others fail.
    """

    name: str
    definition: str
    split: str
    files: str
    copy: Callable[[Path, Path], None] | None = None
    figure: tuple[str, str] | None = None


def _copy_mmvp(folder: Path, file: Path) -> None:
    """MMVP as lmms-eval's own copy has it: one table with the images, and the four wrong answers mended."""
    import pyarrow as pa
    import pyarrow.parquet

    rows = [
        {
            "Index": int(question.id),
            "Question": question.text,
            "Options": " ".join(f"({letter.lower()}) {text}" for letter, text in question.options.items()),
            "Correct Answer": f"({mmvp.mended_answer(question).lower()})",
            "image": {"bytes": question.images[0].data(), "path": None},
        }
        for question in mmvp.read(folder)
    ]
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), file)


def _copy_seedbench(folder: Path, file: Path) -> None:
    """SEED-Bench without its videos, most of its bytes."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    import pyarrow.parquet

    rows = ds.dataset(sorted(folder.glob("data/test-*.parquet")), format="parquet")
    asked = rows.scanner(filter=pc.field("data_type") == "image", batch_size=64)
    with pyarrow.parquet.ParquetWriter(file, rows.schema) as writer:
        for batch in asked.to_batches():
            if batch.num_rows:
                writer.write_batch(batch)


TASKS: dict[str, Task] = {
    "pope": Task("pope", "pope/pope.yaml", "test", "data/test-*.parquet"),
    "mme": Task("mme", "mme/mme.yaml", "test", "data/test-*.parquet"),
    "mmbench_en": Task(
        "mmbench_en_dev_static",
        "mmbench/mmbench_en_dev_static.yaml",
        "dev",
        "en/dev-*.parquet",
        # Without its workbook of answers, which an answer with a control character breaks.
        figure=("gpt_eval_score", "lmms_eval.tasks.mmbench.en_utils.mmbench_aggregate_dev_results_static"),
    ),
    "scienceqa": Task("scienceqa_img", "scienceqa/scienceqa_img.yaml", "test", "ScienceQA-IMG/test-*.parquet"),
    "mmstar": Task("mmstar", "mmstar/mmstar.yaml", "val", "mmstar.parquet"),
    "ocrbench": Task("ocrbench", "ocrbench/ocrbench.yaml", "test", "data/test-*.parquet"),
    "realworldqa": Task("realworldqa", "realworldqa/realworldqa.yaml", "test", "data/test-*.parquet"),
    "mmvp": Task("mmvp", "mmvp/mmvp.yaml", "train", "mmvp.parquet", _copy_mmvp),
    "cvbench_2d": Task("cv_bench_2d", "cv_bench/cv_bench_2d.yaml", "test", "test_2d.parquet"),
    "cvbench_3d": Task("cv_bench_3d", "cv_bench/cv_bench_3d.yaml", "test", "test_3d.parquet"),
    "ai2d": Task("ai2d", "ai2d/ai2d.yaml", "test", "data/test-*.parquet"),
    "seedbench_image": Task("seedbench", "seedbench/seedbench.yaml", "test", "seedbench.parquet", _copy_seedbench),
    "mmmu": Task("mmmu_val", "mmmu/mmmu_val.yaml", "validation", "data/validation-*.parquet"),
}


def faults_of_asked(benchmarks: dict[str, UnderstandingBenchmark], engine: str | None) -> dict[str, str]:
    """Why lmms-eval cannot ask a benchmark that it is to ask with this engine, by name."""
    faults = {}
    for name in asked_of_lmms_eval(benchmarks):
        if name not in TASKS:
            faults[name] = f"lmms-eval has no task for it without another model, only for {', '.join(TASKS)}"
        elif engine != "vllm":
            faults[name] = f"lmms-eval asks through vLLM alone, understanding.engine is {engine!r}"
    return faults


def require_files(benchmark: str, folder: Path) -> None:
    """Raise UserError where a benchmark's folder has no file that its task reads: it can be sound in another form."""
    task = TASKS[benchmark]
    if task.copy is None and not any(folder.glob(task.files)):
        raise UserError(f"{folder}: no file {task.files}, which lmms-eval's task {task.name} reads")


def write_task(benchmark: str, folder: Path, max_new_tokens: int, out: Path) -> str:
    """Write the YAML of a benchmark's task, for its files in `folder`, into the folder `out`; returns its name."""
    import lmms_eval

    task = TASKS[benchmark]
    out.mkdir(parents=True, exist_ok=True)
    if task.copy is not None:
        task.copy(folder, out / task.files)
        folder = out
    files = [str(file.resolve()) for file in sorted(folder.glob(task.files))]
    definition = Path(lmms_eval.__file__).parent / "tasks" / task.definition
    settings = {
        "include": str(definition),
        "task": task.name,
        "dataset_path": "parquet",
        "dataset_name": None,
        "dataset_kwargs": {"data_files": {task.split: files}, "cache_dir": str(out / TABLES)},
        "generation_kwargs": {"max_new_tokens": max_new_tokens, "temperature": 0, "do_sample": False},
    }
    lines = [f"{key}: {json.dumps(value)}" for key, value in settings.items()]
    lines.append(f"process_docs: !function {asked_rows.__module__}.{asked_rows.__name__}")
    if task.figure is not None:
        name, function = task.figure
        lines += ["metric_list:", f"  - {{metric: {name}, aggregation: !function {function}, higher_is_better: true}}"]
    (out / f"{task.name}.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return task.name


def asked_rows(rows: Any) -> Any:
    """Of a task's rows (`datasets.Dataset`) those that we ask: none without an image.

    Images are decoded as everywhere here: upright, and on white where they are transparent. MMBench's numbers become
    numbers: its English file has them as text, which lmms-eval's scoring cannot compare.
    """
    from datasets import Value

    if "image" in rows.column_names:
        rows = rows.select(rows.data.column("image").is_valid().to_numpy().nonzero()[0])
    for name, kind in rows.features.items():
        if name == "index":
            rows = rows.cast_column(name, Value("int64"))
        elif name.startswith("image") and (stored := _stored_images(kind)):
            rows = rows.cast_column(name, stored)
    return rows.with_transform(_decode_images)


def _stored_images(kind: Any) -> Any:
    """The type of a column of images, or of lists of images, that stay encoded; None for another column's."""
    from datasets import Image, List

    if isinstance(kind, List):
        inner = _stored_images(kind.feature)
        return inner and List(inner)
    is_image = isinstance(kind, Image) or (isinstance(kind, dict) and "bytes" in kind)
    return Image(decode=False) if is_image or getattr(kind, "dtype", None) == "binary" else None


def _decode_images(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: [_decoded(cell) for cell in cells] for name, cells in columns.items()}


def _decoded(cell: Any) -> Any:
    """An encoded image as an image, a list of them as a list; anything else as it is."""
    if isinstance(cell, list):
        return [_decoded(one) for one in cell]
    return decode(cell["bytes"])[0] if isinstance(cell, dict) and cell.get("bytes") else cell
