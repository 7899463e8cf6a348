"""Model FLOPs by formula against what torch counts while the models run."""

import pytest
import torch
from t2i_world import MAX_TEXT_TOKENS, save_base
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration
from vlm_helpers import align_spec

from workflow_scripts import pace
from workflow_scripts.spec import Source, VlmStage
from workflow_scripts.t2i import flops as t2i_flops
from workflow_scripts.t2i.families import FAMILIES
from workflow_scripts.t2i.flow import FlowMatching
from workflow_scripts.vlm import flops as vlm_flops
from workflow_scripts.vlm.model import freeze

CAPTION = "topleft red circle on black"
LENGTH, NUM_SAMPLES, NUM_IMAGE_TOKENS = 40, 2, 16


def build_llava(feature_layer: int) -> LlavaForConditionalGeneration:
    """Deeper than the blocks world's, so that what only first and last layers do weighs little."""
    vision = CLIPVisionConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=6, num_attention_heads=2,
                              image_size=32, patch_size=8)  # fmt: skip
    text = LlamaConfig(vocab_size=100, hidden_size=48, intermediate_size=96, num_hidden_layers=6,
                       num_attention_heads=3, num_key_value_heads=1, max_position_embeddings=64)  # fmt: skip
    config = LlavaConfig(
        vision_config=vision, text_config=text, image_token_index=99, vision_feature_layer=feature_layer
    )
    config._attn_implementation = "eager"
    return LlavaForConditionalGeneration(config)


@pytest.mark.parametrize(
    ("learning", "from_layer", "feature_layer", "slack"),
    [
        (["projector"], 0, -2, 0.03),
        (["projector", "language"], 0, -2, 0.03),
        (["vision", "projector", "language"], 0, -1, 0.03),
        (["vision", "projector", "language"], 3, -2, 0.03),
        (["language"], 0, -1, 0.03),
    ],
)
def test_llavas_flops_are_those_that_torch_counts(tmp_path, learning, from_layer, feature_layer, slack):
    model = build_llava(feature_layer)
    stage = align_spec(tmp_path, tmp_path, train=learning, vision_from_layer=from_layer)["stage"]
    freeze(model, VlmStage.model_validate(stage))
    ids = torch.randint(0, 99, (NUM_SAMPLES, LENGTH))
    ids[:, 1 : 1 + NUM_IMAGE_TOKENS] = 99
    inputs = {"input_ids": ids, "pixel_values": torch.randn(NUM_SAMPLES, 3, 32, 32), "labels": ids}
    with FlopCounterMode(display=False) as forward:
        loss = model(**inputs).loss
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    # Transformers runs the vision layers that nobody reads, too.
    spare = 6 - (6 + 1 + feature_layer)
    vision = model.model.vision_tower
    unread = 2 * sum(p.numel() for n, p in vision.named_parameters() if "layers.5" in n and n.endswith("weight")
                     and p.ndim == 2) * 17 + 4 * 32 * 17**2  # fmt: skip
    counts = {"tokens": NUM_SAMPLES * LENGTH, "pairs": NUM_SAMPLES * LENGTH**2, "images": NUM_SAMPLES}

    def total(flops):
        return sum(counts[name] * cost for name, cost in flops.items())

    expected = forward.get_total_flops() - NUM_SAMPLES * spare * unread
    assert total(vlm_flops.forward_flops(model, NUM_IMAGE_TOKENS)) == pytest.approx(expected, rel=1e-6)
    both = expected + backward.get_total_flops()
    assert total(vlm_flops.training_flops(model, NUM_IMAGE_TOKENS)) == pytest.approx(both, rel=slack)


@pytest.mark.parametrize("name", FAMILIES)
def test_transformers_flops_are_those_that_torch_counts(tmp_path, name):
    family = FAMILIES[name].load(Source(path=save_base(name, tmp_path)), MAX_TEXT_TOKENS[name])
    transformer = family.pipe.transformer.train()
    (text,) = family.encode_texts([CAPTION])
    config = family.pipe.vae.config
    channels, side = getattr(config, "latent_channels", None) or config.z_dim, 4
    model = FlowMatching(family, transformer)
    latents, noise = torch.randn(2, 3, channels, side, side)
    inputs = {"sigma": torch.full((3,), 0.5), "labels": torch.zeros(3), "text": family.collate([text] * 3)}
    with FlopCounterMode(display=False) as forward, sdpa_kernel(SDPBackend.MATH):  # torch does not count the others
        loss = model(latents, noise, **inputs)["loss"]
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    num_image = family.num_image_tokens(side, side)
    (num_text,) = family.num_text_tokens(family.text_tokens([CAPTION]))
    assert num_text == len(text["encoder_hidden_states"])
    counts = {"samples": 3, "image_tokens": 3 * num_image, "text_tokens": 3 * num_text,
              "pairs": 3 * (num_image + num_text) ** 2, "image_pairs": 3 * num_image**2}  # fmt: skip
    mine = {name: counts[name] * cost for name, cost in t2i_flops.forward_flops(transformer).items()}
    assert sum(mine.values()) == pytest.approx(forward.get_total_flops(), rel=1e-6)
    # Of three blocks, the first needs no gradient of its input, and nothing reads what the last makes of the text.
    total = forward.get_total_flops() + backward.get_total_flops()
    assert total < 3 * sum(mine.values()) < 1.15 * total


def test_peaks_of_known_devices():
    assert pace.peak_tflops("NVIDIA H100 80GB HBM3") == 989.5
    assert pace.peak_tflops("NVIDIA A100-SXM4-80GB") == 312
    assert pace.peak_tflops("NVIDIA H200 NVL") == 835.5
    assert pace.peak_tflops("NVIDIA GH200 480GB") == 989.5
    assert pace.peak_tflops("NVIDIA H1000") is None
