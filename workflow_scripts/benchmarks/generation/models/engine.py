"""A vision-language model in place of mPLUG: DPG-Bench's questions through an inference engine."""

import re
from collections.abc import Sequence

import torch
from PIL import Image

from workflow_scripts.engines import check, open_engine
from workflow_scripts.engines.interface import Request, answers
from workflow_scripts.errors import UserError
from workflow_scripts.model_folders import local_folder
from workflow_scripts.plan import EngineJob, ServingJob
from workflow_scripts.spec import Sampling, ScorerModel, Source

PROMPT = "{question}\nPlease answer yes or no."
MAX_MODEL_LEN, MAX_TOKENS = 4096, 8


class QuestionAnswerer:
    """DPG-Bench's questions, greedily. The engine holds its batch by itself."""

    def __init__(self, source: ScorerModel, batch: int, serving: ServingJob | None) -> None:
        job = EngineJob(engine=source.through, model=Source(path=local_folder(source)), max_model_len=MAX_MODEL_LEN)
        check(job, "generation.benchmarks.dpg_bench.models.answers")
        self._engine = open_engine(job, serving or ServingJob(gpus=torch.cuda.device_count()), [])

    def answers(self, asked: Sequence[tuple[Image.Image, str]]) -> list[str]:
        """The first word that the model says, in small letters. Raises UserError where it cannot answer."""
        requests = (
            Request(place, PROMPT.format(question=question), MAX_TOKENS, Sampling(), images=(picture,))
            for place, (picture, question) in enumerate(asked)
        )
        said: dict[int, str] = {}
        for request, answer in answers(self._engine, lambda: next(requests, None)):
            if answer.text is None:
                raise UserError(f"dpg_bench: no answer to {asked[request.key][1]!r}: {answer.error}")
            said[request.key] = first_word(answer.text)
        return [said[place] for place in range(len(asked))]

    def close(self) -> None:
        """End the engine's processes."""
        self._engine.close()


def first_word(text: str) -> str:
    """The first word of an answer, in small letters; empty where there is none."""
    found = re.search(r"\w+", text.lower())
    return found[0] if found else ""
