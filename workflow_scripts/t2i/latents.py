"""Encode the images that a text-to-image model trains on: once a pipeline, shared by all captioners.

    python -m workflow_scripts.t2i.latents \
        --spec '{"family": "sd3", "model": {"path": "resources/blocks/sd3"}, "num_images": 1000, "resolution": 32}' \
        --pool results/blocks/pool/images.parquet --out results/blocks/generation/sd3/latents.json

Files in: the pool's table and its images, the pipeline folder. Files out: safetensors shards with the posterior's
`mean` and `log_variance` (float16, (n, C, h, w); the image ids in the metadata) in a folder beside --out, and the
manifest --out, written last. A run that was ended goes on with the first shard that is not there.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import atomic, fingerprint, read_json, sha256_file, write_json, write_run_record
from workflow_scripts.images import read_rgb
from workflow_scripts.model_folders import folder_fingerprint, local_folder
from workflow_scripts.plan import LatentsJob
from workflow_scripts.progress import Progress
from workflow_scripts.records import read_table
from workflow_scripts.t2i.families import FAMILIES, Family

SHARD_SIZE = 500  # images
_BATCH = 50  # images encoded at once


def read_square(path: str | Path, side: int) -> torch.Tensor:
    """An image as pixels of -1 to 1, float32 (3, side, side): its shorter side scaled to `side`, then the centre cut
    out. Raises UserError naming the file where it is no readable image."""
    try:
        image = read_rgb(path)
    except OSError as error:
        raise UserError(f"{path}: not a readable image ({error})") from None
    if image.size != (side, side):
        scale = side / min(image.size)
        width, height = (max(side, round(length * scale)) for length in image.size)
        left, top = (width - side) // 2, (height - side) // 2
        image = image.resize((width, height), Image.Resampling.LANCZOS).crop((left, top, left + side, top + side))
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div(127.5).sub(1)


def _is_whole(path: Path, image_ids: list[str]) -> bool:
    """Whether a shard of an earlier run is there and holds just these images."""
    try:
        with safe_open(path, "pt") as shard:
            return json.loads(shard.metadata()["image_ids"]) == image_ids
    except (OSError, SafetensorError):
        return False


def _encode_shard(family: Family, images: pd.DataFrame, side: int, path: Path, progress: Progress) -> None:
    means, log_variances = [], []
    for start in range(0, len(images), _BATCH):
        paths = images.path[start : start + _BATCH]
        mean, log_variance = family.encode_images(torch.stack([read_square(p, side) for p in paths]).to(family.device))
        means.append(mean.half().cpu())
        log_variances.append(log_variance.half().cpu())
        progress.update(len(paths))
    tensors = {"mean": torch.cat(means), "log_variance": torch.cat(log_variances)}
    with atomic(path) as temporary:
        save_file(tensors, temporary, metadata={"image_ids": json.dumps(images.image_id.tolist())})


def read_latents(manifest: Path) -> tuple[list[str], torch.Tensor, torch.Tensor]:
    """Image ids in the pool's order, mean and log-variance, float16 (N, C, h, w), of what this command wrote."""
    image_ids, means, log_variances = [], [], []
    for shard in read_json(manifest)["shards"]:
        with safe_open(manifest.parent / shard["path"], "pt") as file:
            image_ids += json.loads(file.metadata()["image_ids"])
            means.append(file.get_tensor("mean"))
            log_variances.append(file.get_tensor("log_variance"))
    return image_ids, torch.cat(means), torch.cat(log_variances)


def main(argv: list[str] | None = None) -> None:
    """Encode the shards that are missing and list all."""
    arguments = parser(__doc__)
    arguments.add_argument("--pool", type=Path, required=True, help="the pool's images.parquet")
    arguments.add_argument("--out", type=Path, required=True, help="the manifest, latents.json")
    args = arguments.parse_args(argv)
    spec = load_spec(args.spec, LatentsJob)
    images = read_table(args.pool, "images").sort_values("index").head(spec.num_images)
    if len(images) < spec.num_images:
        raise UserError(f"num_images is {spec.num_images}, but {args.pool} has {len(images)} images")
    model = local_folder(spec.model)
    made_of = fingerprint(spec.model_dump(mode="json"), args.pool, folder_fingerprint(model / "vae"))
    folder = args.out.parent / made_of
    shards = [images[start : start + SHARD_SIZE] for start in range(0, len(images), SHARD_SIZE)]
    paths = [folder / f"latents-{number:05d}.safetensors" for number in range(len(shards))]
    pending = [(p, rows) for p, rows in zip(paths, shards, strict=True) if not _is_whole(p, rows.image_id.tolist())]
    progress = Progress(len(images), "images", done=len(images) - sum(len(rows) for _, rows in pending))
    if pending:
        family = FAMILIES[spec.family].load(spec.model)
        for path, rows in pending:
            _encode_shard(family, rows, spec.resolution, path, progress)
    manifest = {
        "shards": [
            {"path": str(path.relative_to(args.out.parent)), "rows": len(rows), "sha256": sha256_file(path)}
            for path, rows in zip(paths, shards, strict=True)
        ],
        "num_images": len(images),
        "fingerprint": made_of,
    }
    write_run_record(args.out, spec.model_dump(mode="json"), num_images=len(images), num_shards=len(shards))
    write_json(args.out, manifest)


if __name__ == "__main__":
    run(main)
