"""Instances from raw outputs, against the closed form where masks are constant in parts."""

import numpy as np
import pytest
import torch

from workflow_scripts.benchmarks.generation.mask2former import MAX_INSTANCES, box_of, instances


def _logits(probabilities):
    return torch.tensor(probabilities).log()


def test_scores_are_class_times_mean_mask_probability():
    masks = torch.full((2, 4, 4), -2.0)
    masks[0, :, :2] = 1.5  # the left half
    masks[1] = 0.5  # all of it: they overlap
    classes = _logits([[0.7, 0.1, 0.2], [0.25, 0.5, 0.25]])
    found = instances(classes, masks, (4, 4), (4, 4), (4, 4), ["cow", "cup"])
    sure, unsure = torch.sigmoid(torch.tensor([1.5, 0.5])).tolist()
    expected = sorted(
        [("cow", 0.7 * sure, (0, 0, 2, 4)), ("cup", 0.1 * sure, (0, 0, 2, 4)),
         ("cow", 0.25 * unsure, (0, 0, 4, 4)), ("cup", 0.5 * unsure, (0, 0, 4, 4))],
        key=lambda row: -row[1],
    )  # fmt: skip
    assert [(d.label, d.box) for d in found] == [(label, box) for label, _, box in expected]
    assert [d.score for d in found] == pytest.approx([score for _, score, _ in expected], rel=1e-5)
    assert found[0].mask.sum() == 8 and found[0].mask.dtype == bool


def test_padding_is_cut_off_before_the_picture_gets_its_size():
    masks = torch.full((1, 8, 8), -9.0)
    masks[0, :4, 4:] = 9.0  # the upper right quarter of what the model saw, half of which is padding
    found = instances(_logits([[0.9, 0.1]]), masks, (32, 32), (32, 24), (64, 48), ["cow"])
    assert found[0].mask.shape == (64, 48)
    assert np.abs(np.array(found[0].box) - (32, 0, 48, 32)).max() <= 1


def test_an_empty_mask_scores_nothing_and_there_are_at_most_a_hundred():
    (empty,) = instances(_logits([[0.9, 0.1]]), torch.full((1, 2, 2), -1.0), (2, 2), (2, 2), (2, 2), ["cow"])
    assert (empty.score, empty.box) == (0.0, (0.0, 0.0, 0.0, 0.0))
    many = instances(torch.zeros(60, 4), torch.ones(60, 2, 2), (2, 2), (2, 2), (2, 2), ["a", "b", "c"])
    assert len(many) == MAX_INSTANCES


def test_boxes_end_outside_the_mask():
    mask = np.zeros((5, 6), bool)
    mask[1:3, 2:5] = True
    assert box_of(mask) == (2.0, 1.0, 5.0, 3.0)
