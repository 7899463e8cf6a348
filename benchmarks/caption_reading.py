"""Training's captions: read one by one from their shards, against all of them in memory.

    python -m benchmarks.caption_reading --captions 1200000

A pool and shards of captions of about 130 words are made in a temporary folder; the pool's images are one file, so that
reading images costs nothing here. Each way is a process of its own: it makes the samples, puts them in order, and reads
--samples of them in that order. Memory is what it holds at the end and at most, without the libraries.
"""

import argparse
import hashlib
import itertools
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import psutil
import pyarrow.parquet

from workflow_scripts.captions.read import FINGERPRINT, ROW_GROUP
from workflow_scripts.files import write_json
from workflow_scripts.records import read_table, write_table
from workflow_scripts.vlm.data import CaptionSamples, Sample, Samples, in_order

SHARD = 10_000


def write(folder: Path, number: int) -> None:
    """images.parquet, captions.json and its shards."""
    rng, image = random.Random(0), folder / "image.png"
    image.touch()
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(20_000)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    ids = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(number)]
    pool = pd.DataFrame({"index": range(number), "image_id": ids, "source": "made", "path": str(image)})
    write_table(folder / "images.parquet", pool.assign(width=1, height=1, notes=None), "images")
    shards = []
    for start in range(0, number, SHARD):
        some = ids[start : start + SHARD]
        captions = [" ".join(rng.choices(words, cum_weights=weights, k=rng.randint(100, 160))) for _ in some]
        table = pd.DataFrame({"image_id": some, "caption": captions, "num_tokens": 170, "finish_reason": "stop"})
        path = folder / f"{start // SHARD:05d}.parquet"
        write_table(path, table.assign(num_attempts=1, error=None), "captions", {FINGERPRINT: "made"}, ROW_GROUP)
        shards.append({"path": path.name, "rows": len(some), "sha256": "made"})
    write_json(folder / "captions.json", {"fingerprint": "made", "leave_out": [], "shards": shards})


@dataclass(frozen=True)
class HeldSamples:
    """The baseline: a source whose samples are in memory."""

    samples: Sequence[Sample]

    def __len__(self) -> int:
        return len(self.samples)

    def key(self, index: int) -> str:
        """The sample's own key."""
        return self.samples[index].key

    def sample(self, index: int) -> Sample:
        """The sample itself."""
        return self.samples[index]


def held(folder: Path) -> HeldSamples:
    """All captions in memory, as samples."""
    paths = [folder / shard["path"] for shard in json.loads((folder / "captions.json").read_text())["shards"]]
    captions = pd.concat([read_table(path, "captions") for path in paths], ignore_index=True)
    images = pyarrow.parquet.read_table(folder / "images.parquet", columns=["image_id", "path"]).to_pandas()
    rows = images.merge(captions, on="image_id", validate="one_to_one")
    return HeldSamples(
        [
            Sample(f"caption:{row.image_id}", (Path(row.path),), (("describe", row.caption.strip()),))
            for row in rows.itertuples()
        ]
    )


def measure(way: str, folder: Path, number: int) -> dict[str, float]:
    """Seconds of a processor to the first sample and milliseconds a sample, MB at the end and at most."""
    before, started = psutil.Process().memory_info().rss, time.process_time()
    if way == "held":
        source = held(folder)
    else:
        source = CaptionSamples(folder / "images.parquet", folder / "captions.json", set(), "describe")
    ordered = in_order(Samples(source), 0, len(source))
    ready = time.process_time()
    for place in range(number):
        ordered[place]
    ended = time.process_time()
    most = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "start": ready - started,
        "sample": 1000 * (ended - ready) / number,
        "end": (psutil.Process().memory_info().rss - before) / 1e6,
        "most": (most - before) / 1e6,
    }


def main() -> None:
    """Measure both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=int, default=1_200_000)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--measure", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        way, folder = args.measure
        print(json.dumps(measure(way, Path(folder), args.samples)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), args.captions)
        for way in ("streamed", "held"):
            command = [sys.executable, "-m", "benchmarks.caption_reading", "--samples", str(args.samples)]
            done = subprocess.run([*command, "--measure", way, folder], check=True, capture_output=True, text=True)
            told = json.loads(done.stdout)
            print(
                f"{way}: {told['start']:.1f} s of a processor to the first sample, then {told['sample']:.3f} ms each; "
                f"{told['end']:,.0f} MB, at most {told['most']:,.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
