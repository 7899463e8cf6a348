"""Put a vision tower, a language model and a projector together as a LLaVA folder, the start of stage 1.

    python -m workflow_scripts.vlm.assemble --spec '{"model": {"vision": {...}, "language": {...}, ...}, "seed": 0}' \\
        --out results/understanding/clip-vicuna/seed-0/base/model.json

In: the folders model.vision (CLIP or SigLIP), model.language (any causal language model) and, where it is given,
model.projector with LLaVA's published weights (mm_projector.safetensors); otherwise the projector is random, by the
seed. Out: the manifest of the folder, written last. Every tensor keeps the number format of its source.
"""

from pathlib import Path
from typing import Any

from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import UserError
from workflow_scripts.files import fingerprint, write_run_record
from workflow_scripts.plan import AssembleJob
from workflow_scripts.progress import log

IMAGE_TOKEN = "<image>"  # noqa: S105
PUBLISHED_PROJECTOR = "mm_projector.safetensors"
# LLaVA's two linear layers with a GELU between them: https://github.com/haotian-liu/LLaVA, multimodal_projector
_PROJECTOR = {"mm_projector.0.": "linear_1.", "mm_projector.2.": "linear_2."}
_EMBEDDINGS_MULTIPLE = 64  # rows of the token table, as matrix units like them


def main(argv: list[str] | None = None) -> None:
    """Assemble one pipeline's model."""
    arguments = parser(__doc__)
    arguments.add_argument("--out", type=Path, required=True, help="manifest of the assembled model")
    args = arguments.parse_args(argv)
    job = load_spec(args.spec, AssembleJob)

    # Only now: torch and transformers take seconds to import.
    from workflow_scripts.model_folders import folder_fingerprint, local_folder, write_manifest
    from workflow_scripts.vlm.model import save

    sources = [source for source in (job.model.vision, job.model.language, job.model.projector) if source]
    spec = job.model_dump(mode="json")
    made_of = fingerprint(spec, *(folder_fingerprint(local_folder(source)) for source in sources))
    model, weights, processor = assemble(job)
    folder = args.out.parent / made_of / "model"
    folder.parent.mkdir(parents=True, exist_ok=True)
    save(model, weights, processor, folder)
    write_run_record(args.out, spec, num_parameters=sum(tensor.numel() for tensor in weights.values()))
    write_manifest(args.out, folder, made_of)


def assemble(job: AssembleJob) -> tuple[Any, dict[str, Any], Any]:
    """The model (without memory), its weights by name, its processor.

    Raises UserError naming the folder and the weight where one is absent or does not fit.
    """
    import torch
    from transformers import AutoModelForCausalLM, LlavaConfig, LlavaForConditionalGeneration

    from workflow_scripts.vlm.model import require_image_size

    settings = job.model
    tower = _load(_tower_class(settings.vision.path), settings.vision.path)
    language = _load(AutoModelForCausalLM, settings.language.path)
    processor = _processor(job, tower.config)
    tokenizer = processor.tokenizer
    if len(tokenizer) > language.config.vocab_size:
        torch.manual_seed(job.seed)
        language.resize_token_embeddings(len(tokenizer), pad_to_multiple_of=_EMBEDDINGS_MULTIPLE)
    require_image_size(settings.vision.path, tower.config.image_size, settings.image_size)
    config = LlavaConfig(
        vision_config=tower.config,
        text_config=language.config,
        image_token_id=tokenizer.convert_tokens_to_ids(IMAGE_TOKEN),
        vision_feature_layer=settings.vision_feature_layer,
        vision_feature_select_strategy=settings.vision_feature_select_strategy,
        image_seq_length=(tower.config.image_size // tower.config.patch_size) ** 2,
        tie_word_embeddings=language.config.tie_word_embeddings,
    )
    config.pad_token_id = tokenizer.pad_token_id
    with torch.device("meta"):
        model = LlavaForConditionalGeneration(config)
    model.generation_config.update(
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=language.generation_config.eos_token_id,
    )
    weights = {f"model.vision_tower.{name}": tensor for name, tensor in tower.state_dict().items()}
    weights |= {f"model.language_model.{name}": tensor for name, tensor in language.model.state_dict().items()}
    weights["lm_head.weight"] = language.lm_head.weight
    projector = _projector(job, model.model.multi_modal_projector, language.dtype)
    weights |= {f"model.multi_modal_projector.{name}": tensor for name, tensor in projector.items()}
    wanted = model.state_dict()
    for name in sorted(wanted.keys() ^ weights.keys()):
        raise UserError(f"{settings.language.path}: weight {name} is {'absent' if name in wanted else 'superfluous'}")
    return model, {name: tensor.detach() for name, tensor in weights.items()}, processor


def _tower_class(folder: Path) -> Any:
    from transformers import AutoConfig, CLIPVisionModel, SiglipVisionModel

    kind = AutoConfig.from_pretrained(folder, local_files_only=True).model_type
    towers = {"clip": CLIPVisionModel, "siglip": SiglipVisionModel}
    name = kind.removesuffix("_vision_model")
    if name not in towers:
        raise UserError(f"{folder}: a vision tower of kind {kind!r}, expected one of {', '.join(towers)}")
    return towers[name]


def _load(kind: Any, folder: Path) -> Any:
    """A part in the number format of its files. Raises UserError where a weight is absent or misshapen."""
    from workflow_scripts.vlm.model import require_whole

    part, found = kind.from_pretrained(
        folder, local_files_only=True, use_safetensors=True, dtype="auto", output_loading_info=True
    )
    require_whole(folder, found, ("missing_keys", "mismatched_keys"))
    return part


def _processor(job: AssembleJob, tower_config: Any) -> Any:
    from transformers import AutoImageProcessor, AutoTokenizer, LlavaProcessor

    from workflow_scripts.vlm.chat_templates import CHAT_TEMPLATES
    from workflow_scripts.vlm.model import whole_images

    settings = job.model
    tokenizer = AutoTokenizer.from_pretrained(settings.language.path, local_files_only=True)
    tokenizer.add_special_tokens({"additional_special_tokens": [IMAGE_TOKEN]})
    if tokenizer.pad_token is None:  # Llama has none; LLaVA pads with the unknown token
        tokenizer.pad_token = tokenizer.unk_token or tokenizer.eos_token
    images = whole_images(AutoImageProcessor.from_pretrained(settings.vision.path, local_files_only=True), settings)
    return LlavaProcessor(
        image_processor=images,
        tokenizer=tokenizer,
        patch_size=tower_config.patch_size,
        vision_feature_select_strategy=settings.vision_feature_select_strategy,
        image_token=IMAGE_TOKEN,
        num_additional_image_tokens=int(tower_config.model_type.startswith("clip")),  # CLIP has a class token
        chat_template=CHAT_TEMPLATES[settings.chat_template],
    )


def _projector(job: AssembleJob, shape: Any, dtype: Any) -> dict[str, Any]:
    """The projector's weights by name: published ones, or random ones of the shape by the seed."""
    import torch
    from safetensors.torch import load_file

    if job.model.projector is None:
        torch.manual_seed(job.seed)
        log.info("the projector starts from random weights, seed %d", job.seed)
        return {
            name: torch.empty(tensor.shape, dtype=dtype).normal_(std=0.02) if tensor.ndim > 1
            else torch.zeros(tensor.shape, dtype=dtype)
            for name, tensor in shape.state_dict().items()
        }  # fmt: skip
    file = job.model.projector.path / PUBLISHED_PROJECTOR
    if not file.is_file():
        raise UserError(f"understanding.pipelines.*.model.projector: no file {file}")
    weights = {}
    for name, tensor in load_file(file).items():
        plain = name.removeprefix("model.")
        ours = next((plain.replace(*pair) for pair in _PROJECTOR.items() if plain.startswith(pair[0])), None)
        if ours is None:
            raise UserError(f"{file}: weight {name} is none of LLaVA's projector ({', '.join(_PROJECTOR)}...)")
        weights[ours] = tensor
    for name, wanted in shape.state_dict().items():
        if name not in weights:
            raise UserError(f"{file}: weight {name} of the projector is absent")
        if weights[name].shape != wanted.shape:
            raise UserError(
                f"{file}: {name} has shape {tuple(weights[name].shape)}, this model needs {tuple(wanted.shape)}"
            )
    return weights


if __name__ == "__main__":
    run(main)
