"""Turn mmdet's Mask2Former, which GenEval's authors use, into a folder for `through: mask2former`.

    python -m workflow_scripts.benchmarks.generation.models.convert_mmdet --checkpoint FILE.pth \\
        --out models/mask2former_swin-s-p4-w7-224_lsj_8x2_50e_coco

FILE is mask2former_swin-s-p4-w7-224_lsj_8x2_50e_coco_20220504_001756-743b7d99.pth of https://download.openmmlab.com/
mmdetection/v2.0/mask2former/mask2former_swin-s-p4-w7-224_lsj_8x2_50e_coco/; torch's weights-only reader opens it. The
folder gets config.json and model.safetensors. Keep its name: by it scores tell that they are made with the authors'
weights.

The sizes are read off the weights. What mmdet orders otherwise than transformers: queries, keys and values are one
matrix, and where patches merge, the four of a channel stand together.
"""

import argparse
import logging
import re
from pathlib import Path
from typing import Any

import torch

from workflow_scripts.benchmarks.generation.models.mask2former import NAMES, UNUSED
from workflow_scripts.command import run
from workflow_scripts.errors import UserError
from workflow_scripts.files import sha256_file

log = logging.getLogger("capsweep")

AUTHORS = "743b7d99"  # how the sha256 of the authors' file begins
LEVELS, POINTS = 3, 4  # of deformable attention
Weights = dict[str, torch.Tensor]

SWIN, DECODER = "model.pixel_level_module.encoder.swin.", "model.pixel_level_module.decoder."
TRANSFORMER = "model.transformer_module."
FEED_FORWARD = {"ffns.0.layers.0.0": "fc1", "ffns.0.layers.1": "fc2"}
# Where a weight lies in mmdet and in transformers, and what it is called there: the first place that fits counts, and
# the first name that it begins with.
PLACES: tuple[tuple[str, str, dict[str, str]], ...] = (
    (
        r"backbone\.stages\.(\d+)\.blocks\.(\d+)\.",
        rf"{SWIN}encoder.layers.\1.blocks.\2.",
        {
            "attn.w_msa.relative_position_bias_table": "attention.relative_position_bias.relative_position_bias_table",
            "attn.w_msa.qkv": "attention.qkv",
            "attn.w_msa.proj": "attention.o_proj",
            "norm1": "layernorm_before",
            "norm2": "layernorm_after",
            "ffn.layers.0.0": "mlp.fc1",
            "ffn.layers.1": "mlp.fc2",
        },
    ),
    (
        r"backbone\.",
        SWIN,
        {
            "patch_embed.projection": "embeddings.patch_embeddings.projection",
            "patch_embed.norm": "embeddings.norm",
            "stages.": "encoder.layers.",  # .downsample
        },
    ),
    (
        r"panoptic_head\.pixel_decoder\.encoder\.layers\.(\d+)\.",
        rf"{DECODER}encoder.layers.\1.",
        {
            "attentions.0": "self_attn",
            "norms.0": "self_attn_layer_norm",
            "norms.1": "final_layer_norm",
            **FEED_FORWARD,
        },
    ),
    (
        r"panoptic_head\.pixel_decoder\.input_convs\.(\d)\.",
        rf"{DECODER}input_projections.\1.",
        {"conv": "0", "gn": "1"},
    ),
    (r"panoptic_head\.pixel_decoder\.lateral_convs\.0\.", f"{DECODER}adapter_1.", {"conv": "0", "gn": "1"}),
    (r"panoptic_head\.pixel_decoder\.output_convs\.0\.", f"{DECODER}layer_1.", {"conv": "0", "gn": "1"}),
    (
        r"panoptic_head\.pixel_decoder\.",
        DECODER,
        {"mask_feature": "mask_projection", "level_encoding.weight": "level_embed"},
    ),
    (
        r"panoptic_head\.transformer_decoder\.layers\.(\d+)\.",
        rf"{TRANSFORMER}decoder.layers.\1.",
        {
            "attentions.0.attn": "cross_attn",
            "attentions.1.attn": "self_attn",
            "norms.0": "cross_attn_layer_norm",
            "norms.1": "self_attn_layer_norm",
            "norms.2": "final_layer_norm",
            **FEED_FORWARD,
        },
    ),
    (r"panoptic_head\.cls_embed", "class_predictor", {"": ""}),
    (
        r"panoptic_head\.",
        TRANSFORMER,
        {
            "transformer_decoder.post_norm": "decoder.layernorm",
            "query_embed": "queries_embedder",
            "query_feat": "queries_features",
            "level_embed": "level_embed",
        },
    ),
)


def convert(weights: Weights) -> Any:
    """Transformers' Mask2Former from mmdet's weights by name. Raises UserError where they are of another model."""
    import transformers

    try:
        config = transformers.Mask2FormerConfig(**_sizes(weights))
    except KeyError as error:
        raise UserError(f"this is no Mask2Former with Swin of mmdet: it has no weights {error}") from None
    model = transformers.Mask2FormerForUniversalSegmentation(config)
    renamed: Weights = {}
    for name, values in weights.items():
        if not name.endswith("relative_position_index"):
            renamed |= _renamed(name, values)
    expected = model.state_dict()
    optional = {name for name in expected if re.search(UNUSED, name)}
    if renamed.keys() != expected.keys() - optional:
        wrong = sorted(renamed.keys() ^ (expected.keys() - optional))
        raise UserError(
            f"this is no Mask2Former with Swin of mmdet: {len(wrong)} weights do not fit, such as {wrong[0]}"
        )
    model.load_state_dict(renamed, strict=False)
    return model


def _sizes(weights: Weights) -> dict[str, Any]:
    """What a config says of sizes."""
    import transformers

    blocks = [re.match(r"backbone\.stages\.(\d).*\.norm1\.weight", name) for name in weights]
    depths = [sum(int(block[1]) == stage for block in blocks if block) for stage in range(4)]
    tables = [
        weights[f"backbone.stages.{stage}.blocks.0.attn.w_msa.relative_position_bias_table"] for stage in range(4)
    ]
    head, encoder = "panoptic_head.", "panoptic_head.pixel_decoder.encoder.layers"
    hidden = weights[f"{head}query_feat.weight"].shape[1]
    offsets = weights[f"{encoder}.0.attentions.0.sampling_offsets.weight"].shape[0]
    return {
        "backbone_config": transformers.SwinConfig(
            embed_dim=weights["backbone.patch_embed.projection.weight"].shape[0],
            depths=depths,
            num_heads=[table.shape[1] for table in tables],
            window_size=(round(tables[0].shape[0] ** 0.5) + 1) // 2,
            out_features=["stage1", "stage2", "stage3", "stage4"],
        ),
        "hidden_dim": hidden,
        "feature_size": hidden,
        "mask_feature_size": weights[f"{head}pixel_decoder.mask_feature.weight"].shape[0],
        "encoder_feedforward_dim": weights[f"{encoder}.0.ffns.0.layers.0.0.weight"].shape[0],
        "dim_feedforward": weights[f"{head}transformer_decoder.layers.0.ffns.0.layers.0.0.weight"].shape[0],
        "encoder_layers": sum(name.startswith(encoder) and name.endswith("norms.0.weight") for name in weights),
        "decoder_layers": 1
        + sum(name.startswith(f"{head}transformer_decoder.") and name.endswith("norms.0.weight") for name in weights),
        "num_attention_heads": offsets // (LEVELS * POINTS * 2),
        "num_queries": weights[f"{head}query_feat.weight"].shape[0],
        "id2label": dict(enumerate(NAMES)),
        "label2id": {name: number for number, name in enumerate(NAMES)},
    }


def _renamed(name: str, values: torch.Tensor) -> Weights:
    """A weight under its name or names in transformers."""
    new = _new_name(name)
    if ".downsample." in new:
        merged = values.unflatten(-1, (-1, 4))[..., [0, 2, 1, 3]]
        return {new: merged.transpose(-1, -2).flatten(-2).contiguous()}
    split = re.fullmatch(r"(.*)\.(?:qkv\.|(?<=self_attn\.)in_proj_)(\w+)", new)
    if split:
        parts = zip("qkv", values.chunk(3), strict=True)
        return {f"{split[1]}.{part}_proj.{split[2]}": one.clone() for part, one in parts}
    return {new: values}


def _new_name(name: str) -> str:
    """A weight's name in transformers; its own where it has none."""
    if found := re.fullmatch(r"backbone\.norm(\d)(\.\w+)", name):
        return f"model.pixel_level_module.encoder.hidden_states_norms.stage{int(found[1]) + 1}{found[2]}"
    if found := re.fullmatch(r"panoptic_head\.mask_embed\.(\d)(\.\w+)", name):
        return f"{TRANSFORMER}decoder.mask_predictor.mask_embedder.{int(found[1]) // 2}.0{found[2]}"
    for pattern, place, parts in PLACES:
        if found := re.match(pattern, name):
            rest = name[found.end() :]
            old = next((part for part in parts if rest.startswith(part)), None)
            return name if old is None else found.expand(place) + parts[old] + rest.removeprefix(old)
    return name


def main(argv: list[str] | None = None) -> None:
    """Convert a checkpoint."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--checkpoint", type=Path, required=True, help="mmdet's file")
    arguments.add_argument("--out", type=Path, required=True, help="folder of the model")
    args = arguments.parse_args(argv)
    try:
        weights = torch.load(args.checkpoint, map_location="cpu", weights_only=True)["state_dict"]
    except Exception as error:  # torch raises many kinds for a pickle that is refused or broken
        raise UserError(f"{args.checkpoint}: holds no weights by name, or more than that ({error})") from None
    if not sha256_file(args.checkpoint).startswith(AUTHORS):
        log.warning("%s is not the authors' file, whose sha256 begins with %s", args.checkpoint, AUTHORS)
    convert(weights).save_pretrained(args.out)


if __name__ == "__main__":
    run(main)
