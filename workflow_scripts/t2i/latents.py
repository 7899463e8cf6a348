"""Encode the images that a text-to-image model trains on: once a pipeline, shared by all captioners.

    python -m workflow_scripts.t2i.latents \
        --spec '{"family": "sd3", "model": {"path": "resources/blocks/sd3"}, "num_images": 1000, "resolution": 32}' \
        --pool results/blocks/pool/images.parquet --out results/blocks/generation/sd3/latents.json

Files in: the pool's table and its images, the pipeline folder. Files out: safetensors shards with the posterior's
`mean` and `log_variance` (float16, (n, C, h, w), images of one size) in a folder beside --out, and the manifest --out,
written last. A run that was ended goes on with the first shard that is not there.

Aspect `centre_crop`: the shorter side is scaled to the resolution, then the centre cut out. Aspect `buckets`: an image
gets the size, out of `bucket_sizes`, whose ratio is nearest to its own; it is scaled to cover that, then the centre cut
out.
"""

import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image

from workflow_scripts.capacity import require_disk
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import fingerprint, read_json, sha256_file, write_json, write_run_record
from workflow_scripts.images import require_rgb
from workflow_scripts.model_folders import folder_fingerprint, local_folder
from workflow_scripts.plan import LatentsJob
from workflow_scripts.progress import Progress
from workflow_scripts.read_ahead import ReadAhead
from workflow_scripts.records import read_table
from workflow_scripts.t2i.capacity import latents_size
from workflow_scripts.t2i.families import FAMILIES, Family
from workflow_scripts.t2i.shards import Shards, items_of, write_shard

SHARD_SIZE = 500  # images
_PIXELS_AT_ONCE = 4 * 1024**2  # encoded: four images of 1024 px
_BATCH = 50  # images encoded at once, where they are small
_RATIOS = (1, 4 / 3, 3 / 2, 16 / 9, 2)  # of the longer side to the shorter
_THREADS = min(8, len(os.sched_getaffinity(0)))  # that decode images

Size = tuple[int, int]  # width and height in pixels


def bucket_sizes(resolution: int) -> list[Size]:
    """The sizes of aspect `buckets`: ratios 1, 4:3, 3:2, 16:9 and 2 both ways, each with an area of about the square of
    `resolution` and sides that are multiples of 64, or of 16 (what a patch of latents takes) below 512 and where
    `resolution` itself is no multiple of 64."""
    unit = 64 if resolution >= 512 and resolution % 64 == 0 else 16
    sizes: dict[Size, None] = {}
    for ratio in _RATIOS:
        longer, shorter = (unit * round(resolution * r**0.5 / unit) for r in (ratio, 1 / ratio))
        sizes |= dict.fromkeys([(longer, shorter), (shorter, longer)])
    return list(sizes)


def nearest_size(width: int, height: int, sizes: list[Size]) -> Size:
    """The size whose ratio of the sides is nearest to the image's, on a logarithmic scale."""
    return min(sizes, key=lambda size: abs(math.log(width * size[1] / (height * size[0]))))


def read_fitted(path: str | Path, size: Size) -> torch.Tensor:
    """An image as pixels of -1 to 1, float32 (3, height, width): scaled to cover `size`, then the centre cut out.
    Raises UserError naming the file where it is no readable image."""
    image = require_rgb(path)
    if image.size != size:
        scale = max(wanted / length for wanted, length in zip(size, image.size, strict=True))
        width, height = (max(wanted, round(length * scale)) for wanted, length in zip(size, image.size, strict=True))
        left, top = (width - size[0]) // 2, (height - size[1]) // 2
        image = image.resize((width, height), Image.Resampling.LANCZOS).crop((left, top, left + size[0], top + size[1]))
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div(127.5).sub(1)


class Latents:
    """The posteriors that a manifest lists, read from their shards one by one. Raises UserError where a shard is not
    there any more. `image_ids` and `sizes` (of the pixels) are in the order of the shards: by size, then the pool's."""

    def __init__(self, manifest: Path) -> None:
        listed = read_json(manifest)["shards"]
        paths = [manifest.parent / shard["path"] for shard in listed]
        self._shards = Shards(paths)
        self._places: list[tuple[int, int]] = []  # shard and row of each image
        self.image_ids: list[str] = []
        self.sizes: list[Size] = []
        for number, (path, shard) in enumerate(zip(paths, listed, strict=True)):
            image_ids = items_of(path)
            if image_ids is None:
                raise UserError(f"{path}: missing or broken, though {manifest} lists it; delete that to encode again")
            self.image_ids += image_ids
            self.sizes += [(shard["width"], shard["height"])] * len(image_ids)
            self._places += [(number, row) for row in range(len(image_ids))]

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, image: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and log-variance of one image, float16 (C, h, w)."""
        number, row = self._places[image]
        shard = self._shards[number]
        return shard.get_slice("mean")[row], shard.get_slice("log_variance")[row]


def _encode_shard(family: Family, images: pd.DataFrame, size: Size, path: Path, progress: Progress) -> None:
    """Encode images of one size, and decode ahead of that."""
    batch = max(1, min(_BATCH, _PIXELS_AT_ONCE // (size[0] * size[1])))
    pixels = ReadAhead(lambda image: read_fitted(image, size), images.path, _THREADS, 2 * batch)
    means, log_variances = [], []
    for start in range(0, len(images), batch):
        some = [pixels.take() for _ in range(min(batch, len(images) - start))]
        mean, log_variance = family.encode_images(torch.stack(some).to(family.device))
        means.append(mean.half().cpu())
        log_variances.append(log_variance.half().cpu())
        progress.update(len(some))
    write_shard(path, {"mean": torch.cat(means), "log_variance": torch.cat(log_variances)}, images.image_id.tolist())


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
    shards = _shards(images, spec, folder)
    pending = [shard for shard in shards if items_of(shard[0]) != shard[2].image_id.tolist()]
    progress = Progress(len(images), "images", done=len(images) - sum(len(rows) for _, _, rows in pending))
    if pending:
        family = FAMILIES[spec.family].open(spec.model)
        require_disk(folder, {"latents": latents_size(family, len(images), spec.resolution)})
        family.load_part("vae").to(family.device)
        for path, size, rows in pending:
            _encode_shard(family, rows, size, path, progress)
    listed = [
        {
            "path": str(path.relative_to(args.out.parent)),
            "width": size[0],
            "height": size[1],
            "rows": len(rows),
            "sha256": sha256_file(path),
        }
        for path, size, rows in shards
    ]
    write_run_record(args.out, spec.model_dump(mode="json"), num_images=len(images), num_shards=len(shards))
    write_json(args.out, {"shards": listed, "num_images": len(images), "fingerprint": made_of})


def _shards(images: pd.DataFrame, spec: LatentsJob, folder: Path) -> list[tuple[Path, Size, pd.DataFrame]]:
    """Every shard's path, the size of its images, and their rows."""
    sizes = bucket_sizes(spec.resolution) if spec.aspect == "buckets" else [(spec.resolution, spec.resolution)]
    chosen = [nearest_size(width, height, sizes) for width, height in zip(images.width, images.height, strict=True)]
    shards = []
    for size in sizes:
        rows = images[[one == size for one in chosen]]
        for number, start in enumerate(range(0, len(rows), SHARD_SIZE)):
            path = folder / f"{size[0]}x{size[1]}-{number:05d}.safetensors"
            shards.append((path, size, rows[start : start + SHARD_SIZE]))
    return shards


if __name__ == "__main__":
    run(main)
