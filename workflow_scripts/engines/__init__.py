"""The engines by name. One small interface (`interface`); captioners, the judge and benchmarks ask the same ones.

A new engine is a module with a class `Engine` that fits `interface.Engine`, and a line in `ENGINES`.
"""

import importlib
import importlib.util
import sys
from collections.abc import Sequence

from workflow_scripts.engines.interface import Engine, Picture
from workflow_scripts.engines.weights import weights_fingerprint
from workflow_scripts.errors import UserError, unknown
from workflow_scripts.files import sha256_file
from workflow_scripts.plan import EngineJob, ServingJob

ENGINES = {
    "vllm": "workflow_scripts.engines.vllm",
    "transformers": "workflow_scripts.engines.transformers",
    "server": "workflow_scripts.engines.server",
    "replay": "workflow_scripts.engines.replay",
    "exact": "workflow_scripts.engines.exact",
}
_PACKAGES = {"vllm": ("vllm", "serve"), "server": ("openai", "core"), "transformers": ("transformers", "core")}


def check(job: EngineJob, place: str) -> None:
    """Raise UserError for what can be known before any work: a package, a folder or a file that is absent.

    `place` is where the engine stands in the config.
    """
    if job.engine not in ENGINES:
        raise unknown(f"{place}.engine", job.engine, ENGINES)
    package, environment = _PACKAGES.get(job.engine, (None, None))
    if package and importlib.util.find_spec(package) is None:
        raise UserError(
            f"{place}.engine: {job.engine!r} needs the package {package}, which {sys.executable} lacks: "
            f"run it in the environment of envs/{environment}.txt"
        )
    if job.model and (job.model.path is None or not job.model.path.is_dir()):
        raise UserError(f"{place}.model.path: no such folder {job.model.path}")
    if job.replay and not job.replay.file.is_file():
        raise UserError(f"{place}.replay: no such file {job.replay.file}")


def inputs(job: EngineJob) -> list[str]:
    """Fingerprints of the files that decide the answers beside the pictures: weights, or a file of captions."""
    if job.model:
        return [weights_fingerprint(job.model.path)]
    return [sha256_file(job.replay.file)] if job.replay else []


def open_engine(job: EngineJob, serving: ServingJob, pictures: Sequence[Picture]) -> Engine:
    """The engine of a job that `check` has passed. `pictures` are all that a captioner has to do, in any jobs."""
    return importlib.import_module(ENGINES[job.engine]).Engine(job, serving, pictures)
