"""The three generation benchmarks' files in their own shapes, with a prompt or two a category."""

import json
from pathlib import Path

GENEVAL = [
    {"tag": "single_object", "include": [{"class": "cow", "count": 1}], "prompt": "a photo of a cow"},
    {"tag": "colors", "include": [{"class": "cow", "count": 1, "color": "red"}], "prompt": "a photo of a red cow"},
]
DPG = {
    "7": "A red cow on a green meadow.",
    "8": "A cup beside a lamp.",
}
QUESTIONS = """item_id,proposition_id,dependency,tuple,question_natural_language
0,1,0,entity - whole (nothing),Is anything there?
7,1,0,entity - whole (cow),Is there a cow?
7,2,1,"attribute - color (cow, red)",Is the cow red?
8,1,0,entity - whole (cup),Is there a cup?
8,2,0,entity - whole (lamp),Is there a lamp?
"""
COMPBENCH = {
    "color": "a red cow and a green cup",
    "shape": "a round cup and a square book",
    "texture": "a wooden cup and a metallic book",
    "spatial": "a cow on the left of a cup",
    "3d_spatial": "a cow in front of a cup",
    "numeracy": "two cows and three cups",
    "non_spatial": "a farmer milks a cow",
    "complex": "The red cow is next to the green cup.",
}


def write_benchmarks(folder: Path) -> dict[str, Path]:
    """Each benchmark's folder by name."""
    folders = {name: folder / name for name in ("geneval", "dpg_bench", "t2i_compbench")}
    (folders["dpg_bench"] / "prompts").mkdir(parents=True)
    for name in ("geneval", "t2i_compbench"):
        folders[name].mkdir()
    (folders["geneval"] / "evaluation_metadata.jsonl").write_text("\n".join(map(json.dumps, GENEVAL)))
    for item, text in DPG.items():
        (folders["dpg_bench"] / f"prompts/{item}.txt").write_text(text)
    (folders["dpg_bench"] / "dpg_bench.csv").write_text(QUESTIONS)
    for category, text in COMPBENCH.items():
        (folders["t2i_compbench"] / f"{category}_val.txt").write_text(text)
    for kind in ("spatial", "action", "spatialaction"):
        (folders["t2i_compbench"] / f"complex_val_{kind}.txt").write_text(
            COMPBENCH["complex"] if kind == "spatial" else ""
        )
    return folders
