"""The server engine against a real HTTP server on this machine that behaves as told: a test double of hosted models."""

import base64
import io
import json
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from PIL import Image

from workflow_scripts.engines import server
from workflow_scripts.engines.interface import Request, answers
from workflow_scripts.errors import UserError
from workflow_scripts.plan import EngineJob, ServingJob
from workflow_scripts.spec import Sampling

KEY = "sk-test-0123456789abcdef"


class Double(ThreadingHTTPServer):
    """Answers every question with the next of `script`: a status, a (status, headers), raw bytes, or a number of
    seconds to hang; with the question's own text once the script is over."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.seen, self.headers, self.times = [], [], [], []
        self.num_at_once = self.most_at_once = 0
        self.seconds = 0.0
        self.lock = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        double = self.server
        with double.lock:
            double.seen.append(body)
            double.headers.append(dict(self.headers))
            double.times.append(time.monotonic())
            step = double.script.pop(0) if double.script else None
            double.num_at_once += 1
            double.most_at_once = max(double.most_at_once, double.num_at_once)
        time.sleep(step if isinstance(step, float) else double.seconds)
        with double.lock:
            double.num_at_once -= 1
        if isinstance(step, bytes):
            return self.reply(200, step)
        status, headers = step if isinstance(step, tuple) else (step, {})
        if isinstance(status, int):
            message = f"no, {self.headers['authorization']} {body['messages'][-1]['content']}"
            return self.reply(status, json.dumps({"error": {"message": message}}).encode(), headers)
        self.reply(200, json.dumps(completion(body)).encode())

    def reply(self, status, content, headers=None):
        try:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
        except OSError:  # the client has given up
            pass


def completion(body, content=None, reason="stop"):
    text = body["messages"][-1]["content"] if body else content
    if body and isinstance(text, list):
        text = text[-1]["text"]
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "double-2026",
        "choices": [{"index": 0, "finish_reason": reason, "message": {"role": "assistant", "content": text}}],
        "usage": {
            "prompt_tokens": 7,
            "completion_tokens": 3,
            "total_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    }


@pytest.fixture
def double():
    with Double() as made:
        threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
        yield made
        made.shutdown()


@pytest.fixture
def ask(double, monkeypatch):
    """Ask the double; every engine is closed at the end."""
    monkeypatch.setenv("DOUBLE_KEY", KEY)
    monkeypatch.setattr(server, "FIRST_DELAY", 0.01)
    engines = []

    def ask(requests, job=None, **settings):
        address = {"url": double.url, "model": "big", "key_variable": "DOUBLE_KEY", "concurrency": 1, **settings}
        fields = {"engine": "server", "server_model": "big", "max_model_len": 100, **(job or {})}
        engines.append(server.Engine(EngineJob(**fields), ServingJob(server=address), []))
        ask.engine = engines[-1]
        queue = iter(requests)
        return {request.key: answer for request, answer in answers(engines[-1], lambda: next(queue, None))}

    yield ask
    for engine in engines:
        engine.close()


def request(key, text="hello", **fields):
    return Request(key, text, 20, fields.pop("sampling", Sampling()), **fields)


def test_answers_belong_to_their_requests_however_many_are_in_flight(double, ask):
    double.seconds = 0.02
    found = ask([request(n, f"text {n}") for n in range(40)], concurrency=8)
    assert {key: answer.text for key, answer in found.items()} == {n: f"text {n}" for n in range(40)}
    assert 2 <= double.most_at_once <= 8
    assert found[0].finish_reason == "stop"
    assert (found[0].num_tokens, found[0].num_prompt_tokens, found[0].num_cached_tokens) == (3, 7, 4)
    assert ask.engine.facts == {"server": {"num_retries": 0, "models": ["double-2026"]}}


def test_what_is_sent(double, ask):
    image = Image.effect_noise((40, 30), 90).convert("RGB")
    schema = {"type": "object", "properties": {"verdict": {"type": "string"}}}
    sampling = Sampling(temperature=0.7, top_p=0.8, top_k=20, presence_penalty=1.5)
    rich = request(1, system="be brief", images=(image,), schema=schema, seed=2**63 - 1, sampling=sampling)
    ask([rich], job={"chat_template_kwargs": {"enable_thinking": False}})
    ask([request(2)])
    sent, plain = double.seen
    url = sent["messages"][1]["content"][0]["image_url"]["url"]
    assert url.startswith("data:image/png;base64,")
    received = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
    assert received.tobytes() == image.tobytes()
    assert sent["messages"][0] == {"role": "system", "content": "be brief"}
    assert sent["messages"][1]["content"][1] == {"type": "text", "text": "hello"}
    assert sent["response_format"]["json_schema"]["schema"] == schema
    assert {name: sent[name] for name in ("model", "max_tokens", "temperature", "top_p", "top_k")} == {
        "model": "big",
        "max_tokens": 20,
        "temperature": 0.7,
        "top_p": 0.8,
        "top_k": 20,
    }
    assert (sent["presence_penalty"], sent["seed"]) == (1.5, 2**63 - 1)
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert set(plain) == {"model", "messages", "max_tokens", "temperature", "seed"}
    assert double.headers[0]["authorization"] == f"Bearer {KEY}"


def test_several_images_stand_where_the_text_has_them(double, ask):
    images = tuple(Image.new("RGB", (8, 8), colour) for colour in ("red", "blue"))
    ask([request(1, "is <image>\nlike <image>?", images=images)])
    content = double.seen[0]["messages"][0]["content"]
    assert [part["type"] for part in content] == ["text", "image_url", "text", "image_url", "text"]
    assert [part["text"] for part in content[::2]] == ["is ", "\nlike ", "?"]
    sent = [part["image_url"]["url"].partition(",")[2] for part in content[1::2]]
    assert [Image.open(io.BytesIO(base64.b64decode(data))).tobytes() for data in sent] == [i.tobytes() for i in images]


@pytest.mark.parametrize("trouble", [429, 500, 503, 408, b"{broken", b'{"choices": []}', b"[]"])
def test_passing_trouble_is_waited_out(double, ask, trouble):
    double.script = [trouble, trouble]
    found = ask([request(1)], attempts=3)
    assert found[1].text == "hello"
    assert ask.engine.facts["server"]["num_retries"] == 2


def test_a_hanging_answer_is_given_up_and_asked_again(double, ask):
    double.script = [5.0]
    start = time.monotonic()
    assert ask([request(1)], attempts=2, timeout_seconds=0.2)[1].text == "hello"
    assert time.monotonic() - start < 5.0


def test_the_server_says_how_long_to_wait(double, ask):
    double.script = [(429, {"retry-after": "0.4"})]
    ask([request(1)])
    assert 0.4 <= double.times[1] - double.times[0] < 1.0


def test_waits_grow(double, ask, monkeypatch):
    monkeypatch.setattr(server, "FIRST_DELAY", 0.1)
    double.script = [500, 500, 500]
    ask([request(1)], attempts=4)
    gaps = [later - earlier for earlier, later in zip(double.times, double.times[1:], strict=False)]
    assert all(gap >= 0.05 * 2**n for n, gap in enumerate(gaps)), gaps


def test_no_more_requests_a_minute_than_allowed(double, ask):
    ask([request(n) for n in range(6)], concurrency=6, requests_per_minute=600)
    times = sorted(double.times)
    assert times[-1] - times[0] >= 5 * 0.1 - 0.02


def test_one_bad_request_is_one_error(double, ask):
    double.script = [400]
    found = ask([request(1), request(2)])
    assert found[1].text is None and "400" in found[1].error
    assert found[2].text == "hello"
    assert ask.engine.facts["server"]["num_retries"] == 0


def test_a_request_that_breaks_the_server_each_time_is_one_error(double, ask):
    double.script = [500, 500]
    found = ask([request(1), request(2)], attempts=2)
    assert "after 2 attempts: 500" in found[1].error
    assert found[2].text == "hello"


@pytest.mark.parametrize("status", [401, 403, 404])
def test_no_key_or_model_stops(double, ask, status):
    double.script = [status] * 9
    with pytest.raises(UserError, match=rf"127\.0\.0\.1.*'big'.*DOUBLE_KEY.*{status}"):
        ask([request(n) for n in range(9)])


@pytest.mark.parametrize("status", [429, 503])
def test_a_service_that_stays_out_of_order_stops(double, ask, status):
    double.script = [status] * 20
    with pytest.raises(UserError, match=f"after 2 attempts: {status}.*run again later"):
        ask([request(n) for n in range(9)], attempts=2)


def test_nobody_there_stops(ask):
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9.*cannot be reached"):
        ask([request(1)], url="http://127.0.0.1:9/v1", attempts=2)


@pytest.mark.parametrize(
    ("reason", "content", "error"),
    [("content_filter", None, "content_filter"), ("stop", None, "no text"), ("length", "cut here", None)],
)
def test_how_an_answer_ended(double, ask, reason, content, error):
    double.script = [json.dumps(completion(None, content, reason)).encode()]
    (answer,) = ask([request(1)]).values()
    assert answer.text == content
    assert (error in answer.error) if error else (answer.error is None and answer.finish_reason == reason)


def test_a_missing_key_is_named(ask, monkeypatch):
    monkeypatch.delenv("DOUBLE_KEY")
    with pytest.raises(UserError, match="environment variable DOUBLE_KEY is not set"):
        ask([request(1)])


def test_the_key_is_written_nowhere(double, ask, caplog):
    """The double repeats the key in all its errors, as careless servers do."""
    caplog.set_level("DEBUG")
    double.script = [500, 400]
    found = ask([request(1)])
    said = [repr(found), repr(ask.engine.facts), caplog.text]
    for status in (401, 429):
        double.script = [status] * 9
        with pytest.raises(UserError) as caught:
            ask([request(1)], attempts=2)
        said += ["".join(traceback.format_exception(caught.value)), caplog.text]
    assert "[key]" in found[1].error
    assert not any(KEY in text for text in said)


def test_tokens_are_never_underestimated(ask):
    ask([])
    assert ask.engine.count_tokens("naïve 日本") == 13
