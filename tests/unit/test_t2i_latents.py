"""Latents: which images, how they are cropped, resuming."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from t2i_world import save_base, save_pool

from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json
from workflow_scripts.records import read_table
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
