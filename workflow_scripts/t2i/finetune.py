"""Fine-tune a text-to-image transformer on images and one captioner's captions.

    python -m workflow_scripts.t2i.finetune --spec '{"family": "sd3", ...}' \
        --latents results/blocks/generation/sd3/latents.json --captions results/blocks/captions/late/captions.json \
        --selection results/blocks/selection/intersection/settled/sd3.parquet \
        --kept-selection results/blocks/generation/sd3/seed-0/late/selection.parquet \
        --out results/blocks/generation/sd3/seed-0/late/model.json \
        --log-table results/blocks/generation/sd3/seed-0/late/training.csv

Files in: the latents, the captions, the images that are left out, the pipeline folder. Files out: --log-table (table
`training`); --kept-selection, a copy of --selection; the fine-tuned transformer in a folder beside --out; --out, its
manifest, written last. All other parts of the pipeline stay those of the pipeline folder. A run that was ended goes on
from its last checkpoint and ends with the same weights.

An image that is left out keeps its place and counts nothing; the run record says how many captions each text encoder
cuts. Captions are encoded once, into a folder that goes with the checkpoints, where --embedding-disk-gb holds them,
else in every step.
"""

import shutil
from pathlib import Path
from typing import Any

from workflow_scripts.captions.read import captions_of
from workflow_scripts.captions.selection import keep_selection, read_selection, selection_facts
from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.distributed import check_processes, is_main, join
from workflow_scripts.errors import UserError
from workflow_scripts.files import fingerprint, whole_folder, write_run_record
from workflow_scripts.model_folders import folder_fingerprint, local_folder, write_manifest
from workflow_scripts.plan import FinetuneJob
from workflow_scripts.progress import log
from workflow_scripts.records import write_table


def usable_captions(captions: Path, image_ids: list[str], left_out: set[str]) -> list[str | None]:
    """Each image's caption, None where the image is left out. Raises UserError for an image without a caption."""
    found = captions_of(captions, image_ids)
    kept = [(image, text) for image, text in zip(image_ids, found, strict=True) if image not in left_out]
    empty = [image for image, text in kept if not (text or "").strip()]
    if empty:
        raise UserError(f"{captions}: {len(empty)} captions are empty, and the selection keeps them, first {empty[0]}")
    if not kept:
        raise UserError(f"{captions}: none of {len(image_ids)} images is left to train on")
    return [None if image in left_out else text for image, text in zip(image_ids, found, strict=True)]


def count_cut(tokens: dict[str, tuple[int, list[int]]]) -> dict[str, Any]:
    """How many captions each text encoder cuts, for the run record; `tokens` are their `text_tokens`."""
    facts = {}
    for name, (limit, lengths) in tokens.items():
        cut = sum(length > limit for length in lengths)
        facts[name] = {"limit": limit, "num_cut": cut, "share_cut": cut / len(lengths), "longest": max(lengths)}
    return facts


def how_read(family: Any, texts: list[str], tokens: dict[str, tuple[int, list[int]]]) -> dict[str, tuple[int, bool]]:
    """Of each text how many tokens the transformer reads, and whether no text encoder reads it to its end."""
    cut = [[length > limit for length in lengths] for limit, lengths in tokens.values()]
    numbers = family.num_text_tokens(tokens)
    return {text: (number, all(by)) for text, number, *by in zip(texts, numbers, *cut, strict=True)}


def kept_size(family: Any, tokens: dict[str, tuple[int, list[int]]], bytes_a_number: int, budget_gb: float) -> float:
    """Bytes of the captions encoded, where they are within the budget and so are kept on disk; else 0. Says which."""
    _, lengths = next(iter(tokens.values()))
    size, number = bytes_a_number * family.encoded_size(tokens), len(lengths)
    kept = size <= 1e9 * budget_gb
    if is_main():
        where = "encoded once, on disk" if kept else "encoded in every step"
        figures = f"{size / 1e9:.4g} GB, {size / number / 2**20:.2g} MiB each; the budget is {budget_gb:g} GB"
        log.info("%d captions: %s (%s)", number, where, figures)
    return size if kept else 0


def save_transformer(transformer: Any, weights: dict[str, Any], folder: Path) -> None:
    """Write a folder that diffusers' `from_pretrained` loads, whole or not at all. `weights` are by name, float32:
    diffusers' own saving knows nothing of weights that several processes share."""
    import torch
    from huggingface_hub import save_torch_state_dict

    whole = {name: tensor.to(torch.float32, copy=True) for name, tensor in weights.items()}
    with whole_folder(folder) as growing:
        transformer.save_config(growing)
        save_torch_state_dict(whole, growing, filename_pattern="diffusion_pytorch_model{suffix}.safetensors")


def main(argv: list[str] | None = None) -> None:
    """Encode the captions, train, write the transformer and its manifest."""
    arguments = parser(__doc__)
    arguments.add_argument("--latents", type=Path, required=True, help="latents.json")
    arguments.add_argument("--captions", type=Path, required=True, help="captions.json of one captioner")
    arguments.add_argument("--selection", type=Path, required=True, help="table of the images that are left out")
    arguments.add_argument("--kept-selection", type=Path, required=True, help="where its copy goes")
    arguments.add_argument("--out", type=Path, required=True, help="the manifest, model.json")
    arguments.add_argument("--log-table", type=Path, required=True, help="the loss curve, training.csv")
    arguments.add_argument(
        "--embedding-disk-gb", type=float, default=200, help="disk for encoded captions in GB; 0 encodes in every step"
    )
    arguments.add_argument("--loader-workers", type=int, default=0, help="processes a GPU that make batches ahead")
    args = arguments.parse_args(argv)
    spec = load_spec(args.spec, FinetuneJob)
    check_processes(spec.training)
    base = local_folder(spec.model)

    from workflow_scripts.t2i.capacity import encoded_dtype, loaded_dtype, require_for_finetuning
    from workflow_scripts.t2i.embeddings import encode_once
    from workflow_scripts.t2i.families import FAMILIES
    from workflow_scripts.t2i.flops import training_flops
    from workflow_scripts.t2i.flow import FlowMatching, FlowTrainer, Visits
    from workflow_scripts.t2i.latents import Latents
    from workflow_scripts.training import num_steps, remove_checkpoints, train

    latents = Latents(args.latents)
    left_out = read_selection(args.selection, args.captions)
    captions = usable_captions(args.captions, latents.image_ids, left_out)
    made_of = fingerprint(spec.model_dump(mode="json"), args.latents, captions, folder_fingerprint(base))
    folder = args.out.parent / made_of
    embeddings = folder / "embeddings"
    join(spec.training, load_in_parts=False)  # the text encoders are not DeepSpeed's business
    family = FAMILIES[spec.family].open(spec.model, spec.max_text_tokens)
    usable = [caption for caption in captions if caption is not None]
    tokens, dtype = family.text_tokens(usable), encoded_dtype(spec.training)
    size = kept_size(family, tokens, dtype.itemsize, args.embedding_disk_gb)
    require_for_finetuning(family, base, spec.training, spec.resolution, folder, size)
    family.load_text_encoders(dtype)
    encoded = None
    if size:
        encoded = encode_once(family, ["", *sorted(set(usable))], embeddings)
        family.free_text_encoders()
    num_images = len(latents)
    steps = num_steps(spec.training, num_images)
    log.info("%d images, %d left out, %d steps", num_images, num_images - len(usable), steps)
    num_visits = steps * spec.training.global_batch
    read = how_read(family, usable, tokens) | how_read(family, [""], family.text_tokens([""]))
    visits = Visits(family, spec.training, spec.seed, num_visits, latents, captions, read, encoded)
    transformer = family.load_part("transformer", loaded_dtype(spec.training)).train()
    model = FlowMatching(family, transformer)
    curve, weights, _ = train(
        model, visits, visits.collate, spec.training, spec.seed, folder, training_flops(transformer),
        args.loader_workers, FlowTrainer,
    )  # fmt: skip
    if not is_main():
        return
    for row in curve:
        row["epoch"] = row["step"] * spec.training.global_batch / num_images

    final = folder / "transformer"
    save_transformer(transformer, {name.removeprefix("transformer."): t for name, t in weights.items()}, final)
    write_table(args.log_table, curve, "training")
    keep_selection(args.selection, args.kept_selection)
    write_run_record(
        args.out,
        spec.model_dump(mode="json"),
        num_images=num_images,
        num_images_shown=len(set(visits.order.tolist())),
        selection=selection_facts(left_out, num_images),
        num_steps=steps,
        num_learning_parameters=sum(p.numel() for p in transformer.parameters()),
        captions_cut=count_cut(tokens),
    )
    write_manifest(args.out, final, made_of)
    remove_checkpoints(folder)
    shutil.rmtree(embeddings, ignore_errors=True)


if __name__ == "__main__":
    run(main)
