"""Tiny random checkpoints of the classes behind the generation scores, as transformers writes them."""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.models.clip.configuration_clip import CLIPConfig
from transformers.models.owlv2.configuration_owlv2 import Owlv2Config

from workflow_scripts.benchmarks.generation.models.blip import ENCODE, NO, YES
from workflow_scripts.benchmarks.generation.models.mask2former import NAMES, SYNONYMS

_TOWER = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}


def build_mask2former(folder: Path, labels: tuple[str, ...] | None = None, queries: int = 12) -> Path:
    """Swin with two blocks a stage; the labels are those of transformers' label files."""
    labels = labels or tuple(SYNONYMS.get(name, name) for name in NAMES)
    swin = transformers.SwinConfig(
        embed_dim=16,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 1, 1],
        window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    config = transformers.Mask2FormerConfig(
        backbone_config=swin,
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        encoder_feedforward_dim=32,
        dim_feedforward=32,
        encoder_layers=1,
        decoder_layers=2,
        num_attention_heads=2,
        num_queries=queries,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
    )
    return _save(folder, transformers.Mask2FormerForUniversalSegmentation, config)


def build_clip(folder: Path, side: int = 32) -> Path:
    """CLIP that sees squares of `side` pixels."""
    config = CLIPConfig(
        text_config={**_TOWER, **_text(), "projection_dim": 32},
        vision_config={**_TOWER, "image_size": side, "patch_size": 8, "projection_dim": 32},
        projection_dim=32,
    )
    save_clip_tokenizer(folder, config.text_config.max_position_embeddings)
    return _save(folder, transformers.CLIPModel, config)


def build_blip(folder: Path, side: int = 96) -> Path:
    """BLIP-VQA whose positions are for `side` pixels, with the real one's number of tokens."""
    config = transformers.BlipConfig(
        text_config={
            **_TOWER,
            "encoder_hidden_size": 32,
            "vocab_size": ENCODE + 1,
            "max_position_embeddings": 64,
            "bos_token_id": 30522,
        },
        vision_config={**_TOWER, "image_size": side, "patch_size": 32},
        projection_dim=32,
    )
    tokens = [f"[unused{number}]" for number in range(30522)]
    words = [
        "a",
        "an",
        "red",
        "blue",
        "green",
        "stop",
        "sign",
        "clock",
        "elephant",
        "apple",
        "is",
        "there",
        "the",
        "of",
        "on",
        "top",
    ]
    tokens[0], tokens[100:104] = "[PAD]", ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens[1029], tokens[1012], tokens[YES], tokens[NO] = "?", ".", "yes", "no"
    tokens[4000 : 4000 + len(words)] = words
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return _save(folder, transformers.BlipForQuestionAnswering, config, loud=5)


def build_dpt(folder: Path, hybrid: bool = True) -> Path:
    """DPT with a small ResNet below its transformer, as DPT-hybrid."""
    bit = {
        "global_padding": "same",
        "layer_type": "bottleneck",
        "depths": [1, 1, 1],
        "hidden_sizes": [16, 16, 32],
        "embedding_size": 8,
        "num_groups": 4,
        "out_features": ["stage1", "stage2", "stage3"],
        "embedding_dynamic_padding": True,
    }
    common = {**_TOWER, "num_hidden_layers": 4, "image_size": 64, "patch_size": 16, "fusion_hidden_size": 16}
    if not hybrid:
        config = transformers.DPTConfig(**common, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 16, 16])
        return _save(folder, transformers.DPTForDepthEstimation, config)
    config = transformers.DPTConfig(
        **common,
        is_hybrid=True,
        backbone_config=transformers.BitConfig(**bit),
        backbone_featmap_shape=[1, 32, 4, 4],
        neck_hidden_sizes=[16, 16, 16, 16],
        neck_ignore_stages=[0, 1],
        reassemble_factors=[1, 1, 1, 0.5],
        backbone_out_indices=[0, 1, 2, 3],
        readout_type="project",
    )
    return _save(folder, transformers.DPTForDepthEstimation, config)


def build_owlv2(folder: Path) -> Path:
    """OWLv2 that sees squares of 96 pixels, 16 x 16 a place."""
    config = Owlv2Config(
        text_config={**_TOWER, **_text(), "max_position_embeddings": 16},
        vision_config={**_TOWER, "image_size": 96, "patch_size": 16},
        projection_dim=32,
    )
    save_clip_tokenizer(folder, 16)
    return _save(folder, transformers.Owlv2ForObjectDetection, config)


def save_clip_tokenizer(folder: Path, longest: int) -> None:
    """CLIP's tokenizer of single letters; the marks stand where the real ones are in order: last."""
    letters = [chr(number) for number in range(33, 127)]
    vocabulary = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(vocabulary)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    tokenizer = transformers.CLIPTokenizerFast(
        str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=longest
    )
    tokenizer.save_pretrained(folder)


def _text() -> dict[str, int]:
    return {"vocab_size": 190, "bos_token_id": 188, "eos_token_id": 189, "pad_token_id": 189}


def _save(folder: Path, model_class: Any, config: Any, loud: float = 1.5) -> Path:
    """Weights that depend on their names alone: large enough that pictures and texts make a difference."""
    model = model_class(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 0:
                continue
            values = np.random.default_rng(zlib.crc32(name.encode())).normal(size=tuple(weight.shape))
            if "norm" in name:
                values = name.endswith("weight") + 0.1 * values
            elif weight.ndim == 1:
                values *= 0.1
            elif "embedding" not in name:
                values *= loud / (weight.numel() / weight.shape[0]) ** 0.5
            weight.copy_(torch.from_numpy(values))
    model.tie_weights()
    model.save_pretrained(folder)
    return folder
