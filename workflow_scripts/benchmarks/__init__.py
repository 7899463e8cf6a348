"""Every benchmark by name: what it measures, how large it is, and how its raw figure becomes 0-100.

Facts as published by the benchmarks' authors; the `blocks_` ones belong to the built-in world.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Benchmark:
    """One benchmark. `chance` is the score of guessing (0-100; None where it has no plain value), `raw_max` the raw
    figure that becomes 100."""

    title: str
    metric: str
    num_items: int | None
    chance: float | None
    raw_max: float = 1.0
    hallucination: bool = False


UNDERSTANDING: dict[str, Benchmark] = {
    "pope": Benchmark("POPE", "f1", 9000, 50.0, hallucination=True),
    "hallusionbench": Benchmark("HallusionBench", "mean of aAcc, fAcc, qAcc", 951, None, hallucination=True),
    "amber": Benchmark("AMBER", "mean accuracy of attribute, existence, relation", 14216, 50.0, hallucination=True),
    "mme": Benchmark("MME", "sum of accuracy and accuracy+", 2374, 37.5, raw_max=2800.0),
    "mmbench_en": Benchmark("MMBench EN", "circular accuracy", 1164, None),
    "mmbench_cn": Benchmark("MMBench CN", "circular accuracy", 1164, None),
    "scienceqa": Benchmark("ScienceQA", "accuracy", 2017, None),
    "mmstar": Benchmark("MMStar", "accuracy", 1500, 25.0),
    "ocrbench": Benchmark("OCRBench", "hits", 1000, 0.0, raw_max=1000.0),
    "realworldqa": Benchmark("RealWorldQA", "accuracy", 765, None),
    "mmvp": Benchmark("MMVP", "accuracy", 300, 50.0),
    "cvbench_2d": Benchmark("CV-Bench 2D", "mean accuracy of ADE20K and COCO", 1438, None),
    "cvbench_3d": Benchmark("CV-Bench 3D", "accuracy", 1200, 50.0),
    "ai2d": Benchmark("AI2D", "accuracy", 3088, 25.0),
    "seedbench_image": Benchmark("SEED-Bench image", "accuracy", 14232, 25.0),
    "mmmu": Benchmark("MMMU", "accuracy", 900, None),
    "blocks_pope": Benchmark("blocks: existence", "f1", None, 50.0, hallucination=True),
    "blocks_choice": Benchmark("blocks: multiple choice", "accuracy", None, 35.0),
    "blocks_counting": Benchmark("blocks: counting", "accuracy", None, 25.0),
    "blocks_attributes": Benchmark("blocks: attributes", "accuracy", None, 20.0),
    "blocks_position": Benchmark("blocks: position", "accuracy", None, 25.0),
    "blocks_pairs": Benchmark("blocks: pairs", "pair accuracy", None, 25.0),
}

GENERATION: dict[str, Benchmark] = {
    "geneval": Benchmark("GenEval", "mean accuracy of six tags", 553, 0.0),
    "dpg_bench": Benchmark("DPG-Bench", "score", 1065, 0.0),
    "t2i_compbench": Benchmark("T2I-CompBench++", "mean of eight categories", 2400, 0.0),
    "blocks_geneval": Benchmark("blocks: GenEval", "mean accuracy of the tags", None, 0.0),
    "blocks_dpg": Benchmark("blocks: DPG", "score", None, 0.0),
    "blocks_compbench": Benchmark("blocks: CompBench", "mean of the categories", None, 0.0),
}
