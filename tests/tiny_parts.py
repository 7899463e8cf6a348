"""Tiny random parts of a vision-language model, of the real classes and in the shape of their published folders."""

from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    CLIPConfig,
    CLIPImageProcessorPil,
    CLIPModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    SiglipImageProcessorPil,
    SiglipVisionConfig,
    SiglipVisionModel,
)

CORPUS = [
    "A chat between a curious user and an artificial intelligence assistant.",
    "The assistant gives helpful, detailed, and polite answers to the user's questions.",
    "USER: ASSISTANT: user assistant think describe the red circle at the left, how many? two one",
] * 20


def llama_tokenizer():
    """A space belongs to the word behind it, as in SentencePiece; no padding token."""
    backend = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse()])
    special = ["<unk>", "<s>", "</s>"]
    backend.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=320, special_tokens=special, show_progress=False)
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


def qwen_tokenizer():
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>")


def build_parts(root: Path, width: int = 32, head_dim: int = 16, layers: int = 1) -> Path:
    """The folders `clip` (whole, with its text tower), `vicuna`, `siglip`, `qwen3` and `llava` (its projector). `width`
    is that of all hidden states; images of 32 px are 4 patches."""
    vision = {"hidden_size": width, "intermediate_size": width, "num_hidden_layers": 3, "num_attention_heads": 2,
              "image_size": 32, "patch_size": 16}  # fmt: skip
    text = {"hidden_size": width, "intermediate_size": width, "num_hidden_layers": layers, "num_attention_heads": 2,
            "num_key_value_heads": 1, "head_dim": head_dim, "max_position_embeddings": 512}  # fmt: skip
    torch.manual_seed(0)
    reader = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    CLIPModel(CLIPConfig(vision_config=vision, text_config=reader)).save_pretrained(root / "clip")
    CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}).save_pretrained(
        root / "clip"
    )
    tokenizer = llama_tokenizer()
    LlamaForCausalLM(LlamaConfig(**text, vocab_size=len(tokenizer))).half().save_pretrained(root / "vicuna")
    tokenizer.save_pretrained(root / "vicuna")
    SiglipVisionModel(SiglipVisionConfig(**vision)).save_pretrained(root / "siglip")
    SiglipImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(root / "siglip")
    tokenizer = qwen_tokenizer()
    config = Qwen3Config(**text, vocab_size=448, tie_word_embeddings=True)
    Qwen3ForCausalLM(config).bfloat16().save_pretrained(root / "qwen3")
    tokenizer.save_pretrained(root / "qwen3")
    (root / "llava").mkdir()
    published = {
        "model.mm_projector.0.weight": torch.randn(width, width), "model.mm_projector.0.bias": torch.randn(width),
        "model.mm_projector.2.weight": torch.randn(width, width), "model.mm_projector.2.bias": torch.randn(width),
    }  # fmt: skip
    save_file(published, root / "llava" / "mm_projector.safetensors")
    return root


def spec_of(parts: Path, template: str, **changes: object) -> dict:
    """The settings of `vlm.assemble` for the pipeline of a chat template, vicuna or qwen3."""
    vision, language, strategy = {"vicuna": ("clip", "vicuna", "default"), "qwen3": ("siglip", "qwen3", "full")}[
        template
    ]
    model = {
        "vision": {"path": str(parts / vision)}, "language": {"path": str(parts / language)}, "image_size": 32,
        "vision_feature_layer": -2, "vision_feature_select_strategy": strategy, "chat_template": template,
    }  # fmt: skip
    if template == "vicuna":
        model["projector"] = {"path": str(parts / "llava")}
    return {"model": {**model, **changes}, "seed": 0}
