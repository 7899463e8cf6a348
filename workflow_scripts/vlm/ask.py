"""Put the questions of understanding benchmarks to a trained model, greedily, through an engine that is kept full.

Raw answers are kept by benchmark, each under the fingerprint of all that decides them: a killed run goes on where it
was, and another rule of scoring or one more benchmark asks nothing again.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from workflow_scripts.benchmarks.understanding.base import Question, Understanding
from workflow_scripts.engines import open_engine
from workflow_scripts.engines.interface import Answer, Engine, Request, answers, unreadable
from workflow_scripts.errors import UserError
from workflow_scripts.files import fingerprint
from workflow_scripts.images import decode
from workflow_scripts.partial import Journal
from workflow_scripts.plan import EngineJob, EvaluateJob, ServingJob
from workflow_scripts.progress import Progress
from workflow_scripts.read_ahead import ReadAhead
from workflow_scripts.spec import Sampling, Source

log = logging.getLogger("capsweep")

CHUNK = 256  # answers; what a killed job loses of a benchmark at most, beside those in flight
AHEAD = 4  # questions whose decoded images wait for the engine, a thread
_WAY = 2  # of asking: raise it where a change here would change answers

Row = dict[str, Any]  # of table `raw_answers`
Asked = tuple[Understanding, Question]


def ask(
    job: EvaluateJob,
    serving: ServingJob,
    model: Path,
    weights: str,
    benchmarks: Sequence[tuple[Understanding, Sequence[Question]]],
    folder: Path,
) -> tuple[dict[str, dict[str, Row]], dict[str, Any]]:
    """What the model in the folder `model`, whose contents `weights` names, answers: rows of table `raw_answers` by
    benchmark and question; and the engine's facts. `folder` keeps the rows.

    Raises UserError naming the benchmarks of which a request failed, after all others were answered: the next run
    asks for just those. A question that is longer than the model's context has an empty answer.
    """
    settings = [job.engine.model_dump(mode="json"), job.max_new_tokens, weights, _WAY]
    journals, found, left = {}, {}, []
    for benchmark, questions in benchmarks:
        prompts = [(q.id, benchmark.prompt(q), [image.key for image in q.images]) for q in questions]
        journal = Journal(folder / benchmark.name / fingerprint(settings, prompts), "raw_answers", CHUNK)
        rows = {row["question_id"]: row for row in journal.read().to_pylist()}
        journals[benchmark.name], found[benchmark.name] = journal, rows
        left += [(benchmark, question) for question in questions if question.id not in rows]
    num_questions = sum(len(questions) for _, questions in benchmarks)
    progress = Progress(num_questions, "questions", num_questions - len(left))
    if not left:
        return found, {}
    num_images = max(len(question.images) for _, question in left)
    engine = open_engine(asked_engine(job.engine, model, num_images), serving, [])
    failed: dict[str, list[str]] = defaultdict(list)
    open_questions = Counter(benchmark.name for benchmark, _ in left)
    try:
        images = ReadAhead(_read, left, serving.threads, AHEAD * serving.threads)
        for (benchmark, question), answer in _answers(engine, left, images, job.max_new_tokens):
            if answer.error and not answer.too_long:
                failed[benchmark.name].append(f"question {question.id!r}: {answer.error}")
            else:
                row = _row(benchmark.name, question.id, answer)
                found[benchmark.name][question.id] = row
                journals[benchmark.name].append(row)
            progress.update(1)
            open_questions[benchmark.name] -= 1
            if not open_questions[benchmark.name]:
                journals[benchmark.name].flush()
    finally:
        for journal in journals.values():
            journal.flush()
        engine.close()
    if failed:
        faults = [
            f"understanding.benchmarks.{name}: {len(some)} failed, first {some[0]}" for name, some in failed.items()
        ]
        raise UserError("requests failed, run again to ask for just these\n  " + "\n  ".join(faults))
    return found, engine.facts


def asked_engine(engine: EngineJob, model: Path, num_images: int) -> EngineJob:
    """The engine of a job with the trained model, for requests of up to `num_images` images."""
    return engine.model_copy(update={"model": Source(path=model), "max_images": num_images})


def _answers(
    engine: Engine, left: Sequence[Asked], images: ReadAhead, max_new_tokens: int
) -> Iterable[tuple[Asked, Answer]]:
    """Every question's answer as it comes."""
    waiting, not_asked = iter(left), []

    def next_request() -> Request | None:
        for asked in waiting:
            shown = images.next()
            if isinstance(shown, Exception):
                not_asked.append((asked, unreadable(shown)))
                continue
            benchmark, question = asked
            return Request(asked, benchmark.prompt(question), max_new_tokens, Sampling(), images=shown)
        return None

    for request, answer in answers(engine, next_request):
        yield request.key, answer
    yield from not_asked


def _read(asked: Asked) -> tuple[Image.Image, ...]:
    """A question's images; the model's own processor fills them up to squares where training did."""
    return tuple(decode(image.data())[0] for image in asked[1].images)


def _row(benchmark: str, question: str, answer: Answer) -> Row:
    return {
        "benchmark": benchmark,
        "question_id": question,
        "raw_answer": answer.text or "",
        "finish_reason": "too_long" if answer.too_long else answer.finish_reason,
    }
