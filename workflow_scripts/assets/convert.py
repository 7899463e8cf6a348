"""PyTorch pickles to safetensors: the one place where a pickle is opened, and only by torch's `weights_only` reader.

Tensors are written one by one from the mapped file, so that memory stays at one tensor.
"""

import json
import zipfile
from pathlib import Path

import torch

from workflow_scripts.errors import UserError
from workflow_scripts.files import atomic, write_json

# safetensors' names of number formats: https://github.com/huggingface/safetensors, "Format"
_FORMATS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def converted_name(name: str) -> str:
    """The name of a pickle once converted: what transformers looks for."""
    path = Path(name)
    return str(path.with_name(path.stem.replace("pytorch_model", "model") + ".safetensors"))


def convert(folder: Path, names: list[str]) -> dict[str, str]:
    """Turn pickles of `folder` into safetensors and delete them; the new name of each.

    Shards get the index that transformers reads. Raises UserError for a file that holds more than tensors by name.
    """
    made = {name: converted_name(name) for name in names}
    weights: dict[str, str] = {}
    total = 0
    for name, new in made.items():
        tensors = _read(folder / name)
        write_safetensors(folder / new, tensors)
        if Path(new).name.startswith("model-"):
            weights |= dict.fromkeys(tensors, Path(new).name)
            total += sum(tensor.nbytes for tensor in tensors.values())
    if weights:
        index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weights.items()))}
        write_json(folder / "model.safetensors.index.json", index)
    for name in names:
        (folder / name).unlink()
    return made


def _read(path: Path) -> dict[str, torch.Tensor]:
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:  # torch raises many kinds for a pickle that is refused or broken
        raise UserError(f"{path}: refused, it holds more than tensors or is broken ({type(error).__name__})") from None
    if not isinstance(tensors, dict) or not all(
        isinstance(tensor, torch.Tensor) and tensor.dtype in _FORMATS for tensor in tensors.values()
    ):
        raise UserError(f"{path}: refused, it is no mapping of names to plain tensors")
    return dict(tensors)


def write_safetensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """Write tensors by name in the safetensors format, one at a time, largest numbers first for alignment."""
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, dict] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in order:
        tensor = tensors[name]
        start, end = end, end + tensor.nbytes
        header[name] = {"dtype": _FORMATS[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with atomic(path) as temporary, temporary.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            file.write(memoryview(tensors[name].contiguous().flatten().view(torch.uint8).numpy()))
