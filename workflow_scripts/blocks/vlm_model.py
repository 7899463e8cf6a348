"""The tiny LLaVA models of the blocks world: real classes, real processors, small configs."""

import json
from pathlib import Path

import torch
from transformers import (
    CLIPImageProcessorPil,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    Qwen3Config,
    SiglipImageProcessorPil,
    SiglipVisionConfig,
)

from workflow_scripts.blocks.tokenizer import build_tokenizer
from workflow_scripts.blocks.world import CELLS, IMAGE_SIZE, VOCABULARY

PATCH_SIZE = 16  # px: one patch a cell
NUM_IMAGE_TOKENS = len(CELLS)
ARCHITECTURES = ("clip-llama", "siglip-qwen3")

_WIDTH, _HEADS = 96, 4
_VISION = {
    "hidden_size": _WIDTH,
    "intermediate_size": 2 * _WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": _HEADS,
    "image_size": IMAGE_SIZE,
    "patch_size": PATCH_SIZE,
}
_TEXT = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": _WIDTH,
    "intermediate_size": 2 * _WIDTH,
    "num_hidden_layers": 3,
    "num_attention_heads": _HEADS,
    "max_position_embeddings": 128,
    "tie_word_embeddings": True,
    "pad_token_id": VOCABULARY.index("<pad>"),
    "bos_token_id": VOCABULARY.index("<bos>"),
    "eos_token_id": VOCABULARY.index("<eos>"),
}


def build_model(architecture: str, seed: int) -> LlavaForConditionalGeneration:
    """A LLaVA of random weights in float32, about 525k parameters, with eager attention (the fastest at this size).
    CLIP drops its class token (`default`), SigLIP has none (`full`): four image tokens either way."""
    torch.manual_seed(seed)
    if architecture == "clip-llama":
        vision = CLIPVisionConfig(**_VISION, projection_dim=_WIDTH)
        text = LlamaConfig(**_TEXT, num_key_value_heads=_HEADS)
    else:
        vision = SiglipVisionConfig(**_VISION, vision_use_head=False)
        text = Qwen3Config(**_TEXT, num_key_value_heads=2, head_dim=_WIDTH // _HEADS)
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_id=VOCABULARY.index("<image>"),
        vision_feature_layer=-1,
        vision_feature_select_strategy="default" if architecture == "clip-llama" else "full",
        image_seq_length=NUM_IMAGE_TOKENS,
        tie_word_embeddings=True,
        attn_implementation="eager",
    )
    config.pad_token_id = text.pad_token_id
    model = LlavaForConditionalGeneration(config)
    model.generation_config.update(
        pad_token_id=text.pad_token_id, bos_token_id=text.bos_token_id, eos_token_id=text.eos_token_id
    )
    return model


def build_processor(architecture: str) -> LlavaProcessor:
    """The processor that belongs to the model: uint8 pixels x become x / 127.5 - 1, and `<image>` four tokens."""
    pixels = {
        "size": {"height": IMAGE_SIZE, "width": IMAGE_SIZE},
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    clip = architecture == "clip-llama"
    image_processor = (
        CLIPImageProcessorPil(**pixels, do_center_crop=False) if clip else SiglipImageProcessorPil(**pixels)
    )
    tokenizer = build_tokenizer()
    return LlavaProcessor(
        image_processor=image_processor,
        tokenizer=tokenizer,
        patch_size=PATCH_SIZE,
        vision_feature_select_strategy="default" if clip else "full",
        num_additional_image_tokens=1 if clip else 0,
        chat_template=tokenizer.chat_template,
    )


def save_checkpoint(model: LlavaForConditionalGeneration, architecture: str, folder: Path) -> None:
    """Save a folder that `from_pretrained` and `AutoProcessor` load: weights in float16 to be small, while the
    config names float32, so that loaders compute in float32 (float16 is slow on a CPU). `model` stays float32."""
    halves = {name: tensor.half() for name, tensor in model.state_dict().items()}
    model.save_pretrained(folder, state_dict=halves)
    build_processor(architecture).save_pretrained(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for part in (config, config["text_config"], config["vision_config"]):
        part["dtype"] = "float32"
    path.write_text(json.dumps(config, indent=2) + "\n")
