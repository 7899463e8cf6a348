"""MMBench, Chinese: the questions of `mmbench_en` translated, asked and scored alike.

Files: `cn/dev-*.parquet` of the hub, or VLMEvalKit's MMBench_DEV_CN.tsv. The paper's cells are multiples of 1/48: it
scored a part of the benchmark that it does not name.
"""

from functools import partial

from workflow_scripts.benchmarks.understanding.base import Understanding
from workflow_scripts.benchmarks.understanding.forms import ask_letter, read_letter
from workflow_scripts.benchmarks.understanding.mmbench_en import CIRCULAR, OTHERS, read

INSTRUCTION = "请直接回答选项字母。"

BENCHMARK = Understanding(
    name="mmbench_cn",
    title="MMBench CN",
    hub="lmms-lab-encoder/MMBench",
    split="dev",
    num_items=1164,
    num_prompts=4329,
    published=CIRCULAR,
    overall=CIRCULAR,
    others=OTHERS,
    read=partial(read, language="cn"),
    prompt=partial(ask_letter, instruction=INSTRUCTION),
    extract=read_letter,
    caution="the paper's cells are multiples of 1/48, of a part of the benchmark that it does not name",
)
