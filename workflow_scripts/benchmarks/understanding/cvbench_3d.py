"""CV-Bench 3D: depth order and relative distance on Omni3D, two options each (Tong et al., NeurIPS 2024).

Files: `test_3d.parquet` of the hub, in the form of `cvbench_2d`.
"""

from functools import partial

from workflow_scripts.benchmarks.understanding.base import Understanding, Variant
from workflow_scripts.benchmarks.understanding.cvbench_2d import read
from workflow_scripts.benchmarks.understanding.estimates import accuracy
from workflow_scripts.benchmarks.understanding.forms import ask_letter, read_letter

_ACCURACY = Variant("accuracy", accuracy, chance=50.0)

BENCHMARK = Understanding(
    name="cvbench_3d",
    title="CV-Bench 3D",
    hub="nyu-visionx/CV-Bench",
    split="test, 3D",
    num_items=1200,
    published=_ACCURACY,
    overall=_ACCURACY,
    read=partial(read, file="test_3d.parquet"),
    prompt=ask_letter,
    extract=read_letter,
)
