"""Make a small local folder of each understanding benchmark, in the shape of its own files.

    python -m workflow_scripts.benchmarks.understanding.make_tiny --out tiny --items 12 --seed 0

Questions are about coloured squares that are drawn for them; columns, types and file names are those of the published
files, so that the whole way from files to scores runs without a network. `--items` are questions, or pairs and sets
where a benchmark asks in those.
"""

import argparse
import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from PIL import Image, ImageDraw

from workflow_scripts.benchmarks.understanding.mme import COGNITION, PERCEPTION
from workflow_scripts.benchmarks.understanding.pope import SETTINGS

COLOURS = ("red", "green", "blue", "yellow", "white", "black")
SUBJECTS = ("natural science", "social science", "language science")
ABILITIES = ("coarse perception", "fine-grained perception", "instance reasoning",
             "logical reasoning", "science & technology", "math")  # fmt: skip
OCR_TYPES = ("Regular Text Recognition", "Scene Text-centric VQA", "Handwritten Mathematical Expression Recognition")


def picture(colour: str, rng: random.Random, size: int = 56) -> dict:
    """A square of a colour on grey, as the hub stores an image: {bytes, path}."""
    image = Image.new("RGB", (size, size), "grey")
    left, top = rng.randrange(size // 2), rng.randrange(size // 2)
    ImageDraw.Draw(image).rectangle((left, top, left + size // 2, top + size // 2), fill=colour)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": None}


def write_parquet(file: Path, rows: list[dict], row_group_size: int = 8) -> None:
    """Rows as a Parquet file of several row groups, like the large ones of the hub."""
    file.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), file, row_group_size=row_group_size)


def options(rng: random.Random, number: int = 4) -> tuple[list[str], int]:
    """Different colours and the place of the right one."""
    return rng.sample(COLOURS, number), rng.randrange(number)


def yes_no(rng: random.Random) -> tuple[str, str, str]:
    """A colour that is shown, a colour that is asked about, and yes or no."""
    shown = rng.choice(COLOURS)
    asked = rng.choice([shown, rng.choice([c for c in COLOURS if c != shown])])
    return shown, asked, "yes" if asked == shown else "no"


def pope(folder: Path, items: int, rng: random.Random) -> None:
    """Three settings in turn; two questions an image."""
    rows = []
    for number in range(items):
        if number % 2 == 0:
            shown, asked, answer = yes_no(rng)
            image = picture(shown, rng)
        else:
            asked = rng.choice(COLOURS)
            answer = "yes" if asked == shown else "no"
        rows.append(
            {"id": str(number), "question_id": str(number), "question": f"Is there a {asked} square in the image?",
             "answer": answer, "image_source": f"COCO_val2014_{number // 2:012d}", "image": image,
             "category": SETTINGS[number // 2 % 3]}
        )  # fmt: skip
    write_parquet(folder / "data/test-00000-of-00001.parquet", rows)
    for setting in SETTINGS:  # the same rows again, which must not be read twice
        mine = [row for row in rows if row["category"] == setting]
        if mine:
            write_parquet(folder / f"Full/{setting}-00000-of-00001.parquet", mine)


def hallusionbench(folder: Path, items: int, rng: random.Random) -> None:
    """Sets of two figures and two questions; `ocr` occurs in both categories, as in the original."""
    rows, without = [], []
    for number in range(items):
        category, subcategory = [("VD", "ocr"), ("VS", "ocr"), ("VD", "illusion"), ("VS", "chart")][number % 4]
        for figure in range(2):
            shown, asked, answer = yes_no(rng)
            image = picture(shown, rng)
            for question in range(2):
                truth = answer if question == 0 else {"yes": "no", "no": "yes"}[answer]
                text = f"Is the square {'' if question == 0 else 'not '}{asked}?"
                rows.append(
                    {"category": category, "subcategory": subcategory, "visual_input": str(1 + figure),
                     "set_id": str(number // 4), "figure_id": str(figure + (category == "VS")), "sample_note": "square",
                     "question_id": str(question), "question": text, "gt_answer_details": f"It is {shown}.",
                     "gt_answer": str(int(truth == "yes")),
                     "filename": f"./{category}/{subcategory}/{number // 4}_{figure}.png", "image": image}
                )  # fmt: skip
                if category == "VS" and figure == 0:
                    bare = {"visual_input": "0", "figure_id": "0", "filename": None}
                    without.append({name: value for name, value in (rows[-1] | bare).items() if name != "image"})
    write_parquet(folder / "data/image-00000-of-00001.parquet", rows)
    if without:
        write_parquet(folder / "data/non_image-00000-of-00001.parquet", without)


def amber(folder: Path, items: int, rng: random.Random) -> None:
    """The authors' two JSON files, descriptions first; every type in turn."""
    types = ("discriminative-attribute-state", "discriminative-hallucination", "discriminative-relation", "relation",
             "discriminative-attribute-number", "discriminative-attribute-action")  # fmt: skip
    queries, annotations = [], []
    (folder / "image").mkdir(parents=True, exist_ok=True)
    for number in range(items):
        name = f"AMBER_{number // 2 + 1}.jpg"
        shown, asked, truth = yes_no(rng)
        if number % 2 == 0:
            (folder / "image" / name).write_bytes(picture(shown, rng)["bytes"])
        queries.append({"id": number + 3, "image": name, "query": f"Is the square {asked} in this image?"})
        annotations.append({"id": number + 3, "type": types[number % len(types)], "truth": truth})
    described = [{"id": n, "type": "generative", "truth": ["square"], "hallu": ["dog"]} for n in (1, 2)]
    (folder / "query_discriminative.json").write_text(json.dumps(queries, indent=4))
    (folder / "annotations.json").write_text(json.dumps(described + annotations, indent=4))


def mme(folder: Path, items: int, rng: random.Random) -> None:
    """At least one image of each of the fourteen subtasks, two questions each, one of each answer."""
    rows = []
    for number in range(max(items, 14)):
        subtask = (PERCEPTION + COGNITION)[number % 14]
        shown, other = rng.sample(COLOURS, 2)
        image = picture(shown, rng)
        for asked, answer in ((shown, "Yes"), (other, "No")):
            text = f"Is the square {asked}? Please answer yes or no."
            rows.append(
                {"question_id": f"{subtask}/{number:04d}.png", "image": image, "question": text, "answer": answer,
                 "category": subtask}
            )  # fmt: skip
    write_parquet(folder / "data/test-00000-of-00001.parquet", rows)


def mmbench(folder: Path, items: int, rng: random.Random, language: str) -> None:
    """Every rotation of the options of every question; two to four options; the index is text in the English file."""
    rows = []
    for number in range(items):
        texts, right = options(rng, 2 + number % 3)
        image = picture(texts[right], rng)
        for turn in range(len(texts)):
            turned = texts[turn:] + texts[:turn]
            letters = dict(zip("ABCD", turned + ["nan"] * (4 - len(texts)), strict=True))
            index = number + 1_000_000 * turn
            rows.append(
                {"index": str(index) if language == "en" else index,
                 "question": "What colour is the square?" if language == "en" else "方块是什么颜色？",
                 "hint": "One square is shown." if number % 2 else "nan", "answer": "ABCD"[turned.index(texts[right])],
                 **letters, "category": "attribute_recognition", "image": image, "source": "made",
                 "L2-category": "attribute_reasoning", "comment": "nan", "split": "dev"}
            )  # fmt: skip
    write_parquet(folder / f"{language}/dev-00000-of-00001.parquet", rows)


def scienceqa(folder: Path, items: int, rng: random.Random) -> None:
    """Two to five options; one more question without an image, which is not asked."""
    rows = []
    for number in range(items + 1):
        texts, right = options(rng, 2 + number % 4)
        rows.append(
            {"image": picture(texts[right], rng) if number < items else None, "question": "What colour is the square?",
             "choices": texts, "answer": right, "hint": "One square is shown." if number % 2 else "",
             "task": "closed choice", "grade": "grade4", "subject": SUBJECTS[number % 3], "topic": "physics",
             "category": "Colours", "skill": "Name colours", "lecture": "", "solution": ""}
        )  # fmt: skip
    write_parquet(folder / "ScienceQA-IMG/test-00000-of-00001.parquet", rows)


def mmstar(folder: Path, items: int, rng: random.Random) -> None:
    """Six abilities with details of unequal size; the options are in the question, in both ways that occur."""
    rows = []
    for number in range(items):
        texts, right = options(rng)
        separator = ", " if number % 2 else "\n"
        listed = separator.join(f"{letter}: {text}" for letter, text in zip("ABCD", texts, strict=True))
        rows.append(
            {"index": number, "question": f"What colour is the square?\nOptions: {listed}",
             "image": picture(texts[right], rng)["bytes"], "answer": "ABCD"[right], "category": ABILITIES[number % 6],
             "l2_category": f"detail {number % 6}{'a' if number % 5 else 'b'}",
             "meta_info": {"source": "made", "split": "val", "image_path": f"{number}.png"}}
        )  # fmt: skip
    write_parquet(folder / "mmstar.parquet", rows)


def ocrbench(folder: Path, items: int, rng: random.Random) -> None:
    """Texts to read, and every third a formula."""
    rows = []
    for number in range(items):
        colour, kind = rng.choice(COLOURS), OCR_TYPES[number % 3]
        formula = kind.startswith("Handwritten")
        answers = [f"x ^ {{ {number} }} + Y"] if formula else [colour.upper(), f"the {colour}\nsign"]
        rows.append(
            {"dataset": "HME100k" if formula else "IIIT5K", "question": "what is written in the image?",
             "question_type": kind, "answer": answers, "image": picture(colour, rng)}
        )  # fmt: skip
    write_parquet(folder / "data/test-00000-of-00001.parquet", rows)


def realworldqa(folder: Path, items: int, rng: random.Random) -> None:
    """Letters, yes or no, and numbers in turn."""
    rows = []
    for number in range(items):
        texts, right = options(rng, 3)
        letters = "\n".join(f"{letter}. {text}" for letter, text in zip("ABC", texts, strict=True))
        question, answer = [
            (f"What colour is the square?\n\n{letters}\nPlease answer directly with only the letter of the correct "
             "option and nothing else.", "ABC"[right]),
            ("Is there a square? Please answer directly with a single word or number.", "Yes"),
            ("How many squares are there? Please answer directly with a single word or number.", "1"),
        ][number % 3]  # fmt: skip
        rows.append({"image": picture(texts[right], rng), "question": question, "answer": answer})
    write_parquet(folder / "data/test-00000-of-00001.parquet", rows)


def mmvp(folder: Path, items: int, rng: random.Random) -> None:
    """Pairs with opposite answers; the header is misspelt as in the original, and the key as it was published."""
    (folder / "MMVP Images").mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(2 * items):
        if number % 2 == 0:
            colours = rng.sample(COLOURS, 2)
            answers = ["(a)", "(b)"] if number in (98, 278) else rng.sample(["(a)", "(b)"], 2)
        shown = colours["ab".index(answers[number % 2][1])]
        (folder / "MMVP Images" / f"{number + 1}.jpg").write_bytes(picture(shown, rng)["bytes"])
        rows.append(
            {"lndex": number + 1, "Question": "What colour is the square?",
             "Options": f"(a) {colours[0]} (b) {colours[1]}", "Correct Answer": answers[number % 2]}
        )  # fmt: skip
    with (folder / "Questions.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def cvbench(folder: Path, items: int, rng: random.Random, dimension: str) -> None:
    """Two dimensions: counting and relations on two sources, one twice as large; three: depth and distance."""
    rows = []
    for number in range(items):
        flat = dimension == "2d"
        texts, right = options(rng, 4 if flat and number % 2 else 2)
        source = ("COCO" if number % 3 else "ADE20K") if flat else "Omni3D"
        task = ("Count" if number % 2 else "Relation") if flat else ("Depth" if number % 2 else "Distance")
        listed = " ".join(f"({letter}) {text}" for letter, text in zip("ABCD", texts, strict=False))
        rows.append(
            {"idx": number, "type": dimension.upper(), "task": task, "image": picture(texts[right], rng),
             "question": "What colour is the square?", "choices": texts, "answer": f"({'ABCD'[right]})",
             "prompt": f"What colour is the square? Select from the following choices.\n{listed}",
             "filename": f"img/{dimension}/{number}.png", "source": source, "source_dataset": source,
             "source_filename": f"{number}.jpg", "target_class": None, "target_size": None, "bbox": None}
        )  # fmt: skip
    write_parquet(folder / f"test_{dimension}.parquet", rows)


def ai2d(folder: Path, items: int, rng: random.Random) -> None:
    """The key is the place of the option, as text; two questions an image."""
    rows = []
    for number in range(items):
        texts, right = options(rng)
        if number % 2 == 0:
            image = picture(texts[right], rng)
        rows.append({"question": "Which colour is A?", "options": texts, "answer": str(right), "image": image})
    write_parquet(folder / "data/test-00000-of-00001.parquet", rows)


def seedbench_image(folder: Path, items: int, rng: random.Random) -> None:
    """Lists of images; one more row is of a video, with several frames, and is not asked."""
    rows = []
    for number in range(items + 1):
        texts, right = options(rng)
        frames = [picture(texts[right], rng) for _ in range(1 if number < items else 3)]
        rows.append(
            {"answer": "ABCD"[right], "choice_a": texts[0], "choice_b": texts[1], "choice_c": texts[2],
             "choice_d": texts[3], "data_id": f"{number}", "data_type": "image" if number < items else "video",
             "question": "What colour is the square?", "question_id": f"{number}", "question_type_id": number % 9 + 1,
             "image": frames, "segment": None}
        )  # fmt: skip
    write_parquet(folder / "data/test-00000-of-00001.parquet", rows)


def mmmu(folder: Path, items: int, rng: random.Random) -> None:
    """Both splits, one of dev for six of validation; every third question is open, every fourth has two images."""
    splits: dict[str, list[dict]] = {"dev": [], "validation": []}
    for number in range(items):
        split = "validation" if number % 7 else "dev"
        texts, right = options(rng)
        open_one, two = number % 3 == 2, number % 4 == 3
        answer = ["3.50", "['red', 'crimson']", "B"][number % 9 // 3] if open_one else "ABCD"[right]
        row = {"id": f"{split}_{'Art_Theory' if number % 2 else 'Math'}_{number}",
               "question": "<image 1> What colour is the square?" + (" Compare with <image 2>." if two else ""),
               "options": str([] if open_one else texts), "explanation": "", "img_type": "['Diagrams']",
               "answer": answer, "topic_difficulty": "Easy",
               "question_type": "open" if open_one else "multiple-choice", "subfield": "Colours"}  # fmt: skip
        for place in range(1, 8):
            row[f"image_{place}"] = picture(texts[right], rng) if place == 1 or (two and place == 2) else None
        splits[split].append(row)
    image = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    for split, rows in splits.items():
        table = pa.Table.from_pylist(rows)
        for place in range(1, 8):
            at = table.schema.get_field_index(f"image_{place}")
            column = pa.array([row[f"image_{place}"] for row in rows], image)
            table = table.set_column(at, f"image_{place}", column)
        (folder / "data").mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(table, folder / f"data/{split}-00000-of-00001.parquet")


MAKERS: dict[str, Callable[[Path, int, random.Random], None]] = {
    "pope": pope,
    "hallusionbench": hallusionbench,
    "amber": amber,
    "mme": mme,
    "mmbench_en": lambda folder, items, rng: mmbench(folder, items, rng, "en"),
    "mmbench_cn": lambda folder, items, rng: mmbench(folder, items, rng, "cn"),
    "scienceqa": scienceqa,
    "mmstar": mmstar,
    "ocrbench": ocrbench,
    "realworldqa": realworldqa,
    "mmvp": mmvp,
    "cvbench_2d": lambda folder, items, rng: cvbench(folder, items, rng, "2d"),
    "cvbench_3d": lambda folder, items, rng: cvbench(folder, items, rng, "3d"),
    "ai2d": ai2d,
    "seedbench_image": seedbench_image,
    "mmmu": mmmu,
}


def make(out: Path, items: int = 12, seed: int = 0) -> dict[str, Path]:
    """A folder of every benchmark under `out`; returns them by name."""
    for name, maker in MAKERS.items():
        (out / name).mkdir(parents=True, exist_ok=True)
        maker(out / name, items, random.Random(f"{seed} {name}"))
    return {name: out / name for name in MAKERS}


def main(argv: list[str] | None = None) -> None:
    """Run the command."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, required=True, help="folder for the sixteen folders")
    arguments.add_argument("--items", type=int, default=12, help="questions a benchmark")
    arguments.add_argument("--seed", type=int, default=0)
    args = arguments.parse_args(argv)
    make(args.out, args.items, args.seed)


if __name__ == "__main__":
    main()
