"""Every generation benchmark by name, and its prompts as pictures are made and scored of them."""

from workflow_scripts.benchmarks import generation
from workflow_scripts.benchmarks.generation.base import Generation
from workflow_scripts.blocks import generation as blocks
from workflow_scripts.errors import unknown

GENERATION: dict[str, Generation] = {**generation.BENCHMARKS, **blocks.BENCHMARKS}


def generation_benchmark(name: str) -> Generation:
    """A benchmark by name. Raises UserError for an unknown one."""
    if name not in GENERATION:
        raise unknown("generation.benchmarks", name, GENERATION)
    return GENERATION[name]
