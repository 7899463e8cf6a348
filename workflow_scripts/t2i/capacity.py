"""What encoding and fine-tuning take of disk and memory, by the configs and headers of a pipeline's folder alone."""

from pathlib import Path

import torch

from workflow_scripts.capacity import (
    Needed,
    activations,
    checkpoints,
    count_parameters,
    local_processes,
    require_disk,
    require_memory,
    training_states,
)
from workflow_scripts.spec import T2iTraining
from workflow_scripts.t2i.families import Family


def latents_size(family: Family, num_images: int, resolution: int) -> float:
    """Bytes of the posteriors of images: mean and log-variance in float16."""
    return num_images * 2 * 2 * family.latent_channels * (resolution / family.pipe.vae_scale_factor) ** 2


def encoded_dtype(training: T2iTraining) -> torch.dtype:
    """The number format of text encoders and encoded captions while a model trains."""
    return torch.bfloat16 if training.precision == "bf16" else torch.float32


def require_for_finetuning(
    family: Family, base: Path, training: T2iTraining, resolution: int, folder: Path, embeddings: float
) -> None:
    """Raise UserError where disk or memory do not hold a fine-tuning whose encoded captions take `embeddings` bytes on
    disk; with none there, the text encoders stay in the GPU's memory."""
    parameters, largest = count_parameters(base / "transformer")
    on_gpu, on_host = training_states(parameters, largest, training)
    text = sum(count_parameters(base / name)[0] for name in family.text_encoders if (base / name).is_dir())
    text *= encoded_dtype(training).itemsize
    config = family.pipe.transformer.config
    tokens = (resolution // family.pipe.vae_scale_factor) ** 2 // 4 + family.max_text_tokens
    width = config.num_attention_heads * config.attention_head_dim
    require_disk(
        folder,
        {
            "encoded captions": embeddings,
            "checkpoints": checkpoints(parameters, training),
            "the trained transformer": 4.0 * parameters,
        },
    )
    start = loaded_dtype(training).itemsize * parameters
    gpu: Needed = {
        "weights, gradients, optimiser": max(on_gpu, start),  # before DeepSpeed shares it out, each holds a whole one
        "activations": activations(config.num_layers, width, tokens, training),
        "text encoders": 0 if embeddings else text,
    }
    # First every process reads the whole transformer; at the end one gathers it, and writes it in float32.
    optimiser, reading, writing = local_processes() * on_host, local_processes() * start, start + 4.0 * parameters
    host: Needed = {
        "optimiser": optimiser,
        "the transformer as it is read or written": max(reading - optimiser, writing),
    }
    require_memory(gpu, host)


def loaded_dtype(training: T2iTraining) -> torch.dtype:
    """The number format in which the transformer is read: DeepSpeed rounds it to bfloat16 at once, and keeps a copy
    in float32 of that; without DeepSpeed it learns in float32."""
    return torch.bfloat16 if training.zero_stage and training.precision == "bf16" else torch.float32
