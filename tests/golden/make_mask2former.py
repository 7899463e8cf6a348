"""Make a tiny Mask2Former under mmdet's names, and pictures, on which GenEval's detector is compared with mmdet.

    python tests/golden/make_mask2former.py FOLDER

writes checkpoint.pth and the pictures to FOLDER. mask2former.json holds what mmdet 2.28.2's `inference_detector` finds
with the config that GenEval names, its sizes set to the tiny ones: class, score, and box of its best detections of each
picture. It was run in a folder of its own with mmcv 1.7.2, whose deformable attention has a version in plain PyTorch.
"""

import sys
import zlib
from pathlib import Path

import numpy as np
import torch
from PIL import Image

EMBED, DEPTHS, HEADS, WINDOW = 32, (2, 2, 2, 2), (1, 2, 4, 8), 7
HIDDEN, ENCODER, DECODER, ENCODER_WIDTH, DECODER_WIDTH, QUERIES, CLASSES = 32, 2, 3, 48, 40, 12, 80
ATTENTION = 4  # heads


def shapes() -> dict[str, tuple[int, ...]]:
    """Every weight's shape by mmdet's name."""
    found: dict[str, tuple[int, ...]] = {}

    def add(name: str, *shape: int, bias: bool = True) -> None:
        found[f"{name}.weight"] = shape
        if bias:
            found[f"{name}.bias"] = shape[:1]

    add("backbone.patch_embed.projection", EMBED, 3, 4, 4)
    add("backbone.patch_embed.norm", EMBED)
    for stage, depth in enumerate(DEPTHS):
        width = EMBED * 2**stage
        for block in range(depth):
            place = f"backbone.stages.{stage}.blocks.{block}"
            add(f"{place}.norm1", width)
            found[f"{place}.attn.w_msa.relative_position_bias_table"] = ((2 * WINDOW - 1) ** 2, HEADS[stage])
            add(f"{place}.attn.w_msa.qkv", 3 * width, width)
            add(f"{place}.attn.w_msa.proj", width, width)
            add(f"{place}.norm2", width)
            add(f"{place}.ffn.layers.0.0", 4 * width, width)
            add(f"{place}.ffn.layers.1", width, 4 * width)
        if stage < 3:
            add(f"backbone.stages.{stage}.downsample.norm", 4 * width)
            add(f"backbone.stages.{stage}.downsample.reduction", 2 * width, 4 * width, bias=False)
        add(f"backbone.norm{stage}", width)
    head = "panoptic_head"
    for level in range(3):
        add(f"{head}.pixel_decoder.input_convs.{level}.conv", HIDDEN, EMBED * 2 ** (3 - level), 1, 1)
        add(f"{head}.pixel_decoder.input_convs.{level}.gn", HIDDEN)
    for layer in range(ENCODER):
        place = f"{head}.pixel_decoder.encoder.layers.{layer}"
        add(f"{place}.attentions.0.sampling_offsets", ATTENTION * 3 * 4 * 2, HIDDEN)
        add(f"{place}.attentions.0.attention_weights", ATTENTION * 3 * 4, HIDDEN)
        add(f"{place}.attentions.0.value_proj", HIDDEN, HIDDEN)
        add(f"{place}.attentions.0.output_proj", HIDDEN, HIDDEN)
        _add_rest(add, place, 2, ENCODER_WIDTH)
    found[f"{head}.pixel_decoder.level_encoding.weight"] = (3, HIDDEN)
    add(f"{head}.pixel_decoder.lateral_convs.0.conv", HIDDEN, EMBED, 1, 1, bias=False)
    add(f"{head}.pixel_decoder.lateral_convs.0.gn", HIDDEN)
    add(f"{head}.pixel_decoder.output_convs.0.conv", HIDDEN, HIDDEN, 3, 3, bias=False)
    add(f"{head}.pixel_decoder.output_convs.0.gn", HIDDEN)
    add(f"{head}.pixel_decoder.mask_feature", HIDDEN, HIDDEN, 1, 1)
    for layer in range(DECODER):
        place = f"{head}.transformer_decoder.layers.{layer}"
        for attention in range(2):
            found[f"{place}.attentions.{attention}.attn.in_proj_weight"] = (3 * HIDDEN, HIDDEN)
            found[f"{place}.attentions.{attention}.attn.in_proj_bias"] = (3 * HIDDEN,)
            add(f"{place}.attentions.{attention}.attn.out_proj", HIDDEN, HIDDEN)
        _add_rest(add, place, 3, DECODER_WIDTH)
    add(f"{head}.transformer_decoder.post_norm", HIDDEN)
    for name, rows in (("query_embed", QUERIES), ("query_feat", QUERIES), ("level_embed", 3)):
        found[f"{head}.{name}.weight"] = (rows, HIDDEN)
    add(f"{head}.cls_embed", CLASSES + 1, HIDDEN)
    for layer in (0, 2, 4):
        add(f"{head}.mask_embed.{layer}", HIDDEN, HIDDEN)
    return found


def _add_rest(add, place: str, norms: int, width: int) -> None:
    """The feed-forward network and the norms of a layer."""
    add(f"{place}.ffns.0.layers.0.0", width, HIDDEN)
    add(f"{place}.ffns.0.layers.1", HIDDEN, width)
    for norm in range(norms):
        add(f"{place}.norms.{norm}", HIDDEN)


def weights() -> dict[str, torch.Tensor]:
    """Values that depend on the names alone; large enough that pictures make a difference."""
    made = {}
    for name, shape in shapes().items():
        values = np.random.default_rng(zlib.crc32(name.encode())).normal(size=shape)
        if len(shape) == 1:
            is_gain = name.endswith("weight")
            values = is_gain + 0.1 * values
        elif not any(part in name for part in ("query_", "level_")):
            values *= (3.0 if "_embed" in name else 1.5) / np.prod(shape[1:]) ** 0.5
        made[name] = torch.tensor(values, dtype=torch.float32)
    return made


def pictures() -> list[Image.Image]:
    """A square and a wide one that are made smaller, and one that is enlarged."""
    rng = np.random.default_rng(11)
    found = []
    for height, width, cell in ((1024, 1024, 128), (1000, 1500, 125), (96, 160, 8)):
        cells = rng.integers(0, 256, (height // cell, width // cell, 3), dtype=np.uint8)
        found.append(Image.fromarray(cells.repeat(cell, axis=0).repeat(cell, axis=1)))
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    torch.save({"state_dict": weights(), "meta": {}}, folder / "checkpoint.pth")
    for number, picture in enumerate(pictures()):
        picture.save(folder / f"{number}.png")
