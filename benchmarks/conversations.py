"""Seconds and memory of a data set of conversations: indexed, and read when training starts, against `json.load`.

    python -m benchmarks.conversations --samples 665298 --images 600000 --photos FOLDER

A data set in the shape and size of LLaVA's 665K mixture is made in a temporary folder: --samples conversations of one
to eight turns about --images pictures, one sample in sixteen without. The pictures are links to photographs of
--photos, scaled down to 640 pixels (--side), so that each is read and decoded as a file of its own; without
--photos they are tiny ones, which leaves the time of the rest. With --zip they lie in an images.zip instead.

The first line is the baseline: what any program pays that reads the whole JSON and keeps it, and looks whether each
image is there. Memory is the most that all processes of a command held together, looked at ten times a second.
"""

import argparse
import io
import json
import os
import random
import sys
import tempfile
import zipfile
from pathlib import Path

from PIL import Image

from benchmarks.caption_statistics import measured
from workflow_scripts.images import read_rgb
from workflow_scripts.plan import IndexJob
from workflow_scripts.spec import Source

LINKS = 50_000  # a file system gives one file only so many names

LOAD = """
import json, pathlib, sys
rows = json.load(open(sys.argv[1]))
names = {row["image"] for row in rows if "image" in row}
missing = [name for name in names if not pathlib.Path(sys.argv[2], name).is_file()]
"""
START = """
import pathlib, sys
from workflow_scripts.vlm.conversations import Conversations
from workflow_scripts.vlm.data import Samples, in_order
samples = Samples(Conversations(*map(pathlib.Path, sys.argv[1:3])))
ordered = in_order(samples, 0, len(samples))
for place in range(int(sys.argv[3])):
    ordered[place]
"""


def write_rows(path: Path, samples: int, images: int) -> None:
    """The JSON array."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(5000)]
    with path.open("w") as file:
        for number in range(samples):
            turns = []
            for _ in range(rng.randint(1, 8)):
                turns.append({"from": "human", "value": " ".join(rng.choices(words, k=12))})
                turns.append({"from": "gpt", "value": " ".join(rng.choices(words, k=rng.randint(1, 50)))})
            row = {"id": f"{number:012d}", "conversations": turns}
            if number % 16:
                row["image"] = name_of(number * 7919 % images)
                turns[0]["value"] = f"<image>\n{turns[0]['value']}"
            file.write(f"{',' if number else '['}\n{json.dumps(row)}")
        file.write("]\n")


def name_of(image: int) -> str:
    """What a picture is called."""
    return f"coco/train2017/{image // 10_000:03d}/{image:012d}.jpg"


def jpegs(photos: Path | None, side: int) -> list[bytes]:
    """The bytes of the pictures that all others are copies of."""
    if photos is None:
        found = [Image.new("RGB", (16, 16), (n, 0, 0)) for n in range(20)]
    else:
        found = [read_rgb(path, side * side * 3 // 4) for path in sorted(photos.iterdir())[:40]]
    made = []
    for image in found:
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=90)
        made.append(buffer.getvalue())
    return made


def write_images(folder: Path, images: int, contents: list[bytes], zipped: bool) -> Path:
    """The folder or zip of the pictures."""
    if zipped:
        with zipfile.ZipFile(folder / "images.zip", "w") as archive:
            for image in range(images):
                archive.writestr(zipfile.ZipInfo(name_of(image)), contents[image % len(contents)])
        return folder / "images.zip"
    for image in range(images):
        path, first = folder / "images" / name_of(image), image // LINKS * LINKS + image % LINKS % len(contents)
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
        if image == first:
            path.write_bytes(contents[image % LINKS % len(contents)])
        else:
            os.link(folder / "images" / name_of(first), path)
    return folder / "images"


def main() -> None:
    """Measure one data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=665_298)
    parser.add_argument("--images", type=int, default=600_000, help="different ones")
    parser.add_argument("--photos", type=Path, help="folder of photographs")
    parser.add_argument("--side", type=int, default=640, help="of a photograph, in pixels")
    parser.add_argument("--zip", action="store_true", help="pictures in a zip")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--read", type=int, default=20_000, help="samples that are read, after the start of training")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        file, index = folder / "data.json", folder / "index" / "index.parquet"
        write_rows(file, args.samples, args.images)
        contents = jpegs(args.photos, args.side)
        images = write_images(folder, args.images, contents, args.zip)
        mean = sum(map(len, contents)) / len(contents) / 1000
        print(
            f"{args.samples:,} conversations, {file.stat().st_size / 1e6:,.0f} MB of JSON; {args.images:,} pictures of "
            f"{mean:.0f} kB, {len(contents)} different ones"
        )
        job = IndexJob(data=Source(path=file)).model_dump_json()
        options = ["--spec", job, "--out", str(index), "--threads", str(args.threads)]
        run = [sys.executable, "-c"]
        ways = {
            "json.load, is each image there": [*run, LOAD, str(file), str(images)],
            "index": [sys.executable, "-m", "workflow_scripts.vlm.index", *options],
            "start of training": [*run, START, str(index), str(file), "0"],
            f"the same and {args.read:,} samples read": [*run, START, str(index), str(file), str(args.read)],
        }
        base = None
        for name, command in ways.items():
            seconds, worked, megabytes = measured(command)
            base = base or (seconds, megabytes)
            print(
                f"{name}: {seconds:.1f} s, {worked:.1f} s of processors, {megabytes:,.0f} MB "
                f"(x {seconds / base[0]:.2f} in time, x {megabytes / base[1]:.2f} in memory)",
                flush=True,
            )


if __name__ == "__main__":
    main()
