"""Families against diffusers' own pipelines and the published facts; the cell autoencoder against the renderer."""

import itertools

import numpy as np
import pytest
import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler
from t2i_world import MAX_TEXT_TOKENS, fitted_code, pixels_of, save_base, scenes

from workflow_scripts.blocks.cell_autoencoder import CellAutoencoder, cell_numbers
from workflow_scripts.blocks.world import describe, detect, say
from workflow_scripts.errors import UserError
from workflow_scripts.spec import Source
from workflow_scripts.t2i.families import FAMILIES, Family


@pytest.fixture(scope="module", params=list(FAMILIES))
def family(request, tmp_path_factory) -> Family:
    folder = save_base(request.param, tmp_path_factory.mktemp(request.param))
    return FAMILIES[request.param].load(Source(path=folder), MAX_TEXT_TOKENS[request.param])


U = torch.tensor([0.0, 0.25, 0.5, 0.75, 0.999])


def test_sigmas_are_the_published_ones(family):
    expected = {
        "StableDiffusion3Pipeline": [1.0, 0.9, 0.75, 0.5, 0.002994],  # 3 u / (1 + 2 u) on the reversed index
        "QwenImagePipeline": [1.0, 0.75, 0.5, 0.25, 0.001],
    }[family.pipeline_class]
    sigmas = family.sigmas(U)
    assert sigmas.dtype == torch.float32
    assert sigmas.tolist() == pytest.approx(expected, abs=1e-6)
    assert family.sigmas(torch.tensor([1.0])).item() == family.sigmas(torch.tensor([0.9999])).item()


def test_sigmas_outlive_a_generation(family):
    before = family.sigmas(U)
    family.make(["topleft red circle"], [0], 32, 3, 1.0)
    assert torch.equal(family.sigmas(U), before)


def test_our_velocity_integrated_gives_the_pipelines_picture(family):
    """Text encoding, packing, time scale and normalisation, all at once: Euler steps over `velocity` and the
    autoencoder must end where the pipeline ends."""
    prompts, seeds = ["topleft large red circle on black", "bottomright small ring"], [3, 4]
    made = family.make(prompts, seeds, 32, 5, 1.0)
    levels = family.pipe.scheduler.sigmas.clone()
    x = torch.cat([torch.randn(1, 8, 4, 4, generator=torch.Generator().manual_seed(seed)) for seed in seeds])
    text = family.collate(family.encode_texts(prompts))
    with torch.no_grad():
        for level, following in itertools.pairwise(levels):
            x = x + (following - level) * family.velocity(family.pipe.transformer, x, level.expand(2), text)
        pixels = CellAutoencoder.decode(_Code(fitted_code()), x).sample
    expected = ((pixels.clamp(-1, 1) + 1) * 127.5).round().permute(0, 2, 3, 1).numpy()
    assert np.abs(np.stack([np.asarray(image) for image in made]) - expected).max() <= 1


class _Code:
    def __init__(self, code):
        self.code = code


def test_normalise_undoes_what_the_config_says(family):
    latents = torch.randn(2, 8, 4, 4)
    vae = family.pipe.vae
    if family.pipeline_class == "StableDiffusion3Pipeline":
        vae.register_to_config(shift_factor=0.0609, scaling_factor=1.5305)
        assert torch.allclose(family.normalise(latents), (latents - 0.0609) * 1.5305)
        vae.register_to_config(shift_factor=0.0, scaling_factor=1.0)
    else:
        vae.register_to_config(latents_mean=tuple(range(8)), latents_std=(2.0,) * 8)
        assert torch.allclose(family.normalise(latents), (latents - torch.arange(8.0).view(1, 8, 1, 1)) / 2)
        vae.register_to_config(latents_mean=(0.0,) * 8, latents_std=(1.0,) * 8)


def test_padding_of_a_batch_changes_no_text(family):
    short, long = "topleft circle", "topleft large red circle bottomright small blue square on black"
    alone, together = family.encode_texts([short])[0], family.encode_texts([short, long])[0]
    assert alone.keys() == together.keys()
    for key, value in alone.items():
        assert torch.allclose(value, together[key], atol=1e-5), key


def test_cut_texts_are_counted_as_the_encoder_cuts(family):
    words = "red " * 30
    lengths = {name: found for name, (_, found) in family.text_tokens(["red", words.strip()]).items()}
    limits = {name: limit for name, (limit, _) in family.text_tokens(["red"]).items()}
    if family.pipeline_class == "StableDiffusion3Pipeline":
        assert lengths == {"CLIP-L": [3, 32], "CLIP-G": [3, 32]}  # <bos> and the end token
        assert limits == {"CLIP-L": 20, "CLIP-G": 20}
    else:
        assert lengths == {"Qwen": [6, 35]}  # five tokens of the template follow the text
        assert len(family.encode_texts([words])[0]["encoder_hidden_states"]) == 35


def test_the_blocks_tokenizer_reads_qwens_template_in_34_tokens(tmp_path):
    pipe = FAMILIES["qwen-image"].load(Source(path=save_base("qwen-image", tmp_path)), 64).pipe
    before, after = pipe.prompt_template_encode.split("{}")
    assert len(pipe.tokenizer(before)["input_ids"]) == pipe.prompt_template_encode_start_idx == 34
    assert len(pipe.tokenizer(after)["input_ids"]) == 5
    ids = pipe.tokenizer(f"{before}topleft red{after}")["input_ids"]
    assert pipe.tokenizer.convert_ids_to_tokens(ids[34:36]) == ["topleft", "red"]


def test_a_picture_depends_on_its_own_seed_alone(family):
    prompts = ["topleft red circle", "topright blue ring", "on black"]
    together = family.make(prompts, [5, 6, 7], 32, 3, 1.0)
    alone = family.make(prompts[1:2], [6], 32, 3, 1.0)
    other = family.make(prompts[1:2], [8], 32, 3, 1.0)
    assert np.abs(np.asarray(together[1], int) - np.asarray(alone[0], int)).max() <= 1
    assert np.abs(np.asarray(other[0], int) - np.asarray(alone[0], int)).max() > 10


def test_a_folder_of_the_other_family_is_named(tmp_path):
    folder = save_base("sd3", tmp_path / "base")
    with pytest.raises(UserError, match="StableDiffusion3Pipeline, expected a QwenImagePipeline"):
        FAMILIES["qwen-image"].load(Source(path=folder), 64)


def test_cell_code_loses_no_fact():
    some = scenes()[:100]
    code = fitted_code()
    with torch.no_grad():
        latents = code.encode(pixels_of(some))
        back = ((code.decode(latents).clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).numpy()
    assert latents.square().mean().item() == pytest.approx(1, abs=0.05)
    assert [say(detect(image)) for image in back] == [say(describe(scene)) for scene in some]


def test_cells_of_a_latent_are_those_of_the_picture():
    pixels = pixels_of(scenes()[:2])
    swapped = torch.cat([pixels[..., 16:], pixels[..., :16]], -1)  # left and right
    with torch.no_grad():
        cells, mirrored = (cell_numbers(fitted_code().encode(p)) for p in (pixels, swapped))
    assert torch.allclose(cells[:, [1, 0, 3, 2]], mirrored, atol=1e-5)


def test_the_autoencoder_answers_as_diffusers_own():
    """Same types and attributes as AutoencoderKL's, which the pipelines rely on."""
    real = AutoencoderKL(block_out_channels=(4,), norm_num_groups=1, latent_channels=8)
    x = torch.rand(1, 3, 32, 32) * 2 - 1
    for autoencoder in (real, CellAutoencoder()):
        posterior = autoencoder.encode(x).latent_dist
        assert posterior.mean.shape[1] == posterior.logvar.shape[1] == 8
        assert autoencoder.decode(posterior.mode(), return_dict=False)[0].shape == x.shape
        assert {"scaling_factor", "shift_factor", "block_out_channels"} <= set(autoencoder.config)


def test_scheduler_of_the_base_is_the_published_one(tmp_path):
    scheduler = FlowMatchEulerDiscreteScheduler.from_pretrained(save_base("sd3", tmp_path), subfolder="scheduler")
    assert scheduler.config.shift == 3.0
