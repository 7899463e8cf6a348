"""Load a LLaVA folder as the settings want it, choose what learns, save a trained one."""

import re
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import save_torch_state_dict
from transformers import LlavaForConditionalGeneration, LlavaImageProcessorPil, LlavaProcessor

from workflow_scripts.errors import UserError
from workflow_scripts.files import whole_folder
from workflow_scripts.spec import VlmModel, VlmStage
from workflow_scripts.vlm.chat_templates import CHAT_TEMPLATES

_PREFIXES = {
    "vision": ("model.vision_tower.", "vision_tower."),
    "projector": ("model.multi_modal_projector.", "multi_modal_projector."),
    "language": ("model.language_model.", "lm_head.", "language_model."),
}
_PUBLISHED = {
    "model.vision_tower.": "vision_tower.vision_model.",
    "model.multi_modal_projector.": "multi_modal_projector.",
    "model.language_model.": "language_model.model.",
    "lm_head.": "language_model.lm_head.",
}


def load(folder: Path, settings: VlmModel) -> tuple[LlavaForConditionalGeneration, LlavaProcessor]:
    """The model in float32 and its processor, both set as `settings` say.

    Raises UserError as `read_weights` does, and where the vision tower sees another image size.
    """
    model = read_weights(folder)
    require_image_size(folder, model.config.vision_config.image_size, settings.image_size)
    model.config.vision_feature_layer = settings.vision_feature_layer
    model.config.vision_feature_select_strategy = settings.vision_feature_select_strategy

    processor = LlavaProcessor.from_pretrained(folder)
    processor.vision_feature_select_strategy = settings.vision_feature_select_strategy
    processor.chat_template = processor.tokenizer.chat_template = CHAT_TEMPLATES[settings.chat_template]
    processor.image_processor = whole_images(processor.image_processor, settings)
    return model, processor


def require_image_size(folder: Path, seen: int, asked: int) -> None:
    """Raise UserError where the vision tower of a folder sees other squares than asked, in pixels a side."""
    if seen != asked:
        raise UserError(f"{folder}: the vision tower sees {seen} px, model.image_size is {asked}")


def whole_images(tower: Any, settings: VlmModel) -> LlavaImageProcessorPil:
    """An image processor with the colours of the tower's own, which brings the whole image to the tower's square,
    filled up before where the settings pad: whoever asks the model by its folder shows it what training did."""
    side = {"height": settings.image_size, "width": settings.image_size}
    return LlavaImageProcessorPil(
        size=side,
        do_pad=settings.pad_to_square,
        do_center_crop=False,
        resample=tower.resample,
        rescale_factor=tower.rescale_factor,
        image_mean=tower.image_mean,
        image_std=tower.image_std,
    )


def read_weights(folder: Path) -> LlavaForConditionalGeneration:
    """The model of a folder in float32. Raises UserError where weights are missing, superfluous or of another shape:
    transformers would go on with random ones."""
    # Eager attention is the fastest on a CPU for sequences of tens of tokens.
    attention = "sdpa" if torch.cuda.is_available() else "eager"
    model, found = LlavaForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float32, attn_implementation=attention, output_loading_info=True
    )
    require_whole(folder, found, ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model


def require_whole(folder: Path, found: dict[str, Any], faults: tuple[str, ...]) -> None:
    """Raise UserError naming the first weight with one of the faults that `from_pretrained` found."""
    for fault in faults:
        if found[fault]:
            names = sorted(map(str, found[fault]))
            raise UserError(f"{folder}: {len(names)} {fault.replace('_', ' ')} in the weights, first {names[0]}")


def published_name(name: str) -> str:
    """What LLaVA's published folders call a parameter of the model."""
    return next(name.replace(ours, theirs, 1) for ours, theirs in _PUBLISHED.items() if name.startswith(ours))


def module_of(name: str) -> str:
    """vision, projector or language: the module that a parameter belongs to, by its name in the model or in files."""
    return next(module for module, prefixes in _PREFIXES.items() if name.startswith(prefixes))


def num_layers_read(config: Any) -> int:
    """How many of the vision tower's layers lie before what the projector reads."""
    feature = config.vision_feature_layer
    # hidden_states[k] of the tower is the output of its layer k - 1, so k layers lie before it.
    return feature if feature >= 0 else config.vision_config.num_hidden_layers + 1 + feature


def freeze(model: LlavaForConditionalGeneration, stage: VlmStage) -> int:
    """Let the parameters of `stage.train` learn and freeze the others; the number that learn.

    Of the vision tower only the layers from `vision_from_layer` to the one that the projector reads learn (with the
    embeddings where that is the first): what comes after it has no gradient.
    """
    num_read = num_layers_read(model.config)
    count = 0
    for name, parameter in model.named_parameters():
        module = module_of(name)
        learns = module in stage.train
        if learns and module == "vision":
            layer = re.search(r"\.layers\.(\d+)\.", name)
            if layer:
                learns = stage.vision_from_layer <= int(layer[1]) < num_read
            else:
                # Outside the layers: embeddings and CLIP's pre_layrnorm come before them, the rest after.
                learns = stage.vision_from_layer == 0 and bool(re.search(r"\.embeddings\.|\.pre_layrnorm\.", name))
        parameter.requires_grad_(learns)
        count += getattr(parameter, "ds_numel", parameter.numel()) * learns  # of the whole, under ZeRO-3
    if not count:
        raise UserError("no parameter learns: `train` names no module, or vision_from_layer lies after the last one")
    return count


def save(
    model: LlavaForConditionalGeneration, weights: dict[str, torch.Tensor], processor: LlavaProcessor, folder: Path
) -> None:
    """Write a folder that `from_pretrained` and vLLM load, whole or not at all.

    `weights` are the model's by name; the files call them as published LLaVA folders do. Transformers' own
    `save_pretrained` would choose the names by how the model came to be.
    """
    if model.config.text_config.tie_word_embeddings:
        weights = {name: tensor for name, tensor in weights.items() if name != "lm_head.weight"}
    model.config.architectures = ["LlavaForConditionalGeneration"]
    model.config.dtype = next(iter(weights.values())).dtype
    published = {published_name(name): tensor.clone() for name, tensor in weights.items()}
    with whole_folder(folder) as growing:
        model.config.save_pretrained(growing)
        model.generation_config.save_pretrained(growing)
        save_torch_state_dict(published, growing)
        processor.save_pretrained(growing)
