"""The vLLM engine on the architectures of the paper's captioners, with real photographs."""

import json
import re

import pytest
import torch
from asking import PROMPT, ask, open_vllm, request
from conftest import LARGEST
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor, GenerationConfig

EACH_MODEL = pytest.mark.parametrize("name", ["qwen3-vl", "internvl", "glm4v", "llava"], indirect=True)
ONE_MODEL = pytest.mark.parametrize("name", ["qwen3-vl"], indirect=True)  # what does not depend on the architecture
SCHEMA = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "maxLength": 20},
        "verdict": {"enum": ["yes", "no", "not_mentioned"]},
    },
    "required": ["reason", "verdict"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def name(request):
    return request.param


@pytest.fixture(scope="module")
def model(name, tiny_model):
    return tiny_model(name)


@pytest.fixture(scope="module")
def engine(model):
    with open_vllm(model) as engine:
        yield engine


def transformers_greedy(folder, images, max_tokens):
    """Text, tokens, how it ended and prompt length of each image from Transformers alone, one image at a time."""
    processor = AutoProcessor.from_pretrained(folder)
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    ends = model.generation_config.eos_token_id
    model.generation_config = GenerationConfig(
        do_sample=False, max_new_tokens=max_tokens, eos_token_id=ends, pad_token_id=ends[0]
    )
    question = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": PROMPT}]}]
    prompt = processor.apply_chat_template(question, add_generation_prompt=True, tokenize=False)
    found = {}
    for name, image in images.items():
        inputs = processor(images=[image], text=[prompt], return_tensors="pt")
        inputs.pop("token_type_ids", None)
        with torch.inference_mode():
            tokens = model.generate(**inputs)[0].tolist()
        length = inputs["input_ids"].shape[1]
        written = tokens[length:]
        stopped = written[-1] in ends
        text = processor.decode(written[: len(written) - stopped], skip_special_tokens=True)
        found[name] = (whole(text), len(written) - stopped, "stop" if stopped else "length", length)
    return found


def whole(text):
    """A text without the half of a character that it was cut in, which vLLM does not give out."""
    return text.rstrip("\ufffd ").strip()


@EACH_MODEL
def test_greedy_text_is_that_of_transformers(model, engine, photographs):
    """The folder's own sampling (hot, with penalties) is used by neither; its end tokens are by both."""
    found = ask(engine, [request(name, image) for name, image in photographs.items()])
    assert all(answer.error is None for answer in found.values())
    assert {
        name: (whole(answer.text), answer.num_tokens, answer.finish_reason, answer.num_prompt_tokens)
        for name, answer in found.items()
    } == transformers_greedy(model, photographs, 24)
    assert len({answer.text for answer in found.values()}) > 1, "the model does not look at the image"


@EACH_MODEL
def test_a_thin_image_is_an_answer_or_an_error(engine, photographs):
    """Qwen's and GLM's processors refuse such a shape; the others take it. The next request is none the worse."""
    thin = Image.new("RGB", (3000, 2))
    found = ask(engine, [request("thin", thin), request("whole", photographs["DK001.jpg"])])
    assert (found["thin"].text is None) == (found["thin"].error is not None)
    assert found["whole"].error is None


@ONE_MODEL
def test_sampled_answers_depend_on_seed_and_image_alone(engine, photographs):
    warm = {"temperature": 1.0, "top_p": 0.9, "top_k": 50, "presence_penalty": 1.0}
    small = {name: image for name, image in photographs.items() if image.width * image.height < 4e6}
    requests = [request((name, seed), image, seed=seed, **warm) for name, image in small.items() for seed in (1, 2)]
    together = ask(engine, requests)
    alone = {}
    for one in reversed(requests):
        alone |= ask(engine, [one])
    assert {key: answer.text for key, answer in together.items()} == {key: answer.text for key, answer in alone.items()}
    assert all(together[name, 1].text != together[name, 2].text for name in small)


@ONE_MODEL
def test_presence_penalty_reaches_the_sampler(engine, photographs):
    plain = request("plain", photographs["DK001.jpg"], max_tokens=60)
    penalised = request("penalised", photographs["DK001.jpg"], max_tokens=60, presence_penalty=2.0)
    found = ask(engine, [plain, penalised])
    assert found["plain"].text != found["penalised"].text


@ONE_MODEL
def test_schema_is_held(engine):
    requests = [request(n, text="judge", schema=SCHEMA, max_tokens=80, temperature=1.5, seed=n) for n in range(8)]
    for answer in ask(engine, requests).values():
        verdict = json.loads(answer.text, strict=False)  # the grammar lets control characters into strings
        assert answer.finish_reason == "stop"
        assert set(verdict) == {"reason", "verdict"} and verdict["verdict"] in ("yes", "no", "not_mentioned")
        assert answer.text.startswith('{"reason":"'), "no space outside of strings"


@ONE_MODEL
def test_cached_prompt_tokens_are_counted(engine, photographs):
    system = "describe the image. " * 30
    first = ask(engine, [request(1, text="one", system=system)])[1]
    second = ask(engine, [request(2, text="two", system=system)])[2]
    assert first.num_cached_tokens == 0
    assert second.num_prompt_tokens - 64 < second.num_cached_tokens < second.num_prompt_tokens
    image = photographs[LARGEST]
    ask(engine, [request(1, image, seed=5)])
    assert ask(engine, [request(2, image, seed=6)])[2].num_cached_tokens > 0
    assert engine.facts["vllm"]["num_cached_tokens"] >= second.num_cached_tokens


@ONE_MODEL
def test_prompts_that_do_not_fit_are_errors_of_their_own(engine):
    found = ask(engine, [request("long", text="dog " * 3000), request("short", text="dog")])
    (length,) = re.fullmatch(r"prompt of (\d+) tokens fills max_model_len 512", found["long"].error).groups()
    assert int(length) > 3000
    assert found["short"].error is None


@ONE_MODEL
def test_answers_end_at_the_context(engine):
    requests = [request(n, text="dog " * 480, max_tokens=500, temperature=1.0, seed=n) for n in range(8)]
    cut = [answer for answer in ask(engine, requests).values() if answer.finish_reason == "length"]
    assert cut
    assert {answer.num_prompt_tokens + answer.num_tokens for answer in cut} == {512}


@ONE_MODEL
def test_tokens_are_counted_as_the_tokenizer_does(engine, model):
    tokenizer = AutoProcessor.from_pretrained(model).tokenizer
    text = "the small brown dog runs"
    assert engine.count_tokens(text) == len(tokenizer.encode(text, add_special_tokens=False))


@ONE_MODEL
def test_nothing_to_do(engine):
    assert engine.collect() == []
    assert engine.room() == 16
