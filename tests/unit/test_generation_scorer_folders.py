"""What opening the models behind the generation scores says of a folder that holds something else."""

import json
import shutil

import pytest
import tiny_scorers
from opened_scorers import ASK, CLASSES, PICTURES, TINY, flat
from safetensors.torch import load_file, save_file

from workflow_scripts.benchmarks.generation.models import (
    blip,
    clip,
    dpt,
    mask2former,
)
from workflow_scripts.errors import UserError
from workflow_scripts.spec import ScorerModel


def changed(folder, tmp_path, edit):
    """A copy of a folder with another config."""
    shutil.copytree(folder, tmp_path / "changed")
    path = tmp_path / "changed/config.json"
    config = json.loads(path.read_text())
    edit(config)
    path.write_text(json.dumps(config))
    return tmp_path / "changed"


@pytest.mark.parametrize("role", list(TINY))
def test_a_folder_that_is_absent_or_holds_something_else_is_named(scorer_folders, tmp_path, role):
    def fault(folder):
        with pytest.raises(UserError) as caught:
            CLASSES[role](ScorerModel(through=TINY[role][0], path=folder), 4)
        return str(caught.value)

    assert f"{tmp_path / 'absent'}: no such folder of a model" in fault(tmp_path / "absent")
    assert f"{tmp_path}: holds no model, expected" in fault(tmp_path)
    other = scorer_folders["depth" if role != "depth" else "colors"]
    assert f"{other}: holds a model of type {'dpt' if role != 'depth' else 'clip'!r}, expected" in fault(other)
    copy = changed(scorer_folders[role], tmp_path, lambda config: None)
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    assert "holds no .safetensors file" in fault(copy)


def test_a_checkpoint_that_lacks_weights_is_refused(scorer_folders, tmp_path):
    folder = changed(scorer_folders["similarity"], tmp_path, lambda c: c["vision_config"].update(num_hidden_layers=3))
    with pytest.raises(UserError, match=r"the checkpoint lacks \d+ weights, such as vision_model.encoder.layers.2"):
        clip.TextSimilarity(ScorerModel(through="clip", path=folder), 4)


@pytest.mark.parametrize(
    ("role", "unused"),
    [
        ("depth", "neck.fusion_stage.layers.0.residual_layer1."),
        ("instances", "model.pixel_level_module.encoder.swin.layernorm."),
        ("instances", "criterion."),
    ],
)
def test_weights_that_published_checkpoints_lack_are_not_asked_for(scorer_folders, opened, tmp_path, role, unused):
    folder = changed(scorer_folders[role], tmp_path, lambda config: None)
    weights = load_file(folder / "model.safetensors")
    kept = {name: values for name, values in weights.items() if not name.startswith(unused)}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    model = CLASSES[role](ScorerModel(through=TINY[role][0], path=folder), 4)
    assert flat(ASK[role](model, PICTURES[:1])) == flat(ASK[role](opened(role), PICTURES[:1]))


def test_labels_in_another_order_are_refused(tmp_path):
    names = [*mask2former.NAMES]
    names[11], names[74] = names[74], names[11]
    tiny_scorers.build_mask2former(tmp_path, tuple(names), queries=2)
    with pytest.raises(UserError, match=r"class 11 is 'clock', expected COCO's 'stop sign'"):
        mask2former.InstanceDetector(ScorerModel(through="mask2former", path=tmp_path), 4)


def test_other_classes_than_cocos_are_refused(tmp_path):
    tiny_scorers.build_mask2former(tmp_path, tuple(f"thing {number}" for number in range(133)), queries=2)
    with pytest.raises(UserError, match=r"knows 133 classes, expected COCO's 80"):
        mask2former.InstanceDetector(ScorerModel(through="mask2former", path=tmp_path), 4)


def test_a_dpt_that_is_no_hybrid_is_refused(tmp_path):
    tiny_scorers.build_dpt(tmp_path, hybrid=False)
    with pytest.raises(UserError, match=r"is no DPT-hybrid"):
        dpt.DepthEstimator(ScorerModel(through="dpt", path=tmp_path), 4)


def test_a_blip_with_another_vocabulary_is_refused(scorer_folders, tmp_path):
    folder = changed(scorer_folders["attributes"], tmp_path, lambda config: None)
    (folder / "tokenizer.json").unlink()
    words = (folder / "vocab.txt").read_text().split("\n") if (folder / "vocab.txt").is_file() else ["[PAD]", "[UNK]"]
    words = [word for word in words if word not in ("yes", "no")]
    (folder / "vocab.txt").write_text("\n".join(["[UNK]", "[CLS]", "[SEP]", "yes", "no", *words]))
    with pytest.raises(UserError, match=r"its tokens yes and no are not 2748 and 2053"):
        blip.YesProbability(ScorerModel(through="blip", path=folder), 4)
