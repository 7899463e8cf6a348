"""The three generation benchmarks by name, one module each (see `base`), with their rules.

What each rule is tested against, on cases made by `tests/golden/make_generation.py` that the authors' programs scored
as a whole, with a stand-in for each model:

| rule | scored by |
| --- | --- |
| geneval: clauses, thresholds, relations | the authors' evaluate_images.py and summary_scores.py |
| dpg_bench: questions, tiles, categories | the authors' compute_dpg_bench.py, one process |
| compbench_attributes | the authors' BLIP_vqa.py |
| compbench_spatial, simple and complex | the authors' 2D_spatial_eval.py |
| compbench_spatial, 3D | the authors' 3D_spatial_eval.py |
| compbench_numeracy | the authors' numeracy_eval.py |
| t2i_compbench: complex | the authors' 3_in_1.py |

Mode `fixed` is tested by closed forms.
"""

from workflow_scripts.benchmarks.generation import dpg_bench, geneval, t2i_compbench
from workflow_scripts.benchmarks.generation.base import Generation

BENCHMARKS: dict[str, Generation] = {
    module.BENCHMARK.name: module.BENCHMARK for module in (geneval, dpg_bench, t2i_compbench)
}
