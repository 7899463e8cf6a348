"""Latents encoded once for all captioners against once per captioner, and read on demand against held in memory.

    python -m benchmarks.latents --images FOLDER --count 100 --resolution 256 --captioners 10

Encodes --count images of a folder with the autoencoder of --base: once, then once more for each captioner, each into a
folder of its own, all by the command of the workflow (start-up of Python is not counted). Then computes the same for
50,000 and 100,000 images of 1024 px with 16 latent channels, the paper's sizes: disk exactly, time at
--seconds-an-image (default: this run's, which is another autoencoder's on another machine: what carries over is how
many images are encoded).

Last, --stored posteriors of the paper's size are written and read in random order by a process of its own: on demand,
as training does it, and all loaded at first. Memory is what the process holds for itself (RssAnon), which every
process of a job would hold; pages of mapped files belong to the machine and can be dropped.
"""

import argparse
import json
import random
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import torch
from PIL import Image

from workflow_scripts.files import sha256_file, write_json
from workflow_scripts.images import SUFFIXES
from workflow_scripts.records import write_table
from workflow_scripts.t2i import latents
from workflow_scripts.t2i.shards import write_shard

POSTERIOR = 2 * 2 * 16 * (1024 // 8) ** 2  # bytes an image: mean and log-variance, float16, 16 channels, an eighth


def write_pool(images: Path, count: int, folder: Path) -> Path:
    """A pool of the first images of a folder."""
    paths = sorted(path for path in images.rglob("*") if path.suffix.lower() in SUFFIXES)[:count]
    rows = []
    for index, path in enumerate(paths):
        with Image.open(path) as image:
            width, height = image.size
        row = {"index": index, "image_id": sha256_file(path), "source": "benchmark", "path": str(path)}
        rows.append({**row, "width": width, "height": height, "notes": None})
    write_table(folder / "images.parquet", rows, "images")
    return folder / "images.parquet"


def encode(spec: dict, pool: Path, outs: list[Path]) -> tuple[float, int]:
    """Seconds and bytes of encoding a pool into each of some manifests."""
    started = time.monotonic()
    for out in outs:
        latents.main(["--spec", json.dumps(spec), "--pool", str(pool), "--out", str(out)])
    seconds = time.monotonic() - started
    return seconds, sum(p.stat().st_size for out in outs for p in out.parent.rglob("*.safetensors"))


def write_stored(count: int, folder: Path) -> Path:
    """Posteriors of the paper's size."""
    shards = []
    for start in range(0, count, latents.SHARD_SIZE):
        ids = [str(n) for n in range(start, min(start + latents.SHARD_SIZE, count))]
        path = folder / f"{start:06d}.safetensors"
        tensor = torch.zeros(len(ids), 16, 128, 128, dtype=torch.float16)
        write_shard(path, {"mean": tensor, "log_variance": tensor.clone()}, ids)
        shards.append({"path": path.name, "width": 1024, "height": 1024, "rows": len(ids)})
    write_json(folder / "latents.json", {"shards": shards})
    return folder / "latents.json"


def read(manifest: Path, on_demand: bool) -> tuple[float, float, float]:
    """Seconds until the first image, milliseconds an image of random order after that, MB that the process holds."""
    before, started = own_memory(), time.monotonic()
    made = latents.Latents(manifest)
    source = made if on_demand else [tuple(t.clone() for t in made[n]) for n in range(len(made))]
    source[0][0].sum()
    opened = time.monotonic() - started
    order = random.Random(0).sample(range(len(made)), len(made))
    started = time.monotonic()
    for image in order:
        mean, log_variance = source[image]
        mean.sum(), log_variance.sum()
    return opened, 1000 * (time.monotonic() - started) / len(order), (own_memory() - before) / 1e6


def own_memory() -> int:
    """Bytes of anonymous memory that this process has in use."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def main() -> None:
    """Encode, compute, read; print three tables."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--images", type=Path, required=True, help="folder of images")
    arguments.add_argument("--count", type=int, default=100, help="images to encode")
    arguments.add_argument(
        "--base", type=Path, default=Path("resources/blocks/sd3"), help="a diffusers pipeline folder"
    )
    arguments.add_argument("--family", default="sd3", choices=("sd3", "qwen-image"))
    arguments.add_argument("--resolution", type=int, default=256)
    arguments.add_argument("--captioners", type=int, default=10)
    arguments.add_argument("--seconds-an-image", type=float, help="of encoding, for the computed times")
    arguments.add_argument("--stored", type=int, default=1000, help="posteriors of 1 MiB that are written and read")
    args = arguments.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        pool = write_pool(args.images, args.count, folder)
        spec = {"family": args.family, "model": {"path": str(args.base)}, "num_images": args.count}
        spec["resolution"] = args.resolution
        encode(spec, pool, [folder / "warm-up" / "latents.json"])
        once = encode(spec, pool, [folder / "shared" / "latents.json"])
        each = encode(spec, pool, [folder / f"captioner-{n}" / "latents.json" for n in range(args.captioners)])
        print(f"{args.base.name}, {args.count} images of {args.resolution} px, {args.captioners} captioners\n")
        print("| latents | images encoded | seconds | disk, MB |\n| --- | --- | --- | --- |")
        print(f"| shared | {args.count} | {once[0]:.2f} | {once[1] / 1e6:.1f} |")
        print(f"| per captioner | {args.captioners * args.count} | {each[0]:.2f} | {each[1] / 1e6:.1f} |")
        print(f"| times | {args.captioners} | {each[0] / once[0]:.1f} | {each[1] / once[1]:.1f} |\n")

        seconds = args.seconds_an_image or once[0] / args.count
        print(f"Computed for 1024 px and 16 channels, at {seconds:.3f} seconds an image:\n")
        print("| images | latents | images encoded | hours | disk, GB |\n| --- | --- | --- | --- | --- |")
        for count in (50_000, 100_000):
            for name, times in (("shared", 1), ("per captioner", args.captioners)):
                hours, disk = times * count * seconds / 3600, times * count * POSTERIOR / 1e9
                print(f"| {count:,} | {name} | {times * count:,} | {hours:.1f} | {disk:.0f} |")

        manifest = write_stored(args.stored, folder)
        print(f"\n{args.stored} posteriors of {POSTERIOR / 2**20:.0f} MiB, one process:\n")
        print("| read | seconds to open | ms an image | held by each process, MB | of 50,000 images, GB |")
        print("| --- | --- | --- | --- | --- |")
        for name, on_demand in (("on demand", True), ("all in memory", False)):
            with get_context("spawn").Pool(1) as process:
                opened, each_ms, held = process.apply(read, (manifest, on_demand))
            grown = 0.0 if on_demand else 50_000 * POSTERIOR / 1e9
            print(f"| {name} | {opened:.2f} | {each_ms:.2f} | {held:.0f} | {grown:.0f} |", flush=True)


if __name__ == "__main__":
    main()
