"""Ask engines in tests."""

from workflow_scripts.engines.interface import Answer, Picture, Request, answers, request_seed
from workflow_scripts.images import read_rgb
from workflow_scripts.plan import CaptionJob, EngineJob
from workflow_scripts.spec import Sampling


def engine_job(engine, **changes) -> EngineJob:
    return EngineJob(**{"engine": engine, "max_model_len": 128, **changes})


def caption_job(engine: EngineJob, **changes) -> CaptionJob:
    settings = {
        "prompt": "describe", "sampling": Sampling(), "max_new_tokens": 24, "attempts": 1, "retry_temperature": 0.7,
        "shard_size": 20,
    }  # fmt: skip
    return CaptionJob(engine=engine, **{**settings, **changes})


def requests_of(pictures: list[Picture], sampling=None, text="describe", max_tokens=12, read=True) -> list[Request]:
    sampling = sampling or Sampling()
    return [
        Request(
            number, text, max_tokens, sampling, request_seed(sampling.seed, picture.image_id), picture=picture,
            images=(read_rgb(picture.path, None),) if read else (),
        )
        for number, picture in enumerate(pictures)
    ]  # fmt: skip


def ask(engine, requests: list[Request]) -> list[Answer]:
    """Answers in the order of the requests, whose keys are their numbers."""
    waiting = iter(requests)
    found = {request.key: answer for request, answer in answers(engine, lambda: next(waiting, None))}
    return [found[request.key] for request in requests]
