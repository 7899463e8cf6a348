"""A scripted judge and a small benchmark, for the tests of judging."""

import hashlib
import json
import re

import pandas as pd

from workflow_scripts.capeval.benchmark import DIMENSIONS
from workflow_scripts.engines.interface import Answer
from workflow_scripts.plan import EngineJob, JudgeJob

VERDICTS = ("yes", "no", "not_mentioned")


def decide(caption, question):
    """A verdict that follows from caption and question alone, as from a consistent judge."""
    return VERDICTS[hashlib.sha256(f"{caption}|{question}".encode()).digest()[0] % 3]


class ScriptedJudge:
    """A test double for an engine: reads the prompt's text as a model would, and answers as `script` says.

    `script(caption, questions, request)` gives the answer's text or an Answer; by default consistent verdicts. Words
    count as tokens. Answers come out of order, `batch` at a time.
    """

    reads_images = False

    def __init__(self, script=None, batch=8):
        self.facts, self.script, self.batch = {"model": "scripted"}, script or self.consistent, batch
        self.requests, self._waiting, self.closed = [], [], False

    @staticmethod
    def consistent(caption, questions, request):
        return json.dumps({n: {"reason": f"r{n}", "verdict": decide(caption, q)} for n, q in enumerate(questions, 1)})

    def room(self):
        return self.batch - len(self._waiting)

    def submit(self, request):
        assert self.room() > 0 and not request.images
        self.requests.append(request)
        self._waiting.append(request)

    def collect(self):
        done, self._waiting = self._waiting[::-2], self._waiting[::-1][1::2]
        return [(request, self._answer(request)) for request in done]

    def _answer(self, request):
        answer = self.script(*read_prompt(request.text), request)
        prompt = self.count_tokens(request.text) + self.count_tokens(request.system)
        return (
            answer if isinstance(answer, Answer) else Answer(answer, self.count_tokens(answer), "stop", None, prompt, 0)
        )

    def count_tokens(self, text):
        return len(text.split())

    def close(self):
        self.closed = True


def read_prompt(text):
    """(caption, questions) as the markers of a prompt delimit them."""
    key = re.match(r"Caption, from marker (\w+) to marker \1:\n", text)[1]
    _, caption, rest = text.split(f"[[{key}]]\n")
    return caption.removesuffix("\n"), re.findall(r"^\d+\. (.*)$", rest, re.MULTILINE)


def judge_job(data, **changes):
    settings = {"engine": EngineJob(engine="vllm", model={"path": "weights/tiny"}, max_model_len=4096)}
    return JudgeJob(**settings | {"data": {"path": str(data)}} | changes)


def write_benchmark(folder, sizes):
    """A benchmark of images A000.png, A001.png and so on with so many items each, spread over the dimensions."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, table = [], ["img_path,subcategory"]
    for number, size in enumerate(sizes):
        name = f"A{number:03d}"
        lists = {f"{dimension}_checklist": [] for dimension in DIMENSIONS}
        for item in range(size):
            dimension = DIMENSIONS[item * len(DIMENSIONS) // size]
            lists[f"{dimension}_checklist"].append({"Tags": "t", "Question": f"Does {name} mention thing {item}?"})
        rows.append(json.dumps({"id": name, "img_path": f"{name}.png", **lists}))
        table.append(f"{name}.png,Food")
    (folder / "checklist.jsonl").write_text("\n".join(rows) + "\n")
    (folder / "images.csv").write_text("\n".join(table) + "\n")
    return folder


def caption_table(captions, errors=None):
    """Table `captions` from image -> caption."""
    errors = errors or {}
    rows = [
        {"image_id": i, "caption": c, "num_tokens": None, "finish_reason": "stop", "num_attempts": 1,
         "error": errors.get(i)}
        for i, c in captions.items()
    ]  # fmt: skip
    return pd.DataFrame(rows).astype({"caption": object, "error": object})
