import gzip
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pool_files import BOMB, SIZE, animation, encode, photo, rotated, write_parquet, write_tar

from workflow_scripts import images
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_run_record
from workflow_scripts.plan import PoolJob
from workflow_scripts.pool import build, sources
from workflow_scripts.pool.choose import order_key, seeded_order, share_out
from workflow_scripts.records import read_table

ROOT = Path(__file__).resolve().parents[2]


def make_images(folder, seeds, kind="PNG", suffix=".png"):
    for seed in seeds:
        path = folder / f"part{seed % 3}" / f"{seed:03d}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(photo(seed, kind))


def make_job(size, seed=0, **parts):
    named = {name: {"path": str(path), "count": count} for name, (path, count) in parts.items()}
    return PoolJob(sources=named, size=size, seed=seed)


def run(out, job, threads=1):
    """(images, left_out, the run record's counts) of the command."""
    left_out = out.with_name("left_out.csv")
    build.main(
        ["--spec", job.model_dump_json(), "--out", str(out), "--left-out", str(left_out), "--threads", str(threads)]
    )
    return read_table(out, "images"), read_table(left_out, "left_out"), read_run_record(out)["sources"]


def check_bytes(pool):
    """Every path of a pool leads to the bytes that its id names, and to an image of the size that it says."""
    for row in pool.itertuples():
        assert hashlib.sha256(images.read_bytes(row.path)).hexdigest() == row.image_id
        assert images.read_rgb(row.path).size == (row.width, row.height)


@pytest.fixture
def two_sources(tmp_path):
    make_images(tmp_path / "a", range(30))
    make_images(tmp_path / "b", range(30, 42), "JPEG", ".JPEG")
    return {"a": (tmp_path / "a", 200), "b": (tmp_path / "b", 100)}


def test_proportions_follow_the_counts(two_sources, tmp_path):
    pool, left_out, facts = run(tmp_path / "pool" / "images.parquet", make_job(31, **two_sources))
    assert pool["source"].value_counts().to_dict() == {"a": 21, "b": 10}  # 31 x 2/3 = 20.67, 31 x 1/3 = 10.33
    assert facts["a"] == {"files": 30, "left_out": {}, "asked": 21, "sampled": 21, "notes": {}}
    assert pool["index"].tolist() == list(range(31)) and not len(left_out)
    assert set(pool["source"][:15]) == {"a", "b"}  # the first rows are a mixed subset
    check_bytes(pool)


@pytest.mark.parametrize(
    ("size", "counts"),
    [(10, [1, 1, 1]), (7, [5, 3, 2]), (1_200_000, [118287, 570486, 558128]), (0, [4, 4]), (5, [1, 10**9])],
)
def test_shares_are_within_one_of_exact_proportion(size, counts):
    shares = share_out(size, {str(i): count for i, count in enumerate(counts)})
    assert sum(shares.values()) == size
    for i, count in enumerate(counts):
        assert abs(shares[str(i)] - size * count / sum(counts)) < 1


def test_seeded_order_is_by_hash_and_copies_follow_their_first():
    ids = ["b", "a", "b", "c", "a", "b"]
    order, copies, originals = seeded_order(ids, 3)
    assert [ids[i] for i in order] == sorted("abc", key=lambda i: order_key(3, i))
    assert sorted(order) == [0, 1, 3]
    assert dict(zip(copies.tolist(), originals.tolist(), strict=True)) == {2: 0, 5: 0, 4: 1}


def test_sample_does_not_depend_on_where_files_lie(two_sources, tmp_path):
    out = tmp_path / "pool" / "images.parquet"
    before, *_ = run(out, make_job(20, **two_sources))
    for number, path in enumerate(sorted((tmp_path / "a").rglob("*.png"))):
        path.rename(tmp_path / "a" / f"moved{99 - number}.png")
    after, *_ = run(out, make_job(20, **two_sources))
    assert before["image_id"].tolist() == after["image_id"].tolist()
    check_bytes(after)
    contents = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir() if path.is_file()}
    packed, *_ = run(out, make_job(20, a=(write_tar(tmp_path / "t" / "0.tar", contents), 200), b=two_sources["b"]))
    assert before["image_id"].tolist() == packed["image_id"].tolist()
    check_bytes(packed)
    other, *_ = run(out, make_job(20, seed=1, **two_sources))
    assert before["image_id"].tolist() != other["image_id"].tolist()


def test_smaller_pools_are_nested_in_larger_ones(two_sources, tmp_path):
    out = tmp_path / "pool" / "images.parquet"
    small, large = (set(run(out, make_job(size, **two_sources))[0]["image_id"]) for size in (9, 30))
    assert small < large
    one = {"b": two_sources["b"]}  # of one source, a smaller pool is the larger one's first rows
    ten, *_ = run(out, make_job(10, **one))
    four, *_ = run(out, make_job(4, **one))
    assert four["image_id"].tolist() == ten["image_id"][:4].tolist()


FAULTY = {
    "empty.jpg": (b"", "empty"),
    "page.jpg": (b"<html>not found</html>", "not_an_image"),
    "junk.jpg": (b"\xff\xd8\xff\xe0" + b"\0" * 60, "corrupt"),
    "cut.jpg": (photo(81, "JPEG")[:-40], "truncated"),
    "bomb.png": (BOMB, "too_large"),
    "tiny.png": (encode(Image.new("RGB", (40, 15))), "too_small"),
    "broken_middle.png": (photo(82)[:300] + b"\0\0\0\0" + photo(82)[304:], "corrupt"),
    "copy.png": (photo(3), "duplicate"),
}
DEEP = np.arange(432, dtype=np.uint16).reshape(SIZE[::-1]) * 150
ODD = {
    "turned.jpg": (rotated(6), (96, 64), "rotated"),
    "film.gif": (animation("GIF"), SIZE, "animated"),
    "film.webp": (animation("WEBP"), SIZE, "animated"),
    "print.jpg": (encode(Image.new("CMYK", SIZE, (9, 90, 7, 3)), "JPEG"), SIZE, "cmyk"),
    "deep.png": (encode(Image.fromarray(DEEP)), SIZE, "high_bit_depth"),
    "clear.png": (encode(Image.new("RGBA", SIZE, (255, 0, 0, 9))), SIZE, "alpha"),
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
def test_faults_are_listed_and_counted_and_oddities_noted(tmp_path, threads):
    make_images(tmp_path / "a", range(8))
    for name, (content, _) in FAULTY.items():
        (tmp_path / "a" / name).write_bytes(content)
    for name, (content, *_) in ODD.items():
        (tmp_path / "a" / name).write_bytes(content)
    (tmp_path / "a" / "lost.jpg").symlink_to(tmp_path / "nowhere.jpg")
    (tmp_path / "a" / "loop").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "notes.txt").write_text("no image, and not called one")
    (tmp_path / "a" / "more.zip").write_bytes(b"PK\x03\x04")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "again.png").write_bytes(photo(5))  # the first source keeps it
    (tmp_path / "b" / "only.png").write_bytes(photo(90))
    job = make_job(15, a=(tmp_path / "a", 14), b=(tmp_path / "b", 1))
    pool, left_out, facts = run(tmp_path / "pool" / "images.parquet", job, threads)
    by_name = {path.rsplit("/", 1)[-1]: row for path, row in left_out.set_index("path").iterrows()}
    expected = {name: reason for name, (_, reason) in FAULTY.items()}
    expected |= {"lost.jpg": "unreadable", "more.zip": "unread_archive", "again.png": "duplicate"}
    # Of two files with the same bytes the first by path is kept: copy.png stands before part0/003.png.
    expected |= {"003.png": expected.pop("copy.png")}
    assert {name: row.reason for name, row in by_name.items()} == expected
    assert by_name["003.png"].detail == f"same bytes as {tmp_path / 'a' / 'copy.png'}"
    assert by_name["again.png"].detail.startswith(f"same bytes as {tmp_path / 'a'}")
    assert facts["a"]["left_out"] == Counter(reason for name, reason in expected.items() if name != "again.png")
    assert facts["a"]["notes"] == Counter(note for *_, note in ODD.values())
    notes = {path.rsplit("/", 1)[-1]: note for path, note in zip(pool["path"], pool["notes"], strict=True)}
    for name, (_, size, note) in ODD.items():
        row = pool[pool["path"] == str(tmp_path / "a" / name)].iloc[0]
        assert (row.width, row.height) == size and notes[name] == note
    assert pool["image_id"].is_unique and pool["source"].value_counts().to_dict() == {"a": 14, "b": 1}
    check_bytes(pool)
    with pytest.raises(
        UserError, match=r"16 images asked, 15 usable ones found[^$]*pool.sources.a: 24 files, .*2 corr"
    ):
        run(tmp_path / "pool" / "images.parquet", make_job(16, a=(tmp_path / "a", 15), b=(tmp_path / "b", 1)), threads)


def test_tars_are_read_in_place_with_their_gaps(tmp_path):
    """SA-1B's layout: images and JSON side by side; one image is missing, one archive ends too early."""
    for number in range(2):
        members = {}
        for index in range(number * 4, number * 4 + 4):
            members[f"./sa_{index}.jpg"] = photo(index, "JPEG")
            members[f"./sa_{index}.json"] = b"{}"
        members.pop("./sa_2.jpg", None)
        write_tar(tmp_path / "sam" / f"sa_{number:06d}.tar", members)
    cut = tmp_path / "sam" / "sa_000001.tar"
    content = cut.read_bytes()
    cut.write_bytes(content[: content.index(photo(7, "JPEG")) + 30])
    pool, left_out, facts = run(tmp_path / "pool" / "images.parquet", make_job(6, sam=(tmp_path / "sam", 8)))
    names = {path.rsplit("/", 1)[-1] for path in pool["path"]}
    assert names == {f"sa_{index}.jpg" for index in (0, 1, 3, 4, 5, 6)}
    assert left_out["reason"].tolist() == ["truncated", "unread_archive"]
    assert left_out["path"][0].endswith("/sa_7.jpg") and left_out["path"][1] == str(cut)
    assert facts["sam"]["left_out"] == {"truncated": 1, "unread_archive": 1}
    check_bytes(pool)


def test_a_broken_header_within_a_tar_is_no_end(tmp_path):
    archive = write_tar(tmp_path / "a" / "0.tar", {f"{index}.png": photo(index) for index in range(4)})
    content = bytearray(archive.read_bytes())
    header = content.index(b"2.png")
    content[header : header + 5] = b"X.png"  # the checksum fits no more
    archive.write_bytes(content)
    pool, left_out, _ = run(tmp_path / "pool" / "images.parquet", make_job(2, a=(tmp_path / "a", 4)))
    assert sorted(path[-5:] for path in pool["path"]) == ["0.png", "1.png"]
    assert left_out["reason"].tolist() == ["unread_archive"]
    assert f"no header of a member at byte {header}; members before" in left_out["detail"][0]


def test_names_in_no_encoding_stop_nothing(tmp_path):
    make_images(tmp_path / "a", range(3))
    Path(os.fsdecode(bytes(tmp_path / "a" / "odd") + b"\xff.png")).write_bytes(photo(9))
    write_tar(tmp_path / "a" / "0.tar", {"odd\udcff.png": photo(10)})
    pool, left_out, _ = run(tmp_path / "pool" / "images.parquet", make_job(4, a=(tmp_path / "a", 4)))
    assert left_out["reason"].tolist() == ["unreadable"] and left_out["path"][0].endswith("odd?.png")
    assert sum(path.endswith("/odd?.png") for path in pool["path"]) == 1
    check_bytes(pool)


def test_output_of_img2dataset(tmp_path):
    members, rows = {}, []
    for index in range(6):
        key, sound = f"00000{index:04d}", index not in (1, 4)
        rows.append({"key": key, "url": f"http://x/{index}", "status": "success" if sound else "failed_to_download",
                     "error_message": None if sound else "HTTP Error 404"})  # fmt: skip
        if index != 1:  # 4 has a member though its row says that it failed
            members |= {f"{key}.jpg": photo(index, "JPEG"), f"{key}.txt": b"text", f"{key}.json": b"{}"}
    write_tar(tmp_path / "web" / "00000.tar", members)
    write_parquet(tmp_path / "web" / "00000.parquet", rows)
    (tmp_path / "web" / "00000_stats.json").write_text("{}")
    pool, left_out, facts = run(tmp_path / "pool" / "images.parquet", make_job(4, web=(tmp_path / "web", 4)))
    assert sorted(path.rsplit("/", 1)[-1] for path in pool["path"]) == [f"00000000{i}.jpg" for i in (0, 2, 3, 5)]
    assert facts["web"]["left_out"] == {"not_downloaded": 2}
    assert left_out["detail"][0] == "failed_to_download: HTTP Error 404 (http://x/1)"
    check_bytes(pool)


@pytest.mark.parametrize("nested", [True, False])
def test_images_in_parquet_are_copied_into_tars(tmp_path, nested):
    contents = [photo(index) for index in range(7)] + [b"", photo(8)[:-30]]
    rows = [
        {"image": {"bytes": content, "path": f"{index}.png"} if nested else content, "label": index}
        for index, content in enumerate(contents)
    ]
    file = write_parquet(tmp_path / "hf" / "train-00000-of-00001.parquet", rows, row_group_size=4)
    make_images(tmp_path / "a", range(20, 24))
    job = make_job(9, hf=(file, 6), a=(tmp_path / "a", 3))
    out = tmp_path / "pool" / "images.parquet"
    pool, _, facts = run(out, job)
    assert set(pool[pool["source"] == "hf"]["image_id"]) < {hashlib.sha256(c).hexdigest() for c in contents[:7]}
    assert set(facts["hf"]["left_out"]) <= {"empty", "truncated"} and facts["hf"]["left_out"]["empty"] == 1
    check_bytes(pool)
    archives = {images.container(path) for path in pool[pool["source"] == "hf"]["path"]}
    assert {path.parent for path in archives} == {out.parent / "packed"}
    if nested:
        assert {path.rsplit("/", 1)[-1] for path in pool[pool["source"] == "hf"]["path"]} < {
            f"{i}.png" for i in range(7)
        }
    again, *_ = run(out, make_job(6, hf=(file, 4), a=(tmp_path / "a", 2)))
    check_bytes(again)
    assert set((out.parent / "packed").iterdir()) == {images.container(p) for p in again["path"] if "packed" in p}


def test_sources_that_cannot_be_read_say_why(tmp_path):
    def error(path):
        with pytest.raises(UserError) as caught:
            run(tmp_path / "pool" / "images.parquet", make_job(1, web=(path, 1)))
        assert str(caught.value).startswith("pool.sources.web.path: no ")
        return str(caught.value)

    assert "no such file or folder" in error(tmp_path / "nowhere")
    links = write_parquet(tmp_path / "links.parquet", [{"image_url": "http://x", "text": "t"}])
    assert "img2dataset (--input_format parquet --url_col 'image_url'" in error(links)
    assert "columns are text, n" in error(write_parquet(tmp_path / "n.parquet", [{"text": "t", "n": 1}]))
    two = write_parquet(tmp_path / "two.parquet", [{"left": b"1", "right": b"2"}])
    assert "(left, right): call the one with the images `image`" in error(two)
    (tmp_path / "no.parquet").write_bytes(b"no parquet")
    assert "no.parquet" in error(tmp_path / "no.parquet")
    (tmp_path / "z").mkdir()
    (tmp_path / "z" / "0.tar.gz").write_bytes(gzip.compress(b"tar"))
    assert "0.tar.gz is compressed: unpack it" in error(tmp_path / "z")
    (tmp_path / "called.tar").write_bytes(gzip.compress(b"tar"))
    assert "called.tar is compressed: unpack it" in error(tmp_path / "called.tar")
    (tmp_path / "none.tar").write_bytes(b"")
    assert "none.tar: empty file" in error(tmp_path / "none.tar")
    (tmp_path / "bare").mkdir()
    assert error(tmp_path / "bare").endswith(f"no image in {tmp_path / 'bare'}")


def test_a_file_that_changes_meanwhile_is_noticed(tmp_path, monkeypatch):
    make_images(tmp_path / "a", range(6))

    def swap(*arguments):
        for path in (tmp_path / "a").rglob("*.png"):
            path.write_bytes(photo(99))
        return seeded_order(*arguments)

    monkeypatch.setattr(build, "seeded_order", swap)
    with pytest.raises(UserError, match="the file changed while the pool was built"):
        run(tmp_path / "pool" / "images.parquet", make_job(6, a=(tmp_path / "a", 6)))


def test_a_mended_file_is_read_again(tmp_path):
    make_images(tmp_path / "a", range(6))
    broken = tmp_path / "a" / "broken.png"
    broken.write_bytes(b"nothing")
    job, out = make_job(7, a=(tmp_path / "a", 7)), tmp_path / "pool" / "images.parquet"
    with pytest.raises(UserError, match="1 not_an_image, 7 asked, 6 sampled"):
        run(out, job)
    broken.write_bytes(photo(50))
    assert len(run(out, job)[0]) == 7


SLOW_BUILD = """
import sys, time
from workflow_scripts.pool import build, sources, stages

sources.CHUNK = stages.CHUNK = 10
update = stages.Progress.update
stages.Progress.update = lambda self, count: (update(self, count), time.sleep(0.3))
if __name__ == "__main__":
    build.main(sys.argv[1:])
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_kill_9_costs_at_most_the_chunks_at_hand(tmp_path, monkeypatch, threads):
    make_images(tmp_path / "a", range(120))
    job = make_job(100, a=(tmp_path / "a", 120))
    out = tmp_path / "pool" / "images.parquet"
    (tmp_path / "slow.py").write_text(SLOW_BUILD)
    command = [sys.executable, str(tmp_path / "slow.py"), "--spec", job.model_dump_json(), "--out", str(out)]
    command += ["--left-out", str(out.with_name("left_out.csv")), "--threads", str(threads)]

    def hashed():
        return {path: path.stat().st_mtime_ns for path in (out.parent / ".partial").glob("*/hashed/[0-9a-f]*.parquet")}

    killed = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)})
    deadline = time.monotonic() + 60
    while len(hashed()) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=20)  # ends once no worker holds the pipe any more
    before = hashed()
    assert 4 <= len(before) <= 12 and not out.exists()
    monkeypatch.setattr(sources, "CHUNK", 10)
    finished = []
    monkeypatch.setattr(build, "write_run_record", lambda *_, **__: finished.append(hashed()))
    build.main([*command[2:-1], "1"])
    assert len(finished[0]) == 12 and before.items() <= finished[0].items()
    monkeypatch.undo()
    whole, *_ = run(tmp_path / "whole" / "images.parquet", job)
    assert read_table(out, "images").equals(whole)
