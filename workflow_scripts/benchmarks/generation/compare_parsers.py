"""List where T2I-CompBench++'s prompts are read otherwise without spaCy than with it.

    python -m workflow_scripts.benchmarks.generation.compare_parsers --prompts data/t2i_compbench

Files in: the prompt files in --prompts. Prints every difference in what the rules take from a prompt (the questions of
color, shape, texture and complex, the two objects of spatial, 3d_spatial and complex, the text without adjectives of
complex), then the counts. Needs spaCy and its model en_core_web_sm.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workflow_scripts.benchmarks.generation.base import read_prompts
from workflow_scripts.benchmarks.generation.compbench_attributes import questions
from workflow_scripts.benchmarks.generation.compbench_parsing import Parse, Parser, plain_parser, spacy_parser
from workflow_scripts.benchmarks.generation.t2i_compbench import BENCHMARK
from workflow_scripts.command import run

TAKEN: dict[str, tuple[tuple[str, ...], Callable[[Parse], Any]]] = {
    "questions": (("color", "shape", "texture", "complex"), lambda parse: questions(parse.chunks, "official")),
    "objects": (("spatial", "3d_spatial"), lambda parse: parse.outer_nouns),
    "related": (("complex",), lambda parse: parse.related),
    "without adjectives": (("complex",), lambda parse: parse.without_adjectives),
}


def differences(folder: Path, parser: Parser) -> dict[tuple[str, str], list[tuple[str, Any, Any]]]:
    """By category and what is taken: each prompt that is read otherwise, what `parser` takes, and what the plain parser
    takes."""
    found: dict[tuple[str, str], list[tuple[str, Any, Any]]] = {
        (category, what): [] for what, (categories, _) in TAKEN.items() for category in categories
    }
    for prompt in read_prompts(BENCHMARK, folder):
        for what, (categories, take) in TAKEN.items():
            if prompt.category in categories:
                theirs, ours = take(parser(prompt.text)), take(plain_parser(prompt.text))
                if theirs != ours:
                    found[prompt.category, what].append((prompt.text, theirs, ours))
    return found


def main(argv: list[str] | None = None) -> None:
    """Print the differences and the counts."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--prompts", type=Path, required=True, help="the folder of the prompt files")
    found = differences(arguments.parse_args(argv).prompts, spacy_parser())
    for (category, what), cases in found.items():
        for text, theirs, ours in cases:
            print(f"{category}, {what}: {text}\n  spaCy: {theirs}\n  plain: {ours}")
    for (category, what), cases in found.items():
        print(f"{category}, {what}: {len(cases)} of {BENCHMARK.categories[category]} prompts differ")


if __name__ == "__main__":
    run(main)
