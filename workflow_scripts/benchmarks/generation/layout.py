"""Pictures as the authors' scorers read them: linked, not copied, where the disk allows it."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image

from workflow_scripts.benchmarks.generation.base import Generation, Prompt
from workflow_scripts.benchmarks.generation.dpg_bench import tiled
from workflow_scripts.errors import UserError
from workflow_scripts.files import atomic, write_text


def lay_out(
    benchmark: Generation,
    prompts: Sequence[Prompt],
    images_per_prompt: int,
    pictures: Mapping[tuple[str, int], Path],
    folder: Path,
) -> None:
    """Make `folder` anew: the official layout of the PNG of each prompt's id and number. Raises UserError for a picture
    that is missing, before anything is touched."""
    files = benchmark.files(prompts, images_per_prompt)
    for file in files:
        for index in file.indexes:
            path = pictures.get((file.prompt_id, index))
            if path is None or not path.is_file():
                raise UserError(f"{benchmark.title}: picture {index} of prompt {file.prompt_id!r} is missing: {path}")
    shutil.rmtree(folder, ignore_errors=True)  # the authors' scorer counts whatever lies there
    for file in files:
        sources = [pictures[file.prompt_id, index] for index in file.indexes]
        with atomic(folder / file.path) as temporary:
            if len(sources) > 1:
                tiled([Image.open(source) for source in sources]).save(temporary, format="PNG")
            else:
                _link(sources[0], temporary)
    for prompt in prompts:
        for path, text in benchmark.notes(prompt).items():
            write_text(folder / path, text)


def _link(source: Path, target: Path) -> None:
    """A second name for a file, or a copy where the disk is another one."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
