"""Tiny random checkpoints of the real classes that the paper's captioners are, as Transformers writes them.

Each has its real processor, token layout and model class, two layers a tower, and float32 weights from a fixed seed.
"""

import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

ENDS = range(300, 312)  # ordinary tokens that end an answer too, so that random models stop now and then

_WORDS = [
    "the small brown dog runs across a green field near two tall trees",
    "describe this image in detail: objects, colours, text, where they are",
    "a red square on a blue background, a sign that reads STOP, people walking in the street",
    '{"verdict": "yes", "reason": "the caption says so"}',
]
_MARKS = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>"]
_QWEN = ["<|image_pad|>", "<|video_pad|>"]
_INTERNVL = ["<img>", "</img>", "<IMG_CONTEXT>", "<video>"]
_GLM = [f"<|{place}{kind}|>" for kind in ("image", "video") for place in ("begin_of_", "end_of_", "")]
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% else %}IMAGE{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}the end of thinking {% endif %}{% endif %}"
)


def build_qwen3_vl(folder: Path) -> Path:
    """Qwen3-VL: images of any shape, 32 px a token, at most 64 tokens."""
    tokenizer = _tokenizer(_QWEN, "<|vision_start|><|image_pad|><|vision_end|>")
    ids = tokenizer.convert_tokens_to_ids
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [4, 6, 6], "mrope_interleaved": True}
    config = transformers.Qwen3VLConfig(
        text_config=_language(tokenizer, rope_parameters=rope),
        vision_config={
            **_VISION,
            "patch_size": 16,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1],
        },
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
    )
    processor = transformers.Qwen3VLProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(
            patch_size=16, merge_size=2, min_pixels=32**2, max_pixels=64 * 32**2
        ),
        video_processor=transformers.Qwen3VLVideoProcessor(),
        tokenizer=tokenizer,
        chat_template=tokenizer.chat_template,
    )
    return _save(folder, transformers.Qwen3VLForConditionalGeneration, config, processor)


def build_internvl(folder: Path) -> Path:
    """InternVL with a Qwen3 language model: tiles of 56 px, 4 tokens each."""
    tokenizer = _tokenizer(_INTERNVL, "<IMG_CONTEXT>\n")
    names = dict(
        zip(("start_image_token", "end_image_token", "context_image_token", "video_token"), _INTERNVL, strict=True)
    )
    tokenizer.init_kwargs |= {**names, "extra_special_tokens": names}
    for name, token in names.items():
        setattr(tokenizer, name, token)
        setattr(tokenizer, f"{name}_id", tokenizer.convert_tokens_to_ids(token))
    config = transformers.InternVLConfig(
        text_config={"model_type": "qwen3", **_language(tokenizer)},
        vision_config={
            "hidden_size": 64,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": [56, 56],
            "patch_size": [14, 14],
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
        downsample_ratio=0.5,
        tie_word_embeddings=False,
    )
    processor = transformers.InternVLProcessor(
        image_processor=transformers.GotOcr2ImageProcessor(size={"height": 56, "width": 56}, crop_to_patches=False),
        video_processor=transformers.InternVLVideoProcessor(),
        tokenizer=tokenizer,
        chat_template=tokenizer.chat_template,
        image_seq_length=4,
    )
    return _save(folder, transformers.InternVLForConditionalGeneration, config, processor)


def build_glm4v(folder: Path) -> Path:
    """What GLM-4.6V-Flash is: Glm4v with GLM-4.6V's processor, 28 px a token, at most 64 tokens."""
    tokenizer = _tokenizer(_GLM, "<|begin_of_image|><|image|><|end_of_image|>")
    ids = tokenizer.convert_tokens_to_ids
    rope = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_section": [2, 3, 3]}
    config = transformers.Glm4vConfig(
        text_config={"model_type": "glm4v_text", **_language(tokenizer, rope_parameters=rope)},
        vision_config={**_VISION, "model_type": "glm4v_vision", "patch_size": 14, "image_size": 56},
        image_token_id=ids("<|image|>"),
        video_token_id=ids("<|video|>"),
        image_start_token_id=ids("<|begin_of_image|>"),
        image_end_token_id=ids("<|end_of_image|>"),
        video_start_token_id=ids("<|begin_of_video|>"),
        video_end_token_id=ids("<|end_of_video|>"),
    )
    processor = transformers.Glm46VProcessor(
        image_processor=transformers.Glm46VImageProcessor(
            patch_size=14, merge_size=2, size={"shortest_edge": 28**2, "longest_edge": 64 * 28**2}
        ),
        video_processor=transformers.Glm46VVideoProcessor(),
        tokenizer=tokenizer,
        chat_template=tokenizer.chat_template,
    )
    return _save(folder, transformers.Glm4vForConditionalGeneration, config, processor)


def build_llava(folder: Path) -> Path:
    """LLaVA with CLIP and Llama: squares of 32 px, 16 tokens."""
    tokenizer = _tokenizer(["<image>"], "<image>")
    image_token = tokenizer.convert_tokens_to_ids("<image>")
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(
            hidden_size=64,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            image_size=32,
            patch_size=8,
            projection_dim=64,
        ),
        text_config=transformers.LlamaConfig(**_language(tokenizer)),
        image_token_index=image_token,
        image_token_id=image_token,
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
        image_seq_length=16,
    )
    processor = transformers.LlavaProcessor(
        image_processor=transformers.CLIPImageProcessor(
            size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
        ),
        tokenizer=tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        image_token="<image>",
        num_additional_image_tokens=1,
        chat_template=tokenizer.chat_template,
    )
    _save(folder, transformers.LlavaForConditionalGeneration, config, processor)
    _name_vision_tower_as_published(folder / "model.safetensors")
    return folder


BUILDERS = {
    "qwen3-vl": build_qwen3_vl,
    "internvl": build_internvl,
    "glm4v": build_glm4v,
    "llava": build_llava,
}

_VISION = {
    "depth": 2,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_heads": 2,
    "out_hidden_size": 64,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}


def _tokenizer(image_tokens: list[str], image: str) -> transformers.PreTrainedTokenizerBase:
    """Byte-level BPE with the model's special tokens; `image` is what the chat template writes for an image."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False)
    bpe.train_from_iterator(_WORDS * 20, trainer)
    model = json.loads(bpe.to_str())["model"]
    tokenizer = transformers.Qwen2Tokenizer(
        vocab=model["vocab"],
        merges=[tuple(merge) for merge in model["merges"]],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token="<|endoftext|>",
    )
    tokenizer.add_special_tokens({"additional_special_tokens": [*_MARKS, *image_tokens]})
    tokenizer.chat_template = _TEMPLATE.replace("IMAGE", image)
    return tokenizer


def _language(tokenizer: transformers.PreTrainedTokenizerBase, **more: Any) -> dict[str, Any]:
    """Two layers; heads of 32 dimensions are the smallest that vLLM's CPU kernels take."""
    return {
        "vocab_size": -(-len(tokenizer) // 64) * 64,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "tie_word_embeddings": False,  # a tied random model repeats its last token
        "max_position_embeddings": 4096,
        "bos_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        **more,
    }


def _save(folder: Path, model_class: Any, config: Any, processor: Any) -> Path:
    torch.manual_seed(1)
    model = model_class(config)
    with torch.no_grad():
        head = model.get_output_embeddings().weight
        head.mul_(8)  # far from uniform, so that rounding decides no token
        head[min(processor.tokenizer.all_special_ids) :] = 0  # text, not marks
    ends = [config.text_config.eos_token_id, *ENDS]
    model.generation_config = (
        transformers.GenerationConfig(  # as some folders have it; engines use its end tokens alone
            do_sample=True, temperature=2.0, top_k=3, repetition_penalty=1.9, eos_token_id=ends
        )
    )
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _name_vision_tower_as_published(file: Path) -> None:
    """Transformers 5 drops `vision_model.` from names that published LLaVA weights, and so vLLM, have."""
    weights = safetensors.torch.load_file(file)
    renamed = {}
    for name, values in weights.items():
        head, tower, rest = name.partition("vision_tower.")
        if tower and not rest.startswith("vision_model."):
            name = f"{head}{tower}vision_model.{rest}"
        renamed[name] = values
    safetensors.torch.save_file(renamed, file, metadata={"format": "pt"})
