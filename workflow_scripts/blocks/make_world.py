"""Make a blocks world: everything that a sweep reads, in the shapes of the real assets.

    python -m workflow_scripts.blocks.make_world --spec '{"seed": 0, "pool_images": 1500}' \
        --out results/blocks/world --manifest results/blocks/world.json

Files out, under --out:
  pool/images/*.png                                       training pictures, all words
  capeval/{checklist.jsonl, gt_caption.jsonl, images.csv, image/*.png}    as CAPEval; a domain is a number of
                                                          objects, a subcategory a background
  align/{data.json, images/*.png}                         as LLaVA's 558K: captions, old words only
  instruct/{data.json, images/*.png}                      as LLaVA's 665K: captions and questions, old words only
  understanding/<benchmark>/{questions.jsonl, images/*.png}
  generation/<benchmark>/prompts.jsonl
and --manifest, written last: counts, the number of files and one sha256 over all of them. `image` in data.json and
questions.jsonl is relative to the images folder beside it. Equal specs give equal bytes; no test scene is a
training scene.

Every kind of question is one that a tiny model answers well above chance once it has learnt from perfect captions.
Left out, because in minutes it does not: options named by letters (the likeliest option's words are taken instead),
and objects asked for by colour and shape at once (existence and position ask for a shape).
"""

import csv
import hashlib
import io
import json
import logging
import random
import shutil
from pathlib import Path
from typing import Any

from PIL import Image

from workflow_scripts.blocks.judge import checklist
from workflow_scripts.blocks.prompts import GENERATION_BENCHMARKS, write_prompts
from workflow_scripts.blocks.questions import DESCRIBE, ask_several
from workflow_scripts.blocks.settings import World
from workflow_scripts.blocks.understanding import UNDERSTANDING_BENCHMARKS, write_questions
from workflow_scripts.blocks.world import Scene, describe, render, sample_scene, say, tell
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.files import sha256_file, write_json, write_jsonl, write_run_record, write_text

log = logging.getLogger("capsweep")

_CAPTION_SHARE = 0.4  # of the instruction data; the rest are conversations of four questions
_DOMAINS = {
    1: ("ON", "One object"),
    2: ("TW", "Two objects"),
    3: ("TH", "Three objects"),
    4: ("FO", "Four objects"),
}
_SUBCATEGORIES = {"black": "Black background", "gray": "Gray background"}


class _Pictures:
    """Saves scenes as PNG files of one folder; no two pictures of a world have the same bytes."""

    def __init__(self, rng: random.Random) -> None:
        self._rng, self._seen = rng, set()

    def save(self, scene: Scene, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            pixels = render(scene, self._rng)  # another brightness each time
            if pixels.tobytes() not in self._seen:
                break
        self._seen.add(pixels.tobytes())
        Image.fromarray(pixels).save(path)


def _write_pool(folder: Path, spec: World, pictures: _Pictures, rng: random.Random) -> None:
    for index in range(spec.pool_images):
        pictures.save(sample_scene(rng, split="train"), folder / "images" / f"{index:06d}.png")


def _write_capeval(folder: Path, spec: World, pictures: _Pictures, rng: random.Random) -> None:
    checklists, captions = [], []
    table = io.StringIO()
    columns = ("id", "img_path", "category", "category_abbr", "subcategory", "subcategory_id")
    images = csv.writer(table, lineterminator="\n")
    images.writerow((*columns, "legacy_code", "legacy_img_path"))
    for index in range(spec.capeval_images):
        count = 1 + index % 4
        scene = sample_scene(rng, counts=(count,), split="test")
        abbreviation, category = _DOMAINS[count]
        image_id = f"{abbreviation}{1 + index // 4:03d}"
        name = f"{image_id}.png"
        pictures.save(scene, folder / "image" / name)
        checklists.append({"id": image_id, "img_path": name, **checklist(scene)})
        captions.append({"id": image_id, "img_path": name, "gt_caption": tell(describe(scene))})
        backgrounds = tuple(_SUBCATEGORIES)
        number = f"{count}{1 + backgrounds.index(scene.background)}"
        subcategory = _SUBCATEGORIES[scene.background]
        images.writerow((image_id, name, category, abbreviation, subcategory, number, image_id, name))
    write_jsonl(folder / "checklist.jsonl", checklists)
    write_jsonl(folder / "gt_caption.jsonl", captions)
    write_text(folder / "images.csv", table.getvalue())


def _conversation(scene: Scene, caption_share: float, rng: random.Random) -> list[tuple[str, str]]:
    if rng.random() < caption_share:
        return [(DESCRIBE, say(describe(scene)))]
    return [(question.text, question.answer) for question in ask_several(describe(scene), 4, rng, words="old")]


def _write_conversations(
    folder: Path, count: int, caption_share: float, pictures: _Pictures, rng: random.Random
) -> None:
    rows: list[dict[str, Any]] = []
    for index in range(count):
        scene = sample_scene(rng, words="old", split="train")
        name = f"{index:06d}.png"
        pictures.save(scene, folder / "images" / name)
        turns = []
        for question, answer in _conversation(scene, caption_share, rng):
            asked = question if turns else f"<image>\n{question}"
            turns += [{"from": "human", "value": asked}, {"from": "gpt", "value": answer}]
        rows.append({"id": f"{index:06d}", "image": name, "conversations": turns})
    write_json(folder / "data.json", rows)


def _write_understanding(folder: Path, benchmark: str, spec: World, pictures: _Pictures, rng: random.Random) -> None:
    rows = []
    for index, item in enumerate(write_questions(benchmark, spec.understanding_questions, rng)):
        name = f"{index:04d}.png"
        pictures.save(item.scene, folder / "images" / name)
        facts = {"question": item.question, "options": item.options, "answer": item.answer, "kind": item.kind}
        rows.append({"id": f"{benchmark}-{index:04d}", "image": name, **facts, "group": item.group})
    write_jsonl(folder / "questions.jsonl", rows)


def write_world(folder: Path, spec: World) -> None:
    """Write all files of a world into a new folder. Each part has random numbers of its own, so that its size
    does not change the other parts' scenes."""

    def numbers(part: str) -> random.Random:
        return random.Random(f"{spec.seed}:{part}")

    pictures = _Pictures(numbers("brightness"))
    _write_pool(folder / "pool", spec, pictures, numbers("pool"))
    _write_capeval(folder / "capeval", spec, pictures, numbers("capeval"))
    _write_conversations(folder / "align", spec.align_conversations, 1.0, pictures, numbers("align"))
    _write_conversations(
        folder / "instruct", spec.instruct_conversations, _CAPTION_SHARE, pictures, numbers("instruct")
    )
    for benchmark in UNDERSTANDING_BENCHMARKS:
        place = folder / "understanding" / benchmark
        _write_understanding(place, benchmark, spec, pictures, numbers(benchmark))
    for benchmark in GENERATION_BENCHMARKS:
        prompts = write_prompts(benchmark, spec.generation_prompts, numbers(benchmark))
        write_jsonl(folder / "generation" / benchmark / "prompts.jsonl", prompts)


def sha256_tree(folder: Path) -> tuple[int, str]:
    """The number of files under a folder and one sha256 over their relative paths and contents."""
    digest, paths = hashlib.sha256(), sorted(path for path in folder.rglob("*") if path.is_file())
    for path in paths:
        digest.update(f"{path.relative_to(folder).as_posix()} {sha256_file(path)}\n".encode())
    return len(paths), digest.hexdigest()


def main(argv: list[str] | None = None) -> None:
    """The command."""
    arguments = parser(__doc__)
    arguments.add_argument("--out", type=Path, required=True, help="folder of the world; replaced if it exists")
    arguments.add_argument("--manifest", type=Path, required=True, help="JSON file, written last")
    args = arguments.parse_args(argv)
    spec = load_spec(args.spec, World)
    growing = args.out.with_name(f".{args.out.name}.tmp")
    shutil.rmtree(growing, ignore_errors=True)
    write_world(growing, spec)
    files, digest = sha256_tree(growing)
    args.manifest.unlink(missing_ok=True)
    shutil.rmtree(args.out, ignore_errors=True)
    growing.rename(args.out)
    counts = json.loads(spec.model_dump_json(exclude={"seed"}))
    write_run_record(args.manifest, spec.model_dump(mode="json"), num_files=files)
    write_json(args.manifest, {"folder": str(args.out), **counts, "num_files": files, "sha256": digest})
    log.info("%s: %d files, sha256 %s", args.out, files, digest)


if __name__ == "__main__":
    run(main)
