import numpy as np
import pytest
from PIL import Image

from workflow_scripts.errors import NotInThisVersion, UserError
from workflow_scripts.files import read_run_record, sha256_file
from workflow_scripts.plan import PoolJob
from workflow_scripts.pool import build
from workflow_scripts.records import read_table


def make_images(folder, count, seed, suffix=".png"):
    numbers = np.random.default_rng(seed)
    for index in range(count):
        path = folder / f"part{index % 3}" / f"{index:03d}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(numbers.integers(0, 256, (6, 8, 3), np.uint8)).save(path)


def job(size, seed=0, **sources):
    return PoolJob(
        sources={name: {"path": str(p), "count": count} for name, (p, count) in sources.items()}, size=size, seed=seed
    )


@pytest.fixture
def two_sources(tmp_path):
    make_images(tmp_path / "a", 30, 1)
    make_images(tmp_path / "b", 12, 2, ".JPEG")
    return {"a": (tmp_path / "a", 200), "b": (tmp_path / "b", 100)}


def test_proportions_follow_the_counts(two_sources):
    rows, facts = build.build_pool(job(31, **two_sources))
    by_source = {name: sum(row["source"] == name for row in rows) for name in ("a", "b")}
    assert by_source == {"a": 21, "b": 10}  # 31 x 2/3 = 20.67, 31 x 1/3 = 10.33
    assert facts["sources"]["a"] == {"files": 30, "duplicates": 0, "unreadable": 0, "asked": 21, "sampled": 21}


@pytest.mark.parametrize(
    ("size", "counts"),
    [(10, [1, 1, 1]), (7, [5, 3, 2]), (1_200_000, [118287, 570486, 558128]), (0, [4, 4]), (5, [1, 10**9])],
)
def test_shares_are_within_one_of_exact_proportion(size, counts):
    shares = build.share_out(size, {str(i): count for i, count in enumerate(counts)})
    assert sum(shares.values()) == size
    for i, count in enumerate(counts):
        assert abs(shares[str(i)] - size * count / sum(counts)) < 1


def test_sample_does_not_depend_on_where_files_lie(two_sources, tmp_path):
    before, _ = build.build_pool(job(20, **two_sources))
    for number, path in enumerate(sorted((tmp_path / "a").rglob("*.png"))):
        path.rename(tmp_path / "a" / f"moved{99 - number}.png")
    after, _ = build.build_pool(job(20, **two_sources))
    assert [row["image_id"] for row in before] == [row["image_id"] for row in after]
    assert all(sha256_file(row["path"]) == row["image_id"] for row in after)
    other, _ = build.build_pool(job(20, seed=1, **two_sources))
    assert [row["image_id"] for row in before] != [row["image_id"] for row in other]


def test_a_larger_pool_holds_the_smaller_one(two_sources):
    small = {row["image_id"] for row in build.build_pool(job(9, **two_sources))[0]}
    large = {row["image_id"] for row in build.build_pool(job(30, **two_sources))[0]}
    assert small < large


def test_first_rows_are_a_mixed_subset(two_sources):
    rows, _ = build.build_pool(job(30, **two_sources))
    assert [row["index"] for row in rows] == list(range(30))
    assert {row["source"] for row in rows[:15]} == {"a", "b"}


def test_broken_and_double_files_are_replaced_and_listed(two_sources, tmp_path):
    folder = tmp_path / "b"
    files = sorted(folder.rglob("*.JPEG"))
    truncated, copied = files[0], files[1]
    truncated.write_bytes(truncated.read_bytes()[:-40])
    (folder / "text.jpg").write_bytes(b"no image at all")
    (folder / "copy.jpg").write_bytes(copied.read_bytes())
    (tmp_path / "a" / "copy.jpg").write_bytes(copied.read_bytes())  # the first source in the config keeps it
    out = tmp_path / "pool" / "images.parquet"
    build.main(["--spec", job(20, b=(folder, 1), a=(tmp_path / "a", 1)).model_dump_json(), "--out", str(out)])
    record = read_run_record(out)
    pool = read_table(out, "images")
    assert (pool["source"] == "b").sum() == 10
    assert len(pool) == 20 and pool["image_id"].is_unique
    assert record["sources"]["b"]["files"] == 14 and record["sources"]["b"]["duplicates"] == 1
    assert record["sources"]["a"]["duplicates"] == 1
    assert {case["same_as"] for case in record["duplicates"]} <= {str(copied), str(folder / "copy.jpg")}
    listed = {case["path"] for case in record["unreadable"]}
    assert listed <= {str(truncated), str(folder / "text.jpg")}
    assert not listed & set(pool["path"])
    everything = job(11, b=(folder, 1))
    rows, facts = build.build_pool(everything)  # takes all that is sound, so both broken files came up
    assert len(rows) == 11 and {case["path"] for case in facts["unreadable"]} <= {
        str(truncated),
        str(folder / "text.jpg"),
    }
    with pytest.raises(UserError, match=r"pool.sources.b: 14 files, 1 duplicates, 2 unreadable, 12 asked, 11 sampled"):
        build.build_pool(job(12, b=(folder, 1)))


def test_sources_of_later_versions_and_mistakes_are_named(tmp_path):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "00000.tar").write_bytes(b"")
    with pytest.raises(NotInThisVersion, match=r"pool.sources.web.path.*00000.tar"):
        build.build_pool(job(1, web=(tmp_path / "shards", 1)))
    (tmp_path / "urls.parquet").write_bytes(b"")
    with pytest.raises(NotInThisVersion, match=r"urls.parquet is an archive"):
        build.build_pool(job(1, web=(tmp_path / "urls.parquet", 1)))
    with pytest.raises(UserError, match=r"pool.sources.web.path: no such folder"):
        build.build_pool(job(1, web=(tmp_path / "nowhere", 1)))
