"""The sixteen understanding benchmarks of the CAPEval paper by name, one module each (see `base`).

What each rule is tested against, on answers made by `tests/golden/make_understanding.py`; `evaluators` are lmms-eval
0.7.3 (L) and VLMEvalKit e8e78f0 (V) where the authors' own code needs a judge or does not exist:

| benchmark | scored by |
| --- | --- |
| pope | the authors' evaluate.py; L |
| hallusionbench | the authors' grouping (utils.py) on our yes/no; V's rating |
| amber | the authors' inference.py, discriminative part; V's rating |
| mme | L; V's rating |
| mmbench_en, mmbench_cn | L (static); V (exact matching) |
| scienceqa | L |
| mmstar | the authors' MMStar_eval; L |
| ocrbench | V; L |
| realworldqa | L |
| mmvp | V's rating; L |
| cvbench_2d, cvbench_3d | V's rating; L |
| ai2d | L |
| seedbench_image | L |
| mmmu | the authors' eval_utils.py; L |
"""

from workflow_scripts.benchmarks.understanding import (
    ai2d,
    amber,
    cvbench_2d,
    cvbench_3d,
    hallusionbench,
    mmbench_cn,
    mmbench_en,
    mme,
    mmmu,
    mmstar,
    mmvp,
    ocrbench,
    pope,
    realworldqa,
    scienceqa,
    seedbench_image,
)
from workflow_scripts.benchmarks.understanding.base import Understanding

BENCHMARKS: dict[str, Understanding] = {
    module.BENCHMARK.name: module.BENCHMARK
    for module in (
        pope, hallusionbench, amber, mme, mmbench_en, mmbench_cn, scienceqa, mmstar,
        ocrbench, realworldqa, mmvp, cvbench_2d, cvbench_3d, ai2d, seedbench_image, mmmu,
    )
}  # fmt: skip
