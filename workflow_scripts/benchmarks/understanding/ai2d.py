"""AI2D: diagrams of school science, four options (Kembhavi et al., ECCV 2016), the 3,088 test questions.

Files: `data/test-*.parquet` of the hub. There are two versions of the images: in the masked one (this hub repository,
VLMEvalKit's AI2D_TEST) the labels that the options name are replaced by letters, in the other one
(Efficient-Large-Model/ai2d-no-mask, AI2D_TEST_NO_MASK) they can be read, which is easier. The files look alike, so the
repository decides.
"""

from pathlib import Path

from workflow_scripts.benchmarks.understanding.base import Question, Understanding, Variant
from workflow_scripts.benchmarks.understanding.estimates import accuracy
from workflow_scripts.benchmarks.understanding.forms import ask_letter, lettered, read_letter
from workflow_scripts.benchmarks.understanding.sources import parquet_rows


def read(folder: Path) -> list[Question]:
    """The questions; the key is the place of the right option, from 0."""
    questions = []
    for number, row in enumerate(parquet_rows(folder, "data/test-*.parquet", ("question", "options", "answer"))):
        options = lettered(row["options"])
        letter = list(options)[int(row["answer"])]
        questions.append(Question(str(number), row["question"], row["image"], (letter,), options))
    return questions


_ACCURACY = Variant("accuracy, labels masked", accuracy, chance=25.0)

BENCHMARK = Understanding(
    name="ai2d",
    title="AI2D",
    hub="lmms-lab-encoder/ai2d",
    split="test, masked",
    num_items=3088,
    published=_ACCURACY,
    overall=_ACCURACY,
    read=read,
    prompt=ask_letter,
    extract=read_letter,
)
