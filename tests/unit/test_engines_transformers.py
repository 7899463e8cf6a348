"""The transformers engine on tiny LLaVA folders of random weights, against Transformers' own generation."""

import dataclasses
import random
import shutil

import pytest
import torch
from engine_helpers import ask, engine_job, requests_of
from PIL import Image
from safetensors.torch import load_file, save_file
from scipy import stats
from transformers import (
    AutoProcessor,
    LlamaConfig,
    LlamaForCausalLM,
    LlavaForConditionalGeneration,
    LlavaNextConfig,
    LlavaNextForConditionalGeneration,
    LlavaNextImageProcessorPil,
    LlavaNextProcessor,
)

from workflow_scripts.blocks.tokenizer import build_tokenizer
from workflow_scripts.blocks.vlm_model import ARCHITECTURES, build_model, save_checkpoint
from workflow_scripts.blocks.world import render, sample_scene
from workflow_scripts.engines import transformers
from workflow_scripts.engines.interface import Picture, Request, request_seed
from workflow_scripts.engines.sampling import PresencePenalty, RowNoise, processors
from workflow_scripts.engines.weights import weights_fingerprint
from workflow_scripts.errors import UserError
from workflow_scripts.images import read_rgb
from workflow_scripts.plan import ServingJob
from workflow_scripts.spec import Sampling

LIMIT = 12


@pytest.fixture(scope="module", params=ARCHITECTURES)
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / request.param
    save_checkpoint(build_model(request.param, seed=0), request.param, path)
    return path


@pytest.fixture(scope="module")
def clip_folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "clip-llama"
    save_checkpoint(build_model("clip-llama", seed=0), "clip-llama", path)
    return path


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    path, numbers = tmp_path_factory.mktemp("pictures"), random.Random(0)
    for index in range(13):
        Image.fromarray(render(sample_scene(numbers), numbers)).save(path / f"{index}.png")
    return [Picture(f"id{index}", str(path / f"{index}.png")) for index in range(13)]


@pytest.fixture(scope="module")
def next_folder(tmp_path_factory):
    """A LLaVA-NeXT, whose prompts grow with the picture's shape, so that a batch must be padded."""
    path = tmp_path_factory.mktemp("model") / "next"
    llava, grid = build_model("clip-llama", seed=0).config, [[32, 64], [64, 32], [64, 64]]
    torch.manual_seed(0)
    config = LlavaNextConfig(
        vision_config=llava.vision_config, text_config=llava.text_config, image_token_id=llava.image_token_id,
        vision_feature_layer=-1, image_grid_pinpoints=grid, image_seq_length=4, tie_word_embeddings=True,
    )  # fmt: skip
    model = LlavaNextForConditionalGeneration(config)
    model.generation_config.update(eos_token_id=2, pad_token_id=0)
    model.save_pretrained(path)
    tokenizer, side = build_tokenizer(), {"height": 32, "width": 32}
    LlavaNextProcessor(
        LlavaNextImageProcessorPil(size={"shortest_edge": 32}, crop_size=side, image_grid_pinpoints=grid), tokenizer,
        patch_size=16, vision_feature_select_strategy="default", num_additional_image_tokens=1,
        chat_template=tokenizer.chat_template,
    ).save_pretrained(path)  # fmt: skip
    return path


def test_prompts_of_different_lengths_share_a_batch(next_folder, tmp_path):
    shapes, numbers = [(32, 32), (64, 32), (20, 90), (64, 64), (33, 200)], torch.Generator().manual_seed(0)
    pictures = []
    for width, height in shapes:
        path = tmp_path / f"{width}x{height}.png"
        pixels = torch.randint(0, 256, (height, width, 3), generator=numbers, dtype=torch.uint8)
        Image.fromarray(pixels.numpy()).save(path)
        pictures.append(Picture(path.name, str(path)))
    made = engine(next_folder, max_model_len=32)  # greedy: noise would drown the scores of random weights
    together = captions_of(made, pictures)
    assert together == [captions_of(made, [picture])[0] for picture in pictures]
    limits = {caption.num_tokens for caption in together if caption.finish_reason == "length"}
    assert len(limits) > 1  # a longer prompt leaves less room


def engine(folder, **changes):
    return transformers.Engine(engine_job("transformers", model={"path": str(folder)}, **changes), ServingJob(), [])


def captions_of(engine, pictures, sampling=None, max_tokens=LIMIT):
    return ask(engine, requests_of(pictures, sampling, max_tokens=max_tokens))


def test_greedy_captions_are_those_of_generate(folder, pictures):
    captions = captions_of(engine(folder), pictures)
    processor = AutoProcessor.from_pretrained(folder)
    model = LlavaForConditionalGeneration.from_pretrained(folder)
    for picture, caption in zip(pictures, captions, strict=True):
        inputs = processor(text="<bos> <image> describe", images=Image.open(picture.path), return_tensors="pt")
        tokens = model.generate(**inputs, max_new_tokens=LIMIT, do_sample=False)[0, inputs["input_ids"].shape[1] :]
        assert caption.text == processor.decode(tokens, skip_special_tokens=True)
        ended = processor.tokenizer.eos_token_id in tokens.tolist()
        assert caption.finish_reason == ("stop" if ended else "length")
        assert caption.num_tokens == len(tokens) - ended
        assert caption.error is None


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_captions_do_not_depend_on_the_batch(folder, pictures, temperature, monkeypatch):
    made, sampling = engine(folder), Sampling(temperature=temperature, top_k=30, top_p=0.95, presence_penalty=0.5)
    together = captions_of(made, pictures, sampling)
    assert [captions_of(made, [picture], sampling)[0] for picture in pictures] == together
    monkeypatch.setattr(made, "_batch", 4)
    assert captions_of(made, pictures[::-1], sampling) == together[::-1]
    other = captions_of(made, pictures, sampling.model_copy(update={"seed": 1}))
    assert (other == together) == (temperature == 0)


def test_requests_drawn_alike_share_a_batch(folder, pictures):
    """Greedy and sampled ones, with an image and without, asked together: each answer is as if asked alone."""
    made, drawn = engine(folder), Sampling(temperature=0.7)
    mixed = requests_of(pictures[:2]) + requests_of(pictures[2:4], drawn)
    mixed += requests_of(pictures[4:6], read=False) + requests_of(pictures[:1], text="describe briefly")
    mixed = [dataclasses.replace(request, key=number) for number, request in enumerate(mixed)]
    assert ask(made, mixed) == [ask(made, [request])[0] for request in mixed]


def test_several_images_in_their_order(folder, pictures, monkeypatch):
    """Requests with one and two images share a batch: the model sees each image once, at its request's marks."""
    made, images = engine(folder), [read_rgb(picture.path) for picture in pictures[:3]]
    generate, seen = made._model.generate, []
    monkeypatch.setattr(made._model, "generate", lambda **inputs: seen.append(inputs) or generate(**inputs))
    one = Request(0, "<image>\ndescribe", LIMIT, Sampling(), images=(images[2],))
    two = Request(1, "<image> describe <image>", LIMIT, Sampling(), images=(images[1], images[0]))
    assert ask(made, [one, two]) == [ask(made, [one])[0], ask(made, [dataclasses.replace(two, key=0)])[0]]
    processor = AutoProcessor.from_pretrained(folder)
    texts = ["<bos> <image> describe", "<bos> <image> <image> describe"]
    expected = processor(text=texts, images=images[::-1], padding=True, padding_side="left", return_tensors="pt")
    assert torch.equal(seen[0]["input_ids"], expected["input_ids"])
    assert torch.equal(seen[0]["pixel_values"], expected["pixel_values"])


def test_a_language_model_answers_text(tmp_path):
    """A folder without an image processor is a language model; its greedy answer is `generate`'s."""
    torch.manual_seed(0)
    tokenizer = build_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    made = engine(tmp_path)
    request = Request(0, "describe", 6, Sampling(), schema={"type": "object"})
    (answer,) = ask(made, [request])
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "describe"}], add_generation_prompt=True)
    prompt = torch.tensor([prompt["input_ids"]])
    expected = LlamaForCausalLM.from_pretrained(tmp_path).generate(prompt, max_new_tokens=6, do_sample=False)
    assert answer.text == tokenizer.decode(expected[0, prompt.shape[1] :], skip_special_tokens=True).strip()
    assert answer.num_prompt_tokens == prompt.shape[1]
    assert made.count_tokens("describe briefly") == 2
    assert made.facts["transformers"] == {"schemas_not_enforced": 1}


def test_the_folders_own_sampling_defaults_do_not_enter(clip_folder, pictures, tmp_path):
    shutil.copytree(clip_folder, tmp_path / "model")
    config = tmp_path / "model" / "generation_config.json"
    config.write_text(config.read_text().replace("{", '{"repetition_penalty": 5.0, "do_sample": true, "top_k": 3,', 1))
    assert captions_of(engine(tmp_path / "model"), pictures) == captions_of(engine(clip_folder), pictures)


def test_limits_of_new_tokens_and_of_context(clip_folder, pictures):
    prompt = 6  # <bos>, four image tokens, describe
    (free,) = captions_of(engine(clip_folder), pictures[:1], max_tokens=20)
    assert free.finish_reason == "length" and free.num_tokens == 20
    (short,) = captions_of(engine(clip_folder, max_model_len=prompt + 7), pictures[:1], max_tokens=20)
    assert short.text == " ".join(free.text.split()[:7]) and (short.num_tokens, short.finish_reason) == (7, "length")
    none = captions_of(engine(clip_folder, max_model_len=prompt), pictures[:2])
    assert [c.error for c in none] == ["prompt of 6 tokens fills max_model_len 6"] * 2


def test_the_end_token_stops_and_is_not_counted(clip_folder, pictures):
    captions = captions_of(engine(clip_folder), pictures, Sampling(temperature=2.0), max_tokens=60)
    ends = [caption.finish_reason for caption in captions]
    assert set(ends) == {"stop", "length"}
    assert all((c.num_tokens == 60) == (c.finish_reason == "length") for c in captions)
    assert all(len(c.text.split()) <= c.num_tokens for c in captions)


def test_too_little_memory_halves_the_batch_for_good(clip_folder, pictures, monkeypatch):
    made, sizes = engine(clip_folder), []
    expected, answer = captions_of(made, pictures), made._answer

    def scarce(requests):
        sizes.append(len(requests))
        if len(requests) > 3:
            raise torch.OutOfMemoryError
        return answer(requests)

    monkeypatch.setattr(made, "_answer", scarce)
    assert captions_of(made, pictures) == expected
    assert sizes == [13, 6, 3, 3, 3, 3, 1]
    monkeypatch.setattr(made, "_answer", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError))
    with pytest.raises(UserError, match=r"one request exceeds the GPU's memory; lower max_pixels"):
        captions_of(made, pictures)


def test_weights_that_do_not_fit_the_model(clip_folder, tmp_path):
    shutil.copytree(clip_folder, tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    tensors = load_file(weights)
    name = next(key for key in tensors if key.endswith("linear_1.weight"))
    save_file({key: tensor for key, tensor in tensors.items() if key != name}, weights, {"format": "pt"})
    with pytest.raises(UserError, match=r"the checkpoint lacks 1 weights, such as .*linear_1.weight"):
        engine(tmp_path / "model")
    weights.rename(weights.with_name("pytorch_model.bin"))
    with pytest.raises(UserError, match=r"holds no .safetensors file"):
        engine(tmp_path / "model")


def test_pictures_are_scaled_to_max_pixels_and_turned_upright(tmp_path):
    image = Image.new("RGB", (400, 100))
    exif = image.getexif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    image.save(tmp_path / "turned.jpg", exif=exif)
    assert read_rgb(tmp_path / "turned.jpg", None).size == (100, 400)
    assert read_rgb(tmp_path / "turned.jpg", 10_000).size == (50, 200)
    Image.new("LA", (5, 5)).save(tmp_path / "gray.png")
    assert read_rgb(tmp_path / "gray.png", 25).mode == "RGB"


def test_weights_are_known_by_content_not_by_time(clip_folder, tmp_path):
    shutil.copytree(clip_folder, tmp_path / "model", copy_function=shutil.copyfile)
    assert weights_fingerprint(tmp_path / "model") == weights_fingerprint(clip_folder)
    weights = tmp_path / "model" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert weights_fingerprint(tmp_path / "model") != weights_fingerprint(clip_folder)


@pytest.mark.parametrize(
    "sampling", [Sampling(temperature=1.0), Sampling(temperature=0.6, top_k=5), Sampling(temperature=1.3, top_p=0.8)]
)
def test_noise_draws_from_the_softmax(sampling):
    """Frequencies of 4,000 rows of their own seeds against the probabilities, chi-square."""
    scores, rows = torch.randn(12, generator=torch.Generator().manual_seed(0)) * 1.5, 4000
    seeds = [request_seed(0, f"image{n}") for n in range(rows)]
    tokens = processors(sampling, seeds, 0)(torch.zeros(rows, 0, dtype=torch.long), scores.expand(rows, -1)).argmax(1)
    kept = (scores / sampling.temperature).softmax(0)
    order = kept.argsort(descending=True)
    count = sampling.top_k or int((kept[order].cumsum(0) - kept[order] < sampling.top_p).sum())
    allowed = order[:count]
    expected = kept[allowed] / kept[allowed].sum() * rows
    observed = torch.bincount(tokens, minlength=12)
    assert observed[allowed].sum() == rows  # nothing outside the top
    assert stats.chisquare(observed[allowed].double(), expected.double() * rows / expected.double().sum()).pvalue > 1e-3


def test_each_row_has_its_own_stream_that_goes_on():
    scores = torch.zeros(2, 50)
    both = RowNoise([3, 4])
    alone = RowNoise([4])
    first, second = both(None, scores), both(None, scores)
    assert torch.equal(first[1], alone(None, scores[:1])[0]) and torch.equal(second[1], alone(None, scores[:1])[0])
    assert not torch.equal(first[1], second[1]) and not torch.equal(first[0], first[1])
    assert request_seed(0, "a") != request_seed(1, "a") != request_seed(1, "b")


def test_presence_penalty_counts_the_answer_alone_and_once():
    scores = torch.ones(2, 6)
    ids = torch.tensor([[0, 1, 3, 3], [0, 1, 4, 5]])  # two tokens of prompt
    expected = torch.tensor([[1, 1, 1, 0.5, 1, 1], [1, 1, 1, 1, 0.5, 0.5]])
    assert torch.equal(PresencePenalty(0.5, 2)(ids, scores), expected)
