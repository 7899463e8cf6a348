"""A model's own code: it runs with an opt-in for the commit that was fetched, and not otherwise."""

import shutil

import pytest
import remote_model
import torch
from engine_helpers import ask, engine_job, requests_of
from PIL import Image
from remote_model import COMMIT
from safetensors.torch import load_file, save_file
from told.modeling_told import Tower

from workflow_scripts.engines import transformers
from workflow_scripts.engines.interface import Picture, Request
from workflow_scripts.engines.remote_code import encode_images_alone
from workflow_scripts.errors import UserError
from workflow_scripts.plan import ServingJob
from workflow_scripts.spec import Sampling


@pytest.fixture(autouse=True)
def no_shared_modules(tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))


@pytest.fixture(scope="module")
def fetched(tmp_path_factory):
    return remote_model.build(tmp_path_factory.mktemp("assets") / "told")


@pytest.fixture
def folder(fetched, tmp_path):
    shutil.copytree(fetched, tmp_path / "told")
    shutil.copy(fetched.with_name("told.json"), tmp_path)
    return tmp_path / "told"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    path = tmp_path_factory.mktemp("pictures")
    for index in range(6):
        pixels = torch.randint(0, 256, (2, 2, 3), generator=torch.Generator().manual_seed(index), dtype=torch.uint8)
        Image.fromarray(pixels.numpy()).save(path / f"{index}.png")
    return [Picture(str(index), str(path / f"{index}.png")) for index in range(6)]


def engine(folder, commit=COMMIT):
    return transformers.Engine(
        engine_job("transformers", model={"path": str(folder)}, remote_code=commit), ServingJob(), []
    )


def test_with_the_opt_in_captions_do_not_depend_on_the_batch(folder, pictures):
    made = engine(folder)
    together = ask(made, requests_of(pictures))
    assert together == [ask(made, requests_of([picture]))[0] for picture in pictures]
    assert len({answer.text for answer in together}) > 1  # the image is seen
    assert all(answer.error is None for answer in together)
    (answer,) = ask(made, [Request(0, "describe", 6, Sampling())])
    assert answer.num_tokens == 6 or answer.finish_reason == "stop"


def test_the_towers_flaw_is_gone_where_images_are_encoded_alone():
    model = torch.nn.Module()
    model.visual = Tower(5)
    patches, grid = torch.randn(10, 3), torch.tensor([[1, 2, 2], [1, 1, 2], [1, 2, 2]])
    expected = model.visual.embed(patches)
    flawed = model.visual(patches, grid_thw=grid)
    assert torch.equal(flawed[:4], expected[:4]) and torch.equal(flawed[5], expected[4])  # shifted by one
    assert encode_images_alone(model)
    assert torch.allclose(model.visual(patches, grid_thw=grid), expected)


def test_other_towers_get_one_request_at_a_time(folder, pictures):
    code = folder / "modeling_told.py"
    code.write_text(code.read_text().replace("visual", "sight"))
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    save_file({key.replace("visual", "sight"): value for key, value in tensors.items()}, weights, {"format": "pt"})
    remote_model.write_manifest(folder)
    made = engine(folder)
    assert made.room() == 1
    together = ask(made, requests_of(pictures))
    assert together == [ask(made, requests_of([picture]))[0] for picture in pictures]


def test_without_the_opt_in_nothing_of_it_runs(folder):
    (folder / "modeling_told.py").write_text("raise AssertionError('it ran')")
    with pytest.raises(UserError, match=r"needs Python code from its own repository.*`remote_code: <its 40-digit"):
        engine(folder, commit=None)


def test_only_the_commit_that_was_fetched_runs(folder):
    with pytest.raises(UserError, match=r"opts in to the code of commit 0{40}, the files are those of (c0ffee){6}c0de"):
        engine(folder, commit="0" * 40)
    folder.with_name("told.json").unlink()
    with pytest.raises(UserError, match=r"no manifest .*told.json says at which commit"):
        engine(folder)


def test_code_that_was_not_fetched_does_not_run(folder):
    code = folder / "modeling_told.py"
    text = code.read_text()
    code.write_text(text + "# edited since\n")
    with pytest.raises(UserError, match=rf"modeling_told.py: is not what commit {COMMIT} has there"):
        engine(folder)
    code.write_text(text)
    (folder / "helper.py").write_text("")
    with pytest.raises(UserError, match=r"helper.py: is not what commit"):
        engine(folder)


def test_code_of_another_repository_does_not_run(folder):
    remote_model.edit(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": [None, "other/code--tok.Tok"]})
    remote_model.write_manifest(folder)
    with pytest.raises(UserError, match=r"tokenizer_config.json: takes code from another repository, other/code--tok"):
        engine(folder)


def test_code_for_another_transformers_says_so(folder):
    code = folder / "modeling_told.py"
    code.write_text(code.read_text() + "\nfrom transformers import NoSuchClass\n")
    remote_model.write_manifest(folder)
    with pytest.raises(UserError, match=r"its own code fails under Transformers \d.*NoSuchClass.*envs/remote.txt"):
        engine(folder)
