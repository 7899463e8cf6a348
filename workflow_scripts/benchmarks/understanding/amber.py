"""AMBER: yes/no questions on existence, attributes and relations (Wang et al., 2023), the 14,216 discriminative ones.

Files of the authors: `query_discriminative.json` and `annotations.json`, and `image/` with the pictures. The official
AMBER score mixes CHAIR of generated descriptions with the F1 below; descriptions are not asked for here. The paper's
column is the mean accuracy of the three parts (VLMEvalKit's «Avg ACC»); `overall` is the authors' discriminative F1,
which takes «no» (a hallucination seen) for the positive answer. In the annotations, relations go by two names.
"""

from pathlib import Path

from workflow_scripts.benchmarks.understanding.base import Question, Understanding, Variant
from workflow_scripts.benchmarks.understanding.estimates import accuracy, f1, mean_of_kinds
from workflow_scripts.benchmarks.understanding.forms import YES_OR_NO, ask_yes_or_no, read_yes_or_no
from workflow_scripts.benchmarks.understanding.sources import image_file, read_json
from workflow_scripts.errors import UserError

KINDS = {
    "discriminative-hallucination": "existence",
    "discriminative-attribute-state": "attribute/state",
    "discriminative-attribute-number": "attribute/number",
    "discriminative-attribute-action": "attribute/action",
    "discriminative-relation": "relation",
    "relation": "relation",
}


def read(folder: Path) -> list[Question]:
    """The discriminative questions; `kind` is their part. Raises UserError for one without its annotation."""
    annotations = {row["id"]: row for row in read_json(folder, "annotations.json")}
    questions = []
    for row in read_json(folder, "query_discriminative.json"):
        annotation = annotations.get(row["id"])
        if annotation is None or annotation["type"] not in KINDS:
            raise UserError(f"{folder}: question {row['id']} has no discriminative annotation in annotations.json")
        image = image_file(folder / "image", row["image"])
        kind = KINDS[annotation["type"]]
        questions.append(Question(str(row["id"]), row["query"], image, (annotation["truth"],), YES_OR_NO, kind=kind))
    return questions


BENCHMARK = Understanding(
    name="amber",
    title="AMBER",
    hub="github.com/junyangwang0410/AMBER",
    split="discriminative",
    num_items=14216,
    published=Variant(
        "mean accuracy of attribute, existence, relation",
        mean_of_kinds("attribute", "existence", "relation"),
        chance=50.0,
    ),
    # 9,427 answers are no: guessing has precision 0.663 and recall 0.5.
    overall=Variant("F1 of no", lambda marks: f1(marks, "no"), chance=57.01),
    others={
        "accuracy": Variant("accuracy", accuracy, chance=50.0),
        **{
            part: Variant(f"accuracy of {part}", lambda marks, part=part: accuracy(marks, part), chance=50.0)
            for part in ("attribute", "existence", "relation")
        },
    },
    read=read,
    prompt=ask_yes_or_no,
    extract=read_yes_or_no,
    hallucination=True,
)
