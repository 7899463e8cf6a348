"""What training and measuring need to be there, checked before anything heavy is imported or any work begins."""

from workflow_scripts.benchmarks import UNDERSTANDING
from workflow_scripts.benchmarks.understanding.lmms_eval_tasks import faults_of_asked
from workflow_scripts.errors import UserError, unknown
from workflow_scripts.plan import EvaluateJob, asked_of_engine
from workflow_scripts.spec import Source, VlmStage

_PIPELINE = "understanding.pipelines.<pipeline>"


def check_training(stage_name: str, stage: VlmStage) -> None:
    """Raise UserError where the conversations are missing. `stage_name` is align or sft."""
    data = stage.data.path
    if data is None or not data.exists():
        raise UserError(f"{_PIPELINE}.{stage_name}.data: no such folder or file: {data or stage.data.hub}")


def check_evaluation(job: EvaluateJob) -> None:
    """Raise UserError for an unknown benchmark or one whose folder is missing."""
    for name, benchmark in job.benchmarks.items():
        if name not in UNDERSTANDING:
            raise unknown("understanding.benchmarks", name, UNDERSTANDING)
        if benchmark.results is None or benchmark.path is not None:
            check_folder(f"understanding.benchmarks.{name}", benchmark)
    for name, fault in faults_of_asked(job.benchmarks, job.engine.engine if job.engine else None).items():
        raise UserError(f"understanding.benchmarks.{name}.harness: {fault}")
    if asked_of_engine(job.benchmarks) and job.engine is None:
        raise UserError(f"--spec: 'engine' is null, but {asked_of_engine(job.benchmarks)[0]} needs one")


def check_folder(key: str, source: Source) -> None:
    """Raise UserError unless the source is a local folder that exists."""
    if source.path is None or not source.path.is_dir():
        raise UserError(f"{key}: no such folder: {source.path or source.hub}")
