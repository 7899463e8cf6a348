"""The models behind the generation scores, tiny and random, of the real classes: each picture alone or in batches, what
they make of raw outputs against independent computations, what a wrong folder says, and that canaries stop them."""

import json
import shutil
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import tiny_scorers
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file
from told_models import ToldModels

from workflow_scripts.benchmarks.generation import BENCHMARKS, canaries, geneval
from workflow_scripts.benchmarks.generation.base import Picture, Prompt
from workflow_scripts.benchmarks.generation.mask2former import instances
from workflow_scripts.benchmarks.generation.models import (
    blip,
    clip,
    dpt,
    engine,
    mask2former,
    open_models,
    owlv2,
    unidet,
)
from workflow_scripts.benchmarks.generation.roles import MODELS, Detection
from workflow_scripts.errors import UserError
from workflow_scripts.spec import ScorerModel

TINY = {
    "instances": ("mask2former", tiny_scorers.build_mask2former),
    "colors": ("clip", tiny_scorers.build_clip),
    "attributes": ("blip", tiny_scorers.build_blip),
    "objects": ("owlv2", tiny_scorers.build_owlv2),
    "depth": ("dpt", tiny_scorers.build_dpt),
    "similarity": ("clip", tiny_scorers.build_clip),
}
CLASSES = {
    "instances": mask2former.InstanceDetector,
    "colors": clip.ColorClassifier,
    "attributes": blip.YesProbability,
    "objects": owlv2.ObjectDetector,
    "depth": dpt.DepthEstimator,
    "similarity": clip.TextSimilarity,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scorers")
    built = {through: build(folder / through) for through, build in TINY.values()}
    return {role: built[through] for role, (through, _) in TINY.items()}


@pytest.fixture
def opened(folders):
    def open_one(role, batch=4):
        return CLASSES[role](ScorerModel(through=TINY[role][0], path=folders[role]), batch, None)

    return open_one


def noise(seed, width=64, height=64):
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8)
    return Image.fromarray(cells.repeat(8, axis=0).repeat(8, axis=1))


PICTURES = [noise(0), noise(1), noise(2, 96, 64), noise(3), noise(4)]


def flat(said) -> list[float]:
    """All numbers of what a model said."""
    if isinstance(said, Detection):
        return [said.score, *said.box, *([] if said.mask is None else [said.mask.mean()])]
    if isinstance(said, list | tuple):
        return [number for part in said for number in flat(part)]
    return np.ravel(said).tolist() if not isinstance(said, str) else []


def labels(said) -> list[str]:
    if isinstance(said, list):
        return [label for part in said for label in labels(part)]
    return [said.label if isinstance(said, Detection) else said] if isinstance(said, str | Detection) else []


ASK = {
    "instances": lambda model, pictures: model.detect(pictures),
    "colors": lambda model, pictures: model.colors(
        [
            (picture, Detection("cow", 0.9, (8, 0, 56, 40), np.arange(4096).reshape(64, 64) % 3 > 0))
            for picture in pictures
        ]
    ),
    "attributes": lambda model, pictures: model.probabilities(
        [(picture, text) for picture in pictures for text in ("a red clock?", "the blue apple on top of the sign?")]
    ),
    "objects": lambda model, pictures: model.detect(
        pictures, [["cow", "stop sign"] if number % 2 else ["clock"] for number in range(len(pictures))]
    ),
    "depth": lambda model, pictures: model.depths(pictures, (40, 30)),
    "similarity": lambda model, pictures: model.similarities(
        [(picture, text) for picture in pictures for text in ("a red clock", "cow")]
    ),
}


@pytest.mark.parametrize("role", list(TINY))
def test_a_picture_gets_the_same_alone_and_in_any_batch(opened, role):
    pictures = [p for p in PICTURES if p.size == (64, 64)] if role == "colors" else PICTURES
    alone = ASK[role](opened(role, 1), pictures)
    together = ASK[role](opened(role, 3), pictures)
    assert labels(alone) == labels(together)
    assert flat(alone) == pytest.approx(flat(together), abs=1e-2 if role == "depth" else 1e-5, rel=1e-4)
    assert len(set(np.round(flat(alone), 6))) > 3 or role == "colors"  # pictures make a difference


@pytest.mark.parametrize("role", list(TINY))
def test_where_memory_runs_out_batches_are_halved_for_good(opened, role):
    pictures = PICTURES[:1] + PICTURES[3:] if role in ("colors", "instances") else PICTURES
    expected, model = ASK[role](opened(role), pictures), opened(role, 5)
    module = model._model.owlv2 if role == "objects" else model._model
    if role not in ("instances", "depth"):
        module = module.vision_model
    seen = []

    def refuse(module, args, kwargs):
        seen.append(len(kwargs["pixel_values"]))
        if seen[-1] > 2:
            raise torch.OutOfMemoryError

    module.register_forward_pre_hook(refuse, with_kwargs=True)
    found = ASK[role](model, pictures)
    assert labels(found) == labels(expected) and flat(found) == pytest.approx(flat(expected), abs=1e-2, rel=1e-3)
    assert max(seen) > 2 and model._in_batches.size <= 2
    seen.clear()
    ASK[role](model, pictures)
    assert max(seen) <= 2


def test_a_picture_that_memory_does_not_hold_is_an_error(opened):
    def refuse(module, args, kwargs):
        raise torch.OutOfMemoryError

    model = opened("depth")
    model._model.register_forward_pre_hook(refuse, with_kwargs=True)
    with pytest.raises(UserError, match=r"dpt: one picture exceeds the GPU's memory"):
        model.depths(PICTURES, (8, 8))


def test_nothing_asked_is_nothing_said(opened):
    assert opened("similarity").similarities([]) == opened("colors").colors([]) == []
    assert opened("attributes").probabilities([]) == opened("instances").detect([]) == []
    assert opened("objects").detect([], []) == opened("depth").depths([], (8, 8)) == []
    assert opened("objects").detect([PICTURES[0]], [[]]) == [[]]


def test_a_benchmarks_models_are_opened_together(folders):
    benchmark = {role: ScorerModel(through=TINY[role][0], path=folders[role]) for role in MODELS["t2i_compbench"]}
    assert {role: type(model) for role, model in open_models("t2i_compbench", benchmark, 2).items()} == {
        role: CLASSES[role] for role in MODELS["t2i_compbench"]
    }


@pytest.mark.parametrize("mode", ["official", "fixed"])
def test_the_benchmarks_rules_take_what_the_models_say(folders, mode):
    """Two pictures of a prompt a category, through each benchmark's own scorer."""
    rows = [
        {"tag": "colors", "include": [{"class": "cow", "count": 1, "color": "red"}], "prompt": "a red cow"},
        {"tag": "counting", "include": [{"class": "cup", "count": 2}], "exclude": [], "prompt": "two cups"},
    ]
    texts = {
        "color": "a red apple and a green vase",
        "shape": "a round clock and a square box",
        "texture": "a wooden table and a metallic chair",
        "spatial": "a clock on the left of a cow",
        "3d_spatial": "a cow in front of a clock",
        "numeracy": "two cows and three clocks",
        "non_spatial": "a man reads a book",
        "complex": "a red clock next to a small cow",
    }
    prompts = {
        "geneval": [Prompt(f"{number:05d}", row["prompt"], row["tag"], row) for number, row in enumerate(rows)],
        "t2i_compbench": [
            Prompt(f"{category}_000", text, category, "spatialaction" if category == "complex" else None)
            for category, text in texts.items()
        ],
    }
    for name, some in prompts.items():
        models = open_models(
            name, {role: ScorerModel(through=TINY[role][0], path=folders[role]) for role in MODELS[name]}, 3
        )
        scorer = BENCHMARKS[name].scorer(None, some, models, mode)
        pictures = [Picture(prompt, index, PICTURES[index]) for prompt in some for index in range(2)]
        scores = scorer(pictures)
        assert [(one.prompt_id, one.index) for one in scores] == [(one.prompt.id, one.index) for one in pictures]
        assert all(-1 <= one.score <= 1 for one in scores) and json.dumps([one.seen for one in scores])


def test_a_picture_is_encoded_once_however_much_is_asked(opened, monkeypatch):
    seen = []
    similarity, attributes = opened("similarity"), opened("attributes")
    for model in (similarity._model, attributes._model):
        model.vision_model.register_forward_pre_hook(
            lambda module, args, kwargs: seen.append(len(kwargs["pixel_values"])), with_kwargs=True
        )
    pairs = [(picture, text) for picture in PICTURES[:2] for text in ("a", "b", "c")]
    similarity.similarities(pairs)
    attributes.probabilities(pairs)
    assert seen == [2, 2]


# --- against independent computations


@torch.no_grad()
def test_colors_are_those_of_a_direct_clip_computation(opened, folders):
    model = transformers.CLIPModel.from_pretrained(folders["colors"])
    reader = transformers.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders["colors"])
    rng = np.random.default_rng(3)
    objects, expected = [], []
    for number, name in enumerate(("cow", "stop sign", "tv remote", "cow") * 6):
        picture, (left, top) = noise(number, 64, 48), rng.integers(0, 20, 2).tolist()
        mask = rng.random((48, 64)) > 0.3
        objects.append((picture, Detection(name, 0.9, (left, top, left + 40, top + 20), mask)))
        pixels = np.where(mask[..., None], np.asarray(picture), 0x99).astype(np.uint8)[top : top + 20, left : left + 40]
        image = model.get_image_features(**reader(Image.fromarray(pixels), return_tensors="pt")).pooler_output[0]
        likeness = []
        for color in geneval.COLORS:
            texts = [
                f"a photo of a {color} {name}",
                f"a photo of a {color}-colored {name}",
                f"a photo of a {color} object",
            ]
            vectors = model.get_text_features(**tokenizer(texts, padding=True, return_tensors="pt")).pooler_output
            mean = (vectors / vectors.norm(dim=1, keepdim=True)).mean(dim=0)
            likeness.append(float(mean @ image / mean.norm()))
        expected.append(geneval.COLORS[int(np.argmax(likeness))])
    assert opened("colors").colors(objects) == expected and len(set(expected)) > 2


def test_an_object_without_a_mask_is_cropped_alone():
    picture = noise(1)
    cut = clip.cut_out(picture, Detection("cow", 0.9, (8.0, 16.0, 24.0, 40.0)))
    assert np.array_equal(np.asarray(cut), np.asarray(picture)[16:40, 8:24])


def test_similarities_are_clips_cosines(opened, folders):
    model = transformers.CLIPModel.from_pretrained(folders["similarity"])
    reader = transformers.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders["similarity"])
    texts = ["a red stop sign and a clock", "an elephant"]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        logits = model(**inputs, **reader(PICTURES, return_tensors="pt")).logits_per_image
        expected = (logits / model.logit_scale.exp()).flatten().tolist()
    pairs = [(picture, text) for picture in PICTURES for text in texts]
    assert opened("similarity").similarities(pairs) == pytest.approx(expected, abs=1e-5)


def test_a_text_that_clip_would_cut_is_named(opened):
    with pytest.raises(UserError, match=r"CLIP reads 77 tokens, this text has more: 'aaa"):
        opened("similarity").similarities([(PICTURES[0], "a" * 80)])


def bilinear(pixels, height, width):
    """Half-pixel bilinear scaling of (h, w, 3) without smoothing, by two interpolations."""

    def weights(old, new):
        at = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
        low = np.floor(at).astype(int)
        matrix = np.zeros((new, old))
        np.add.at(matrix, (np.arange(new), low), 1 - (at - low))
        np.add.at(matrix, (np.arange(new), np.minimum(low + 1, old - 1)), at - low)
        return matrix

    rows, columns = weights(pixels.shape[0], height), weights(pixels.shape[1], width)
    return np.einsum("yh,xw,hwc->yxc", rows, columns, pixels.astype(float))


@pytest.mark.parametrize(
    ("size", "resized"),
    [((1024, 1024), (800, 800)), ((512, 512), (800, 800)), ((480, 640), (800, 1067)), ((300, 2000), (200, 1333))],
)
def test_mask2former_sees_the_size_that_mmdet_gives(size, resized):
    assert mask2former.resized_size(*size) == resized


@pytest.mark.parametrize(("height", "width"), [(40, 60), (100, 140)])
def test_mask2former_sees_unsmoothed_normalised_pixels_in_multiples_of_32(height, width):
    picture = noise(5, 96, 64)
    seen = mask2former.prepare(picture, (height, width))
    assert all(side % 32 == 0 for side in seen.shape[1:])
    levels = seen.permute(1, 2, 0).numpy() * mask2former.STD + mask2former.MEAN
    assert np.abs(levels - np.rint(levels)).max() < 1e-4
    assert np.abs(levels[height:] - 128).max() < 1e-4 and np.abs(levels[:, width:] - 128).max() < 1e-4
    assert np.abs(levels[:height, :width] - bilinear(np.asarray(picture), height, width)).max() < 1.01  # levels of 255


def test_instances_are_made_of_the_raw_outputs_in_the_pictures_size(opened):
    detector = opened("instances")
    picture = noise(6, 96, 64)
    resized = mask2former.resized_size(64, 96)
    inputs = mask2former.prepare(picture, resized)[None]
    with torch.inference_mode():
        raw = detector._model(pixel_values=inputs)
    expected = instances(
        raw.class_queries_logits[0],
        raw.masks_queries_logits[0],
        inputs.shape[-2:],
        resized,
        (64, 96),
        mask2former.NAMES,
    )
    (found,) = detector.detect([picture])
    assert len(found) == 100 and [d.label for d in found] == [d.label for d in expected]
    assert all(d.mask.shape == (64, 96) for d in found) and set(labels(found)) <= set(mask2former.NAMES)
    assert flat(found) == pytest.approx(flat(expected), rel=1e-4, abs=1e-5)


def test_instances_are_those_of_mmdets_rule_in_numpy():
    rng = np.random.default_rng(8)
    classes = rng.normal(size=(9, 6)).astype(np.float32)
    coarse = rng.normal(size=(9, 5, 6)).astype(np.float32)
    padded, resized, original = (32, 64), (30, 50), (21, 35)
    probabilities = np.exp(classes) / np.exp(classes).sum(axis=1, keepdims=True)
    expected = []
    for query in range(9):
        large = bilinear(coarse[query][..., None], *padded)[: resized[0], : resized[1]]
        mask = bilinear(large, *original)[..., 0]
        inside = mask > 0
        sure = (inside / (1 + np.exp(-mask))).sum() / (inside.sum() + 1e-6)
        rows, columns = inside.any(axis=1).nonzero()[0], inside.any(axis=0).nonzero()[0]
        box = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
        expected += [(probabilities[query, label] * sure, f"thing {label}", box, inside) for label in range(5)]
    expected.sort(key=lambda one: -one[0])
    names = [f"thing {label}" for label in range(5)]
    found = instances(torch.from_numpy(classes), torch.from_numpy(coarse), padded, resized, original, names)
    assert [(d.label, d.box) for d in found] == [(label, box) for _, label, box, _ in expected]
    assert [d.score for d in found] == pytest.approx([score for score, *_ in expected], rel=1e-5)
    assert all(np.array_equal(d.mask, mask) for d, (*_, mask) in zip(found, expected, strict=True))


def test_the_detectors_names_are_genevals(shared_path):
    assert list(mask2former.NAMES) == geneval.read_object_names(shared_path / "data/geneval")


def cubic(positions, side):
    """Positions (old, old, d) scaled to (side, side, d) by cubic convolution with a = -0.75, edges repeated."""
    old = positions.shape[0]

    def weight(x):
        x = abs(x)
        if x < 1:
            return 1.25 * x**3 - 2.25 * x**2 + 1
        return -0.75 * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0

    matrix = np.zeros((side, old))
    for new in range(side):
        at = (new + 0.5) * old / side - 0.5
        for near in range(int(np.floor(at)) - 1, int(np.floor(at)) + 3):
            matrix[new, min(max(near, 0), old - 1)] += weight(at - near)
    return np.einsum("ya,xb,abd->yxd", matrix, matrix, positions)


def test_blips_positions_are_scaled_to_480_pixels(opened):
    embeddings = opened("attributes")._model.vision_model.embeddings
    pictures = torch.zeros(1, 3, blip.SIDE, blip.SIDE)
    with torch.inference_mode():
        seen = embeddings(pictures, interpolate_pos_encoding=True)[0].double()
        plain = embeddings.patch_embedding.bias.double()  # all that a picture of zeros gives
        positions = embeddings.position_embedding[0].double()
    expected = cubic(positions[1:].unflatten(0, (3, 3)).numpy(), 15).reshape(225, -1)
    assert (seen[1:] - plain).numpy() == pytest.approx(expected, abs=1e-4)
    assert (seen[0] - embeddings.class_embedding[0, 0]).detach().numpy() == pytest.approx(
        positions[0].numpy(), abs=1e-5
    )


def test_a_blip_with_positions_for_480_pixels_is_used_as_it_is(tmp_path):
    tiny_scorers.build_blip(tmp_path, side=480)
    model = blip.YesProbability(ScorerModel(through="blip", path=tmp_path), 1)._model
    embeddings = model.vision_model.embeddings
    with torch.inference_mode():
        seen = embeddings(torch.zeros(1, 3, 480, 480), interpolate_pos_encoding=True)
    expected = embeddings.patch_embedding.bias + embeddings.position_embedding[0, 1:]
    assert torch.allclose(seen[0, 1:], expected, atol=1e-5)


def test_questions_are_cleaned_as_the_authors_do():
    assert blip.cleaned('A "red" clock: (small)!?  ') == "a red clock small?"
    assert blip.cleaned("a " * 60) == " ".join(["a"] * 50)


def test_depth_is_stretched_and_kept_in_whole_numbers():
    raw = torch.tensor([[2.0, 4.0], [6.0, 8.0]])
    depth = dpt.in_frame(raw, (2, 2), (2, 2))
    assert depth.dtype == np.float32 and (255 * depth).round().tolist() == [[0, 85], [170, 255]]
    assert not dpt.in_frame(torch.full((3, 3), 5.0), (4, 4), (6, 8)).any()
    wide = dpt.in_frame(torch.arange(4.0).repeat(3, 1), (31, 20), (12, 40))
    assert wide.shape == (12, 40) and (np.diff(wide, axis=1) >= 0).all() and np.ptp(wide, axis=0).max() < 1 / 254


def test_depth_is_the_models_at_480_pixels(opened, folders):
    model = transformers.DPTForDepthEstimation.from_pretrained(folders["depth"])
    model.dpt.embeddings.image_size = (480, 480)
    scaled = np.asarray(PICTURES[0].resize((480, 480), Image.Resampling.BILINEAR), dtype=np.float64)
    with torch.inference_mode():
        raw = model(torch.tensor(scaled / 127.5 - 1, dtype=torch.float32).permute(2, 0, 1)[None]).predicted_depth[0]
    (depth,) = opened("depth").depths(PICTURES[:1], (64, 64))
    assert raw.shape == (480, 480) and depth == pytest.approx(dpt.in_frame(raw, (64, 64), (64, 64)), abs=1 / 254)


def test_owlv2_finds_what_its_own_processor_finds(opened, folders):
    model = transformers.Owlv2ForObjectDetection.from_pretrained(folders["objects"])
    reader = transformers.Owlv2ImageProcessorPil(size={"height": 96, "width": 96})
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders["objects"])
    picture, names = noise(7, 96, 96), ["cow", "stop sign"]
    texts = tokenizer([f"a photo of a {name}" for name in names], padding="max_length", truncation=True, max_length=16)
    inputs = {name: torch.tensor(texts[name]) for name in ("input_ids", "attention_mask")}
    with torch.inference_mode():
        raw = model(**inputs, **reader(picture, return_tensors="pt"))
    (theirs,) = reader.post_process_object_detection(raw, threshold=0.1, target_sizes=[(479, 479)])
    theirs = {
        (names[label], round(score, 3), tuple(np.clip(box, 0, 479).round().tolist()))
        for label, score, box in zip(*(theirs[key].tolist() for key in ("labels", "scores", "boxes")), strict=True)
    }
    (ours,) = opened("objects").detect([picture], [names])
    told = [(d.label, round(d.score, 3), tuple(np.round(d.box).tolist())) for d in ours]
    assert len(told) > 2 and set(told) <= theirs and told[0][1] == max(score for _, score, _ in theirs)
    assert [d.score for d in ours] == sorted((d.score for d in ours), reverse=True)


def test_owlv2_keeps_the_best_of_boxes_that_share_more_than_half():
    scores = torch.tensor([[0.9, 0.2], [0.8, 0.1], [0.1, 0.7], [0.05, 0.1]])
    boxes = torch.tensor([[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.4], [0.5, 0.5, 0.5, 0.5], [0.1, 0.1, 0.1, 0.1]])
    kept = owlv2.ObjectDetector._kept(Image.new("RGB", (200, 100)), scores, boxes, ["cow", "cup"])
    assert [(d.label, round(d.score, 2)) for d in kept] == [("cow", 0.9), ("cup", 0.7)]
    # The middle half of a square of 200 pixels, of which the upper half is the picture, in a frame of 479.
    assert kept[0].box == pytest.approx((0.25 * 479, 0.5 * 479, 0.75 * 479, 479))


def test_an_object_is_sought_only_where_it_is_asked_for(opened):
    detector = opened("objects")
    alone = [
        detector.detect([picture], [names])[0] for picture, names in zip(PICTURES[:2], (["cow"], ["cup"]), strict=True)
    ]
    together = detector.detect(PICTURES[:2], [["cow"], ["cup"]])
    assert [set(labels(found)) <= {name} for found, name in zip(together, ("cow", "cup"), strict=True)] == [True, True]
    assert flat(alone) == pytest.approx(flat(together), rel=1e-4, abs=1e-4)


# --- other programs


def test_a_model_behind_an_engine_says_one_word(root):
    source = ScorerModel(through="transformers", path=root / "resources/blocks/clip-llama")
    answerer = engine.QuestionAnswerer(source, 4, None)
    asked = [
        (picture.resize((32, 32)), question) for picture in PICTURES[:2] for question in ("is there a circle?", "no?")
    ]
    said = answerer.answers(asked)
    assert len(said) == 4 and all(word == word.lower() and " " not in word for word in said)
    assert said == [answerer.answers([one])[0] for one in asked]


@pytest.mark.parametrize(
    ("text", "word"),
    [("Yes.", "yes"), ("yes, there is", "yes"), ("**No**", "no"), ("Yesterday", "yesterday"), ("", "")],
)
def test_the_first_word_of_an_answer_counts(text, word):
    assert engine.first_word(text) == word


def test_an_answer_that_failed_is_no_answer(root):
    source = ScorerModel(through="transformers", path=root / "resources/blocks/clip-llama")
    answerer = engine.QuestionAnswerer(source, 4, None)
    with pytest.raises(UserError, match=r"dpg_bench: no answer to 'aaaa.*fills max_model_len"):
        answerer.answers([(PICTURES[0].resize((32, 32)), "aaaa " * engine.MAX_MODEL_LEN)])


def test_mplug_is_asked_through_modelscope(tmp_path, monkeypatch):
    source = ScorerModel(through="modelscope", path=tmp_path)
    monkeypatch.setitem(sys.modules, "modelscope", None)
    with pytest.raises(UserError, match=r"needs ModelScope's package.*pip install 'modelscope\[multi-modal\]'"):
        open_models("dpg_bench", {"answers": source}, 4)
    calls = []

    def pipeline(task, model, device):
        calls.append((task, model, device))
        return lambda asked: {"text": "yes" if asked["question"] == "a?" else f"{asked['image'].width}"}

    package = ModuleType("modelscope.pipelines")
    package.pipeline = pipeline
    monkeypatch.setitem(sys.modules, "modelscope", ModuleType("modelscope"))
    monkeypatch.setitem(sys.modules, "modelscope.pipelines", package)
    answerer = open_models("dpg_bench", {"answers": source}, 4)["answers"]
    assert answerer.answers([(PICTURES[0], "a?"), (PICTURES[2], "b?")]) == ["yes", "96"]
    assert calls == [("visual-question-answering", str(tmp_path), "cuda" if torch.cuda.is_available() else "cpu")]


def test_unidet_is_asked_through_its_package(tmp_path, monkeypatch):
    source = ScorerModel(through="unidet", path=tmp_path)
    with pytest.raises(UserError, match=r"detection_features.pt: no such file; UniDet's folder is UniDet_eval"):
        unidet.ObjectDetector(source, 2)
    for name in ("dataset", "experts/expert_weights"):
        (tmp_path / name).mkdir(parents=True)
    torch.save({"labels": ["cow", "picture, frame"]}, tmp_path / "dataset/detection_features.pt")
    (tmp_path / f"experts/expert_weights/{unidet.NAME}.pth").write_bytes(b"")
    with pytest.raises(UserError, match=r"needs detectron2 .*PYTHONPATH=.*experts/obj_detection"):
        unidet.ObjectDetector(source, 2)

    def model(inputs):
        assert all(one["image"].shape == (3, 479, 479) and one["height"] == 479 for one in inputs)
        seen = SimpleNamespace(
            pred_classes=torch.tensor([1, 0]),
            scores=torch.tensor([0.5, 0.25]),
            pred_boxes=SimpleNamespace(tensor=torch.tensor([[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]])),
        )
        return [{"instances": seen}] * len(inputs)

    settings = SimpleNamespace(
        MODEL=SimpleNamespace(ROI_HEADS=SimpleNamespace()), MULTI_DATASET=SimpleNamespace(), merge_from_file=str
    )
    for name, attributes in {
        "detectron2": {},
        "detectron2.config": {"get_cfg": lambda: settings},
        "detectron2.engine": {},
        "detectron2.engine.defaults": {"DefaultPredictor": lambda cfg: SimpleNamespace(model=model)},
        "unidet": {},
        "unidet.config": {"add_unidet_config": lambda cfg: None},
    }.items():
        module = ModuleType(name)
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
    found = unidet.ObjectDetector(source, 2).detect(PICTURES[:3], [[]] * 3)
    assert found[0][0].label == "picture, frame" and found[0][1].box == (4, 5, 6, 7) and len(found) == 3
    assert settings.MODEL.ROI_HEADS.SCORE_THRESH_TEST == 0.1
    red = unidet.prepare(Image.new("RGB", (10, 10), (255, 0, 0)))
    assert red[2].min() == 255 and not red[:2].any()


# --- wrong folders


def changed(folder, tmp_path, edit):
    """A copy of a folder with another config."""
    shutil.copytree(folder, tmp_path / "changed")
    path = tmp_path / "changed/config.json"
    config = json.loads(path.read_text())
    edit(config)
    path.write_text(json.dumps(config))
    return tmp_path / "changed"


@pytest.mark.parametrize("role", list(TINY))
def test_a_folder_that_is_absent_or_holds_something_else_is_named(folders, tmp_path, role):
    def fault(folder):
        with pytest.raises(UserError) as caught:
            CLASSES[role](ScorerModel(through=TINY[role][0], path=folder), 4)
        return str(caught.value)

    assert f"{tmp_path / 'absent'}: no such folder of a model" in fault(tmp_path / "absent")
    assert f"{tmp_path}: holds no model, expected" in fault(tmp_path)
    other = folders["depth" if role != "depth" else "colors"]
    assert f"{other}: holds a model of type {'dpt' if role != 'depth' else 'clip'!r}, expected" in fault(other)
    copy = changed(folders[role], tmp_path, lambda config: None)
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    assert "holds no .safetensors file" in fault(copy)


def test_a_checkpoint_that_lacks_weights_is_refused(folders, tmp_path):
    folder = changed(folders["similarity"], tmp_path, lambda c: c["vision_config"].update(num_hidden_layers=3))
    with pytest.raises(UserError, match=r"the checkpoint lacks \d+ weights, such as vision_model.encoder.layers.2"):
        clip.TextSimilarity(ScorerModel(through="clip", path=folder), 4)


@pytest.mark.parametrize(
    ("role", "unused"),
    [
        ("depth", "neck.fusion_stage.layers.0.residual_layer1."),
        ("instances", "model.pixel_level_module.encoder.swin.layernorm."),
        ("instances", "criterion."),
    ],
)
def test_weights_that_published_checkpoints_lack_are_not_asked_for(folders, opened, tmp_path, role, unused):
    folder = changed(folders[role], tmp_path, lambda config: None)
    weights = load_file(folder / "model.safetensors")
    kept = {name: values for name, values in weights.items() if not name.startswith(unused)}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    model = CLASSES[role](ScorerModel(through=TINY[role][0], path=folder), 4)
    assert flat(ASK[role](model, PICTURES[:1])) == flat(ASK[role](opened(role), PICTURES[:1]))


def test_labels_in_another_order_are_refused(tmp_path):
    names = [*mask2former.NAMES]
    names[11], names[74] = names[74], names[11]
    tiny_scorers.build_mask2former(tmp_path, tuple(names), queries=2)
    with pytest.raises(UserError, match=r"class 11 is 'clock', expected COCO's 'stop sign'"):
        mask2former.InstanceDetector(ScorerModel(through="mask2former", path=tmp_path), 4)


def test_other_classes_than_cocos_are_refused(tmp_path):
    tiny_scorers.build_mask2former(tmp_path, tuple(f"thing {number}" for number in range(133)), queries=2)
    with pytest.raises(UserError, match=r"knows 133 classes, expected COCO's 80"):
        mask2former.InstanceDetector(ScorerModel(through="mask2former", path=tmp_path), 4)


def test_a_dpt_that_is_no_hybrid_is_refused(tmp_path):
    tiny_scorers.build_dpt(tmp_path, hybrid=False)
    with pytest.raises(UserError, match=r"is no DPT-hybrid"):
        dpt.DepthEstimator(ScorerModel(through="dpt", path=tmp_path), 4)


def test_a_blip_with_another_vocabulary_is_refused(folders, tmp_path):
    folder = changed(folders["attributes"], tmp_path, lambda config: None)
    (folder / "tokenizer.json").unlink()
    words = (folder / "vocab.txt").read_text().split("\n") if (folder / "vocab.txt").is_file() else ["[PAD]", "[UNK]"]
    words = [word for word in words if word not in ("yes", "no")]
    (folder / "vocab.txt").write_text("\n".join(["[UNK]", "[CLS]", "[SEP]", "yes", "no", *words]))
    with pytest.raises(UserError, match=r"its tokens yes and no are not 2748 and 2053"):
        blip.YesProbability(ScorerModel(through="blip", path=folder), 4)


# --- canaries


@pytest.mark.parametrize(
    ("benchmark", "role"),
    [(benchmark, role) for benchmark in ("geneval", "t2i_compbench") for role in MODELS[benchmark]],
)
def test_a_random_model_does_not_pass_its_canary(opened, benchmark, role):
    models = {**ToldModels(lambda *asked: None).roles, role: opened(role)}
    if role == "depth":
        models["objects"].frame = owlv2.FRAME
    with pytest.raises(UserError, match=f"{benchmark}: the model random for {role} does not see what a test picture"):
        canaries.check(benchmark, models, dict.fromkeys(models, "random"))


def test_a_random_answerer_does_not_pass_its_canary(root):
    source = ScorerModel(through="transformers", path=root / "resources/blocks/clip-llama")
    models = {"answers": engine.QuestionAnswerer(source, 4, None)}
    with pytest.raises(UserError, match=r"dpg_bench: the model random for answers does not see"):
        canaries.check("dpg_bench", models, {"answers": "random"})
