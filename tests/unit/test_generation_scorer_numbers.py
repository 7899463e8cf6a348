"""What the models behind the generation scores make of pictures and raw outputs, against independent computations."""

import numpy as np
import pytest
import tiny_scorers
import torch
import transformers
from opened_scorers import PICTURES, flat, labels, noise
from PIL import Image

from workflow_scripts.benchmarks.generation import geneval
from workflow_scripts.benchmarks.generation.mask2former import instances
from workflow_scripts.benchmarks.generation.models import (
    blip,
    clip,
    dpt,
    mask2former,
    owlv2,
)
from workflow_scripts.benchmarks.generation.roles import Detection
from workflow_scripts.errors import UserError
from workflow_scripts.spec import ScorerModel


@torch.no_grad()
def test_colors_are_those_of_a_direct_clip_computation(opened, scorer_folders):
    model = transformers.CLIPModel.from_pretrained(scorer_folders["colors"])
    reader = transformers.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    tokenizer = transformers.AutoTokenizer.from_pretrained(scorer_folders["colors"])
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


def test_similarities_are_clips_cosines(opened, scorer_folders):
    model = transformers.CLIPModel.from_pretrained(scorer_folders["similarity"])
    reader = transformers.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    tokenizer = transformers.AutoTokenizer.from_pretrained(scorer_folders["similarity"])
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


def test_depth_is_the_models_at_480_pixels(opened, scorer_folders):
    model = transformers.DPTForDepthEstimation.from_pretrained(scorer_folders["depth"])
    model.dpt.embeddings.image_size = (480, 480)
    scaled = np.asarray(PICTURES[0].resize((480, 480), Image.Resampling.BILINEAR), dtype=np.float64)
    with torch.inference_mode():
        raw = model(torch.tensor(scaled / 127.5 - 1, dtype=torch.float32).permute(2, 0, 1)[None]).predicted_depth[0]
    (depth,) = opened("depth").depths(PICTURES[:1], (64, 64))
    assert raw.shape == (480, 480) and depth == pytest.approx(dpt.in_frame(raw, (64, 64), (64, 64)), abs=1 / 254)


def test_owlv2_finds_what_its_own_processor_finds(opened, scorer_folders):
    model = transformers.Owlv2ForObjectDetection.from_pretrained(scorer_folders["objects"])
    reader = transformers.Owlv2ImageProcessorPil(size={"height": 96, "width": 96})
    tokenizer = transformers.AutoTokenizer.from_pretrained(scorer_folders["objects"])
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
