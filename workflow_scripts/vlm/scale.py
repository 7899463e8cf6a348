"""What this version can train and measure, checked before anything heavy is imported or any work begins.

The real benchmarks are not answered yet: each says so, naming its key of the config.
"""

from workflow_scripts.benchmarks import UNDERSTANDING
from workflow_scripts.errors import NotInThisVersion, UserError, unknown
from workflow_scripts.spec import Source, VlmModel, VlmStage

_PIPELINE = "understanding.pipelines.<pipeline>"


def check_training(stage_name: str, stage: VlmStage) -> None:
    """Raise UserError where a folder is missing. `stage_name` is align or sft."""
    check_folder(f"{_PIPELINE}.{stage_name}.data", stage.data)


def check_evaluation(model: VlmModel, benchmarks: dict[str, Source]) -> None:
    """Raise NotInThisVersion naming the first benchmark that this version cannot score, UserError for an unknown
    one."""
    for name, source in benchmarks.items():
        if name not in UNDERSTANDING:
            raise unknown("understanding.benchmarks", name, UNDERSTANDING)
        if not name.startswith("blocks_"):
            raise NotInThisVersion(
                f"understanding.benchmarks.{name}: {UNDERSTANDING[name].title} comes in a later version; this one "
                "scores the benchmarks of the blocks world"
            )
        check_folder(f"understanding.benchmarks.{name}", source)


def check_folder(key: str, source: Source) -> None:
    """Raise UserError unless the source is a local folder that exists."""
    if source.path is None or not source.path.is_dir():
        raise UserError(f"{key}: no such folder: {source.path or source.hub}")
