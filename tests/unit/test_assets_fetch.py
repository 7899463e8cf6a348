"""Fetching from a test double of the hub: what arrives, what is refused, what a user reads when it fails."""

import hashlib
import io
import json
import logging
from types import SimpleNamespace

import pytest
import yaml
from hub_double import HubDouble, Repo
from huggingface_hub import constants

from workflow_scripts.assets import fetch, hub, lock, verify
from workflow_scripts.assets.lockfile import FileFacts, Locked, read_lock, write_lock
from workflow_scripts.engines.weights import weights_fingerprint
from workflow_scripts.errors import UserError
from workflow_scripts.model_folders import local_folder
from workflow_scripts.spec import Source

WEIGHTS = bytes(range(256)) * 8000  # 2 MB
MODEL = {
    "config.json": b'{"model_type": "tiny"}',
    "model.safetensors": WEIGHTS,
    "tokenizer.model": b"pieces",
    "LICENSE": b"terms",
    "README.md": b"# Tiny",
    ".gitattributes": b"*.bin lfs",
    "modeling_tiny.py": b"print('ran')",
    "pytorch_model.bin": b"a pickle",
    "tf_model.h5": b"hdf",
    "flax_model.msgpack": b"flax",
    "tiny-q4.gguf": b"gguf",
    "training_args.pt": b"a pickle",
    "deep/adapter.safetensors": b"adapter",
}
SAFE = {"config.json", "model.safetensors", "tokenizer.model", "LICENSE", "README.md", "deep/adapter.safetensors"}


@pytest.fixture
def double(monkeypatch):
    server = HubDouble()
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "FIRST_WAIT", 0.0)
    yield server
    server.close()


@pytest.fixture
def tiny(double):
    """A model on the hub, and its newest commit."""
    double.repos["owner/tiny"] = repo = Repo()
    return repo, repo.push(MODEL)


class Place:
    """Where one test fetches to."""

    def __init__(self, path):
        self.folder, self.out, self.lock = path / "owner--tiny", path / "owner--tiny.json", path / "assets.lock.yaml"

    def fetch(self, *more, **spec):
        spec = {"hub": "owner/tiny", **spec}
        places = ["--folder", str(self.folder), "--out", str(self.out), "--lock", str(self.lock)]
        fetch.main(["--spec", json.dumps(spec), *places, *more])
        return json.loads(self.out.read_text())

    def pin(self, kind="model", revision="main"):
        """Write the lock; the commit."""
        repositories = [["owner/tiny", kind, revision]]
        lock.main(["--spec", json.dumps({"repositories": repositories}), "--out", str(self.lock)])
        return read_lock(self.lock)["owner/tiny"].commit

    def files(self):
        found = {p.relative_to(self.folder).as_posix(): p for p in self.folder.rglob("*") if p.is_file()}
        return {name: path.read_bytes() for name, path in found.items() if not name.startswith(".cache/")}


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_a_model_arrives_whole_without_what_could_run(tiny, place, caplog):
    caplog.set_level(logging.INFO)
    manifest = place.fetch("--licence", "mit")
    assert place.files() == {name: MODEL[name] for name in SAFE} and not (place.folder / ".cache").exists()
    assert {key: manifest[key] for key in ("hub", "kind", "revision", "licence")} == {
        "hub": "owner/tiny",
        "kind": "model",
        "revision": tiny[1],
        "licence": "mit",
    }
    assert manifest["files"] == {
        name: {"size": len(MODEL[name]), "sha256": hashlib.sha256(MODEL[name]).hexdigest()} for name in sorted(SAFE)
    }
    left_out = next(line for line in caplog.messages if "left out" in line)
    assert all(name in left_out for name in MODEL.keys() - SAFE)
    assert f"NOT PINNED, main is {tiny[1]} today" in caplog.text


def test_a_data_set_is_another_kind_and_brings_no_code(double, place):
    double.repos["owner/tiny"] = repo = Repo(kind="dataset")
    repo.push({"data/test.parquet": b"rows", "image/1.jpg": b"jpeg", "tiny.py": b"code", "cache.pkl": b"pickle"})
    assert place.fetch(kind="dataset")["files"].keys() == {"data/test.parquet", "image/1.jpg"}
    with pytest.raises(UserError, match=r"owner/tiny: no such model at .*look at name and `kind`"):
        place.fetch(kind="model")


def test_patterns_choose(tiny, place):
    assert place.fetch(files=["*.json", "deep/*"])["files"].keys() == {"config.json", "deep/adapter.safetensors"}
    with pytest.raises(
        UserError, match=r"no file fits 'model.safetensor' of `files`, did you mean 'model.safetensors'"
    ):
        place.fetch(files=["model.safetensor"])


def test_code_comes_along_only_at_the_commit_that_was_opted_in_to(tiny, place):
    repo, commit = tiny
    assert "modeling_tiny.py" in place.fetch(revision=commit, remote_code=commit)["files"]
    repo.push(MODEL | {"modeling_tiny.py": b"print('worse')"})
    with pytest.raises(UserError, match=f"remote_code opts in to {commit}, main is "):
        place.fetch(revision="main", remote_code=commit)
    assert "modeling_tiny.py" not in place.fetch(revision=commit)["files"]
    assert "modeling_tiny.py" not in place.files()


def test_a_model_of_pickles_names_them(double, place):
    double.repos["owner/tiny"] = repo = Repo()
    repo.push({"config.json": b"{}", "pytorch_model-00001-of-00001.bin": b"a pickle"})
    with pytest.raises(UserError, match=r"no weights in safetensors; name .*: pytorch_model-00001-of-00001.bin"):
        place.fetch()
    assert not place.out.exists()


def test_a_broken_transfer_goes_on_where_it_broke(tiny, double, place, monkeypatch):
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    double.break_after["model.safetensors"] = [500_000, 700_000]
    place.fetch()
    assert place.files()["model.safetensors"] == WEIGHTS
    assert len(double.ranges) == 2 and all(int(text[6:-1]) > 0 for text in double.ranges)


def test_a_killed_run_fetches_only_what_it_had_not_finished(tiny, double, place):
    place.fetch()
    place.out.unlink()
    (place.folder / "model.safetensors").unlink()
    leftover = place.folder / ".cache/huggingface/download/xyz.incomplete"
    leftover.parent.mkdir(parents=True)
    leftover.write_bytes(b"half")
    double.log.clear()
    place.fetch()
    assert double.downloads() == ["model.safetensors"] and not leftover.exists()


def test_faults_that_pass_are_tried_again(tiny, double, place):
    double.statuses = [503, 500, 429]
    assert place.fetch()["revision"] == tiny[1]


def test_what_is_not_the_locked_content_is_refused_and_removed(tiny, double, place):
    commit = place.pin()
    double.corrupt = {"model.safetensors", "config.json"}
    with pytest.raises(UserError, match=r"not the size or checksum expected, removed: config\.json, model\.saf"):
        place.fetch(commit=commit)
    assert place.files().keys() == SAFE - double.corrupt and not place.out.exists()
    double.corrupt = set()
    assert place.fetch(commit=commit)["files"].keys() == SAFE


def test_a_lock_without_the_commit_is_refused(tiny, place):
    place.pin()
    with pytest.raises(UserError, match=r"assets.lock.yaml does not pin it to 00000"):
        place.fetch(commit="0" * 40)


def test_a_new_lock_fetches_only_what_changed(tiny, double, place):
    repo, _ = tiny
    place.fetch(commit=place.pin())
    without = {name: content for name, content in MODEL.items() if name != "tokenizer.model"}
    new = repo.push(without | {"config.json": b'{"model_type": "TINY"}', "README.md": b"# Tiny, better"})
    assert place.pin() == new
    double.log.clear()
    assert place.fetch(commit=new)["revision"] == new
    assert double.downloads() == ["README.md", "config.json"]
    assert place.files().keys() == SAFE - {"tokenizer.model"}


def test_pinning_what_is_there_leaves_the_manifest_as_it_is(tiny, double, place):
    """So that no stage reruns for it: Snakemake compares the manifest's content."""
    place.fetch()
    before = place.out.read_bytes()
    commit = place.pin()
    double.log.clear()
    place.fetch(commit=commit)
    assert place.out.read_bytes() == before and double.log == []


def test_the_lock_holds_commit_sizes_and_checksums(tiny, place):
    commit = tiny[1]
    place.pin()
    entry = yaml.safe_load(place.lock.read_text())["owner/tiny"]
    assert entry["commit"] == commit and entry["revision"] == "main" and entry["files"].keys() == MODEL.keys()
    assert entry["files"]["model.safetensors"] == {"size": len(WEIGHTS), "sha256": hashlib.sha256(WEIGHTS).hexdigest()}
    # git hash-object on a file that holds `terms`
    assert entry["files"]["LICENSE"] == {"size": 5, "git_sha1": "dce33425212c36f35ed867cd4496525b56f38961"}


def test_a_lock_is_written_whole_or_stays(tiny, double, place):
    place.pin()
    before = place.lock.read_text()
    repositories = [["owner/tiny", "model", "v2"], ["owner/gone", "model", "main"]]
    with pytest.raises(UserError) as caught:
        lock.main(["--spec", json.dumps({"repositories": repositories}), "--out", str(place.lock)])
    assert "stays as it is, 2 repositories" in str(caught.value)
    assert "owner/tiny has no branch, tag or commit 'v2'" in str(caught.value)
    assert "owner/gone: no such model" in str(caught.value) and place.lock.read_text() == before


def test_a_lock_keeps_the_repositories_of_other_sweeps(tiny, double, place):
    double.repos["owner/other"] = other = Repo(kind="dataset")
    other.push({"a.json": b"1"})
    place.pin()
    lock.main(["--spec", '{"repositories": [["owner/other", "dataset", "main"]]}', "--out", str(place.lock)])
    assert read_lock(place.lock).keys() == {"owner/tiny", "owner/other"}


def test_offline_names_asset_command_and_config_key(tiny, double, place, monkeypatch):
    commit = place.pin()
    double.close()
    with pytest.raises(UserError) as caught:
        place.fetch("--used-by", "captioners.tiny.model capeval.judge.model", commit=commit)
    text = str(caught.value)
    assert "owner/tiny is not here, and http://127.0.0.1:" in text and "cannot be reached (ConnectError)" in text
    assert f"snakemake {place.out}" in text
    assert "captioners.tiny.model.path or capeval.judge.model.path" in text
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="owner/tiny is not here, and HF_HUB_OFFLINE forbids to fetch it"):
        place.fetch(commit=commit)
    assert not place.out.exists()


def test_a_copied_folder_needs_no_network(tiny, double, place):
    commit = place.pin()
    place.folder.mkdir()
    for name in SAFE:
        (place.folder / name).parent.mkdir(exist_ok=True)
        (place.folder / name).write_bytes(MODEL[name])
    double.close()
    assert place.fetch(commit=commit)["files"].keys() == SAFE


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (
            (401, "GatedRepo"),
            r"owner/tiny is gated \(401\): accept its terms at .*/owner/tiny, then log in with `hf auth",
        ),
        ((403, "GatedRepo"), r"owner/tiny is gated \(403\)"),
        ((403, None), r"the hub refuses \(403\).*HF_TOKEN"),
        ((401, "RepoNotFound"), r"no such model .* if it is private, log in"),
    ],
)
def test_refusals_say_how_to_get_in_and_never_the_token(tiny, place, monkeypatch, caplog, refusal, text):
    monkeypatch.setenv("HF_TOKEN", "hf_notToBeSeen")
    tiny[0].refusal = refusal
    with pytest.raises(UserError, match=text) as caught:
        place.fetch()
    assert "hf_notToBeSeen" not in str(caught.value) + caplog.text


def test_a_gate_before_files_alone(tiny, place):
    """The hub lists a gated repository to everybody and refuses its files."""
    commit = place.pin()
    tiny[0].refusal = (403, "GatedRepo")
    with pytest.raises(UserError, match="owner/tiny is gated"):
        place.fetch(commit=commit)


def test_no_room_is_told_before_anything_is_fetched(tiny, double, place, monkeypatch):
    huge = FileFacts(size=80_000_000_000, sha256="0" * 64)
    locked = Locked(kind="model", revision="main", commit=tiny[1], files={"model.safetensors": huge})
    write_lock(place.lock, {"owner/tiny": locked})
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=12_345_678_900))
    with pytest.raises(UserError, match=r"owner/tiny: needs 80.0 GB, 12.3 GB are free at .*owner--tiny"):
        place.fetch(commit=tiny[1])
    assert double.downloads() == []


def test_changed_files_are_found_by_size_and_by_content(tiny, place):
    place.fetch()
    verify.main([str(place.out), "--sha256"])
    (place.folder / "LICENSE").write_bytes(b"TERMS")
    verify.main([str(place.out)])
    with pytest.raises(UserError, match=r"1 files are not what was fetched\n  .*LICENSE has other contents"):
        verify.main([str(place.out), "--sha256"])
    (place.folder / "LICENSE").write_bytes(b"more terms")
    (place.folder / "config.json").unlink()
    with pytest.raises(UserError, match=r"LICENSE has 10 bytes, 5 were fetched, 2 files so: remove .*owner--tiny.json"):
        local_folder(Source(path=place.folder))
    with pytest.raises(UserError, match=r"LICENSE has 10 bytes"):
        weights_fingerprint(place.folder)
    with pytest.raises(UserError, match=r"LICENSE has 10 bytes, 5 were fetched\n  .*config.json is absent"):
        verify.main([str(place.out)])


def test_a_named_pickle_arrives_as_safetensors(double, place):
    torch = pytest.importorskip("torch")
    buffer = io.BytesIO()
    torch.save({"0.weight": torch.arange(6.0).reshape(2, 3)}, buffer)
    double.repos["owner/tiny"] = repo = Repo()
    repo.push({"config.json": b"{}", "mm_projector.bin": buffer.getvalue(), "pytorch_model.bin": b"not asked for"})
    manifest = place.fetch(files=["config.json", "mm_projector.bin"])
    assert place.files().keys() == manifest["files"].keys() == {"config.json", "mm_projector.safetensors"}
    made_from = manifest["files"]["mm_projector.safetensors"]["made_from"]
    sha256 = hashlib.sha256(buffer.getvalue()).hexdigest()
    assert made_from == {"name": "mm_projector.bin", "size": len(buffer.getvalue()), "sha256": sha256}
    verify.main([str(place.out), "--sha256"])
    before = place.out.read_bytes()
    place.fetch(files=["config.json", "mm_projector.bin"])
    assert place.out.read_bytes() == before
