"""GenEval's detector against mmdet's `inference_detector` with the same weights (see make_mask2former.py)."""

import json
from pathlib import Path

import pytest
import torch

from tests.golden import make_mask2former as made
from workflow_scripts.benchmarks.generation.models import convert_mmdet
from workflow_scripts.benchmarks.generation.models.mask2former import NAMES, InstanceDetector
from workflow_scripts.errors import UserError
from workflow_scripts.spec import ScorerModel

GOLDEN = json.loads((Path(__file__).parent / "mask2former.json").read_text())
# OpenCV's pixels are met exactly where a picture is made smaller, and but for one of 255 in a thousandth of them where
# it is enlarged.
TOLERANCES = (2e-6, 2e-6, 2e-3)


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mmdet")
    torch.save({"state_dict": made.weights(), "meta": {"CLASSES": NAMES}}, folder / "checkpoint.pth")
    convert_mmdet.main(["--checkpoint", str(folder / "checkpoint.pth"), "--out", str(folder / "converted")])
    return InstanceDetector(ScorerModel(through="mask2former", path=folder / "converted"), 4)


@pytest.mark.parametrize("number", range(3))
def test_detections_are_mmdets(detector, number):
    (found,) = detector.detect([made.pictures()[number]])
    tolerance = TOLERANCES[number]
    assert len(found) == 100
    for detection, (label, score, box, area) in zip(found, GOLDEN[number], strict=False):
        assert (NAMES.index(detection.label), detection.score) == (label, pytest.approx(score, abs=tolerance))
        assert list(detection.box) == box and detection.mask.sum() == pytest.approx(area, rel=20 * tolerance)


def test_another_checkpoint_is_refused(tmp_path):
    weights = made.weights()
    path = tmp_path / "checkpoint.pth"
    for changed, fault in (
        ({"another": torch.zeros(1)}, "no Mask2Former with Swin of mmdet: it has no weights"),
        (weights | {"roi_head.weight": torch.zeros(1)}, "1 weights do not fit, such as roi_head.weight"),
    ):
        torch.save({"state_dict": changed}, path)
        with pytest.raises(UserError, match=fault):
            convert_mmdet.main(["--checkpoint", str(path), "--out", str(tmp_path / "out")])
    path.write_bytes(b"not a pickle")
    with pytest.raises(UserError, match=r"holds no weights by name"):
        convert_mmdet.main(["--checkpoint", str(path), "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_the_authors_is_told(tmp_path, caplog):
    torch.save({"state_dict": made.weights()}, tmp_path / "checkpoint.pth")
    convert_mmdet.main(["--checkpoint", str(tmp_path / "checkpoint.pth"), "--out", str(tmp_path / "out")])
    assert "is not the authors' file, whose sha256 begins with 743b7d99" in caplog.text
