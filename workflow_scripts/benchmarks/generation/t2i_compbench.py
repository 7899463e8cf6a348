"""T2I-CompBench++: eight kinds of composition, 300 prompts each (Huang et al., TPAMI 2025).

Files: `<category>_val.txt`, a prompt a line, and `complex_val_{spatial,action,spatialaction}.txt`, which say what a
complex prompt asks for. Pictures lie in `<category>/samples/<prompt>_<number, six digits>.png`, numbered through the
category; the authors' scorer of complex prompts expects ten a prompt.

The rules are in `compbench_attributes` (color, shape, texture), `compbench_spatial` (spatial, 3d_spatial),
`compbench_numeracy` and `compbench_scorer` (non_spatial is the CLIP cosine itself, complex joins three scores). There
is no official headline: the mean of the eight is ours.
"""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from workflow_scripts.benchmarks.generation.base import Generation, OfficialFile, Prompt
from workflow_scripts.benchmarks.generation.compbench_scorer import scorer
from workflow_scripts.errors import UserError

CATEGORIES = ("color", "shape", "texture", "spatial", "3d_spatial", "numeracy", "non_spatial", "complex")
KINDS = ("spatial", "action", "spatialaction")  # of complex prompts


def read(folder: Path) -> list[Prompt]:
    """The prompts by category, in file order; the id is category and line number from 000. `facts` of a complex prompt
    is its kind. Raises UserError for one that is in none of the three lists of kinds."""
    kinds = {
        _key(text): kind for kind in reversed(KINDS) for text in _lines(folder / f"complex_val_{kind}.txt")
    }  # the authors look into the list of spatial prompts first
    prompts = []
    for category in CATEGORIES:
        for number, text in enumerate(_lines(folder / f"{category}_val.txt")):
            prompts.append(
                Prompt(
                    f"{category}_{number:03d}", text, category, kinds.get(_key(text)) if category == "complex" else None
                )
            )
    for prompt in prompts:
        if prompt.category == "complex" and prompt.facts is None:
            raise UserError(f"{folder}: complex prompt {prompt.id} is in none of complex_val_{{{','.join(KINDS)}}}.txt")
    return prompts


def files(prompts: Sequence[Prompt], images_per_prompt: int) -> list[OfficialFile]:
    """One file a picture. Raises UserError for a prompt that cannot be a file's name that the authors' scorer reads."""
    found, numbers = [], dict.fromkeys(CATEGORIES, 0)
    for prompt in prompts:
        if set("_/\0") & set(prompt.text):
            raise UserError(
                f"t2i_compbench: prompt {prompt.id} has a character that no file's name may: {prompt.text!r}"
            )
        for index in range(images_per_prompt):
            name = f"{prompt.text}_{numbers[prompt.category]:06d}.png"
            found.append(OfficialFile(PurePosixPath(prompt.category, "samples", name), prompt.id, (index,)))
            numbers[prompt.category] += 1
    return found


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error})") from None
    return [line.split("\t")[0] for line in lines]


def _key(text: str) -> str:
    """By what the authors find a prompt in the lists of kinds: up to the first full stop, in small letters."""
    return text.split(".")[0].lower()


BENCHMARK = Generation(
    name="t2i_compbench",
    title="T2I-CompBench++",
    metric="mean of eight categories",
    source="Karine-Huang/T2I-CompBench",
    commit="1b7094991a57f3c22abdd4f6e8ba6c1a15517073",
    categories=dict.fromkeys(CATEGORIES, 300),
    images_per_prompt=10,
    read=read,
    files=files,
    scorer=scorer,
)
