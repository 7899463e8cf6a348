"""T2I-CompBench++: does each thing have its own colour, shape or texture? Each noun chunk of the prompt is a question
to BLIP-VQA, and a picture's score is the product of the probabilities of yes.

`official` asks the first eight chunks, leaves out four that are no things, and rounds each probability and the product
to four decimals. `fixed` asks every chunk that is a thing, rounds nothing, and refuses a prompt without chunks, which
officially scores 1.
"""

from collections.abc import Sequence

import numpy as np

from workflow_scripts.benchmarks.generation.base import Mode
from workflow_scripts.errors import UserError

MAX_CHUNKS = 8
NO_THINGS = {"top", "the side", "the left", "the right"}
NO_THINGS_FIXED = NO_THINGS | {"side", "front", "the top", "the bottom", "the front"}


def questions(chunks: Sequence[str], mode: Mode) -> list[str]:
    """What BLIP-VQA is asked about a prompt with these noun chunks."""
    if mode == "official":
        return [f"{chunk}?" for chunk in chunks if chunk not in NO_THINGS][:MAX_CHUNKS]
    return [f"{chunk}?" for chunk in chunks if chunk.lower() not in NO_THINGS_FIXED]


def score(probabilities: Sequence[float], mode: Mode) -> float:
    """The product of the probabilities of yes, 0-1, in float32 where official. Raises UserError for none of them in
    mode `fixed`."""
    if mode == "fixed":
        if not probabilities:
            raise UserError("t2i_compbench: a prompt without a noun chunk has no attribute to score")
        return float(np.prod(probabilities))
    product = np.float32(1)
    for probability in probabilities:
        product *= np.float32(f"{probability:.4f}")
    return float(f"{product:.4f}")
