"""A tiny captioner whose repository brings its own code, that of tests/unit/told."""

import hashlib
import json
import shutil
from pathlib import Path

import torch
from told.modeling_told import ToldConfig, ToldForCausalLM
from transformers import LlamaConfig

from workflow_scripts.blocks.tokenizer import build_tokenizer
from workflow_scripts.files import write_json

COMMIT = "c0ffee" * 6 + "c0de"

CODE = Path(__file__).parent / "told"


def build(folder: Path) -> Path:
    """The folder, and beside it the manifest of its fetching."""
    tokenizer = build_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, initializer_range=0.5,
    )  # fmt: skip
    torch.manual_seed(0)
    ToldForCausalLM(ToldConfig(**config.to_dict())).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    shutil.copytree(CODE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    edit(folder / "config.json", auto_map={
        "AutoConfig": "modeling_told.ToldConfig", "AutoModelForCausalLM": "modeling_told.ToldForCausalLM",
    }, model_type="told-captioner")  # fmt: skip
    write_json(folder / "processor_config.json", {"auto_map": {"AutoProcessor": "processing_told.ToldProcessor"}})
    write_manifest(folder)
    return folder


def edit(path: Path, **changes) -> None:
    write_json(path, json.loads(path.read_text()) | changes)


def write_manifest(folder: Path) -> None:
    files = {
        path.name: {"size": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in folder.iterdir()
    }
    write_json(folder.with_name(f"{folder.name}.json"), {"revision": COMMIT, "files": files})
