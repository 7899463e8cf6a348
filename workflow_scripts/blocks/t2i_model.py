"""The tiny text-to-image pipelines of the blocks world: the real pipelines' parts, small.

SD3 has two CLIP text encoders and no T5 (the pipeline allows that), Qwen-Image a Qwen encoder that reads the real
prompt template.
"""

import torch
from diffusers import (
    DiffusionPipeline,
    FlowMatchEulerDiscreteScheduler,
    QwenImagePipeline,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
)
from tokenizers import Regex, pre_tokenizers, processors
from transformers import (
    CLIPTextConfig,
    CLIPTextModelWithProjection,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2Model,
)

from workflow_scripts.blocks.cell_autoencoder import CellAutoencoder, CellCode, CellVideoAutoencoder
from workflow_scripts.blocks.cell_transformer import CellQwenImageTransformer2DModel
from workflow_scripts.blocks.tokenizer import build_tokenizer
from workflow_scripts.blocks.world import ATTRIBUTES, CELLS, VOCABULARY

_PAD, _BOS = VOCABULARY.index("<pad>"), VOCABULARY.index("<bos>")
_LONGEST_CAPTION = len(CELLS) * (1 + len(ATTRIBUTES)) + 2  # words
_HEADS, _HEAD_SIZE, _LAYERS = 4, 22, 3
_CLIP_WIDTH, _QWEN_WIDTH = 48, 64


def clip_tokenizer() -> PreTrainedTokenizerFast:
    """<bos> words <pad>, then <pad> up to the limit: the end token is the padding token, as in CLIP-L."""
    tokenizer = build_tokenizer(model_max_length=_LONGEST_CAPTION + 2)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A <pad>", special_tokens=[("<bos>", _BOS), ("<pad>", _PAD)]
    )
    tokenizer.eos_token = tokenizer.pad_token
    return tokenizer


def qwen_tokenizer() -> PreTrainedTokenizerFast:
    """A token a word, mark, line end or `<|name|>`, so that the pipeline's template has its 34 tokens before the
    prompt; those that are no words of this world are <unk>."""
    tokenizer = build_tokenizer()
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"<\|\w+\|>|<\w+>|\n|\w+|[^\w\s]"), "isolated"),
            pre_tokenizers.Split(Regex(" +"), "removed"),
        ]
    )
    return tokenizer


def _clip() -> CLIPTextModelWithProjection:
    config = CLIPTextConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=_CLIP_WIDTH,
        intermediate_size=2 * _CLIP_WIDTH,
        num_hidden_layers=3,
        num_attention_heads=_HEADS,
        max_position_embeddings=_LONGEST_CAPTION + 2,
        projection_dim=_CLIP_WIDTH,
        pad_token_id=_PAD,
        bos_token_id=_BOS,
        eos_token_id=_PAD,
    )
    return CLIPTextModelWithProjection(config)


def build_sd3(code: CellCode, seed: int) -> StableDiffusion3Pipeline:
    """A StableDiffusion3Pipeline of random weights in float32 whose autoencoder is the fitted `code`."""
    torch.manual_seed(seed)
    width = _HEADS * _HEAD_SIZE
    transformer = SD3Transformer2DModel(
        sample_size=64,
        patch_size=2,
        in_channels=8,
        out_channels=8,
        num_layers=_LAYERS,
        attention_head_dim=_HEAD_SIZE,
        num_attention_heads=_HEADS,
        joint_attention_dim=2 * _CLIP_WIDTH,
        caption_projection_dim=width,
        pooled_projection_dim=2 * _CLIP_WIDTH,
        pos_embed_max_size=2,
        qk_norm="rms_norm",
    )
    vae = CellAutoencoder()
    vae.code.load_state_dict(code.state_dict())
    return StableDiffusion3Pipeline(
        transformer=transformer,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=vae,
        text_encoder=_clip(),
        tokenizer=clip_tokenizer(),
        text_encoder_2=_clip(),
        tokenizer_2=clip_tokenizer(),
        text_encoder_3=None,
        tokenizer_3=None,
    )


def build_qwen_image(code: CellCode, seed: int) -> QwenImagePipeline:
    """A QwenImagePipeline of random weights in float32 whose autoencoder is the fitted `code`."""
    torch.manual_seed(seed)
    transformer = CellQwenImageTransformer2DModel(
        in_channels=32,
        out_channels=8,
        num_layers=_LAYERS,
        attention_head_dim=_HEAD_SIZE,
        num_attention_heads=_HEADS,
        joint_attention_dim=_QWEN_WIDTH,
        axes_dims_rope=(2, 10, 10),
        num_places=len(CELLS),
    )
    text_encoder = Qwen2Model(
        Qwen2Config(
            vocab_size=len(VOCABULARY),
            hidden_size=_QWEN_WIDTH,
            intermediate_size=2 * _QWEN_WIDTH,
            num_hidden_layers=2,
            num_attention_heads=_HEADS,
            num_key_value_heads=2,
            max_position_embeddings=128,
            pad_token_id=_PAD,
            bos_token_id=_BOS,
            eos_token_id=VOCABULARY.index("<eos>"),
        )
    )
    vae = CellVideoAutoencoder()
    vae.code.load_state_dict(code.state_dict())
    scheduler = FlowMatchEulerDiscreteScheduler(
        use_dynamic_shifting=True,
        base_shift=0.5,
        max_shift=0.9,
        base_image_seq_len=256,
        max_image_seq_len=8192,
        shift_terminal=0.02,
    )
    return QwenImagePipeline(
        scheduler=scheduler, vae=vae, text_encoder=text_encoder, tokenizer=qwen_tokenizer(), transformer=transformer
    )


BUILDERS = {"sd3": build_sd3, "qwen-image": build_qwen_image}


def save_halved(pipe: DiffusionPipeline, folder: str) -> None:
    """Save a pipeline folder in float16 to be small; whoever loads it asks for float32."""
    pipe.to(torch.float16)
    pipe.save_pretrained(folder)
