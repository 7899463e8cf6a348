"""Latents: which images, how they are cropped, resuming."""

import json
import pickle
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from t2i_world import save_base, save_pool

from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json
from workflow_scripts.records import read_table, write_table
from workflow_scripts.spec import Source
from workflow_scripts.t2i import latents
from workflow_scripts.t2i.families import FAMILIES


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return save_base("sd3", tmp_path_factory.mktemp("base"))


def run(base, pool, out, **changes):
    spec = {"family": "sd3", "model": {"path": str(base)}, "num_images": 5, "resolution": 32, **changes}
    latents.main(["--spec", json.dumps(spec), "--pool", str(pool), "--out", str(out)])
    made = latents.Latents(out)
    means, log_variances = zip(*(made[n] for n in range(len(made))), strict=True)
    return made.image_ids, torch.stack(means), torch.stack(log_variances)


def test_latents_are_the_autoencoders_posterior(base, tmp_path):
    pool = save_pool(tmp_path / "pool", 6)
    image_ids, mean, log_variance = run(base, pool, tmp_path / "latents.json")
    table = read_table(pool, "images")
    assert image_ids == table.image_id[:5].tolist()
    pixels = torch.stack([latents.read_fitted(path, (32, 32)) for path in table.path[:5]])
    with torch.no_grad():
        posterior = FAMILIES["sd3"].load(Source(path=base)).pipe.vae.encode(pixels).latent_dist
    assert torch.allclose(mean.float(), posterior.mean, atol=4e-3)  # float16
    assert torch.equal(log_variance.float(), posterior.logvar)


def test_smaller_sets_are_the_first_rows_of_larger_ones(base, tmp_path):
    pool = save_pool(tmp_path / "pool", 6)
    few, all_of_them = (run(base, pool, tmp_path / f"{n}.json", num_images=n) for n in (3, 6))
    assert few[0] == all_of_them[0][:3]
    assert torch.equal(few[1], all_of_them[1][:3])


def test_only_shards_that_are_not_whole_are_made_again(base, tmp_path, monkeypatch):
    monkeypatch.setattr(latents, "SHARD_SIZE", 2)
    pool, out = save_pool(tmp_path / "pool", 6), tmp_path / "latents.json"
    first = run(base, pool, out)
    shards = [tmp_path / shard["path"] for shard in read_json(out)["shards"]]
    before = [(shard.read_bytes(), shard.stat().st_mtime_ns) for shard in shards]
    assert len(shards) == 3
    out.unlink()
    shards[1].write_bytes(before[1][0][:100])
    again = run(base, pool, out)
    assert torch.equal(first[1], again[1])
    assert [shard.read_bytes() for shard in shards] == [data for data, _ in before]
    assert [shard.stat().st_mtime_ns == time for shard, (_, time) in zip(shards, before, strict=True)] == [
        True,
        False,
        True,
    ]


def test_buckets_are_the_stated_sizes():
    assert latents.bucket_sizes(1024) == [
        *[(1024, 1024), (1152, 896), (896, 1152), (1280, 832), (832, 1280)],
        *[(1344, 768), (768, 1344), (1472, 704), (704, 1472)],
    ]
    for resolution in (64, 256, 512, 1024, 1328):
        for width, height in latents.bucket_sizes(resolution):
            assert width % 16 == height % 16 == 0
            assert width * height == pytest.approx(resolution**2, rel=0.13)
    sizes = latents.bucket_sizes(1024)
    for image, size in {
        (4000, 3000): (1152, 896),
        (3000, 4000): (896, 1152),
        (1920, 1080): (1344, 768),
        (500, 520): (1024, 1024),
        (9000, 100): (1472, 704),
    }.items():
        assert latents.nearest_size(*image, sizes) == size


def test_images_of_a_bucket_share_shards_and_each_keeps_its_own_shape(base, tmp_path):
    shapes = [(100, 100), (150, 90), (60, 130), (40, 38), (200, 100)]
    pool = save_pool(tmp_path / "pool", 5)
    table = read_table(pool, "images")
    for path, shape in zip(table.path, shapes, strict=True):
        with Image.open(path) as image:
            image.resize(shape).save(path)
    table.width, table.height = zip(*shapes, strict=True)
    write_table(pool, table, "images")
    spec = {"family": "sd3", "model": {"path": str(base)}, "num_images": 5, "resolution": 64, "aspect": "buckets"}
    latents.main(["--spec", json.dumps(spec), "--pool", str(pool), "--out", str(tmp_path / "latents.json")])
    made = latents.Latents(tmp_path / "latents.json")
    size_of = dict(zip(made.image_ids, made.sizes, strict=True))
    assert [size_of[name] for name in table.image_id] == [(64, 64), (80, 48), (48, 96), (64, 64), (96, 48)]
    assert made.image_ids == table.image_id[[0, 3, 1, 4, 2]].tolist(), "by size, then as the pool"
    autoencoder = FAMILIES["sd3"].load(Source(path=base)).pipe.vae
    for number, (name, (width, height)) in enumerate(zip(made.image_ids, made.sizes, strict=True)):
        mean, log_variance = made[number]
        assert mean.shape == log_variance.shape == (8, height // 8, width // 8)
        pixels = latents.read_fitted(table.set_index("image_id").path[name], (width, height))
        with torch.no_grad():
            expected = autoencoder.encode(pixels[None]).latent_dist.mean[0]
        assert torch.allclose(mean.float(), expected, rtol=1e-3, atol=1e-3)


def test_latents_are_read_from_disk_in_any_process(base, tmp_path):
    _, means, _ = run(base, save_pool(tmp_path / "pool", 5), tmp_path / "latents.json")
    made = latents.Latents(tmp_path / "latents.json")
    assert torch.equal(made[3][0], means[3])
    sent = pickle.dumps(made)
    assert torch.equal(pickle.loads(sent)[3][0], means[3])
    assert len(sent) < 2000
    (tmp_path / read_json(tmp_path / "latents.json")["shards"][0]["path"]).unlink()
    with pytest.raises(UserError, match=r"missing or broken, though .*latents.json lists it"):
        latents.Latents(tmp_path / "latents.json")


@pytest.mark.parametrize("size", [(64, 40), (40, 64), (20, 31), (32, 32)])
def test_images_are_scaled_then_cut_at_the_centre(tmp_path, size):
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (4, 4, 3), np.uint8)).resize(size, Image.Resampling.BICUBIC)
    image.save(tmp_path / "a.png")
    fitted = ImageOps.fit(image, (32, 32), Image.Resampling.LANCZOS)  # cuts first, then scales
    pixels = latents.read_fitted(tmp_path / "a.png", (32, 32))
    assert pixels.shape == (3, 32, 32)
    assert pixels.dtype == torch.float32
    read = (pixels.permute(1, 2, 0).numpy() + 1) * 127.5
    assert np.abs(read - np.asarray(fitted)).mean() < 5  # half a pixel of rounding apart
    beside = ImageOps.fit(image, (32, 32), Image.Resampling.LANCZOS, centering=(0, 0))
    assert size == (32, 32) or np.abs(read - np.asarray(beside)).mean() > 10


def test_errors_name_what_is_wrong(base, tmp_path, monkeypatch):
    pool = save_pool(tmp_path / "pool", 3)
    with pytest.raises(UserError, match=r"num_images is 9, but .* has 3 images"):
        run(base, pool, tmp_path / "latents.json", num_images=9)
    (tmp_path / "pool" / "1.png").write_bytes(b"no picture")
    with pytest.raises(UserError, match=r"1\.png: not a readable image"):
        run(base, pool, tmp_path / "latents.json", num_images=3)
    with pytest.raises(UserError, match="no such folder"):
        run(tmp_path / "nowhere", pool, tmp_path / "latents.json", num_images=3)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(UserError, match=r"0.001 MB are free, this needs 0.001 MB \(latents 0.001 MB\)"):
        run(base, save_pool(tmp_path / "other", 2), tmp_path / "latents.json", num_images=2)  # 2 x 2 x 8 x 4 x 4 halves
    assert not (tmp_path / "latents.json").exists()
