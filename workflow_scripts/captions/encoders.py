"""How long captions are to the text encoders of a sweep's pipelines, counted as their training counts them."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import transformers
from tokenizers import Tokenizer

from workflow_scripts.errors import UserError
from workflow_scripts.files import fingerprint, read_json
from workflow_scripts.model_folders import local_folder
from workflow_scripts.plan import TextReader

# Qwen-Image reads a caption within a chat turn and counts what its template puts after it.
_QWEN_IMAGE_END = "<|im_end|>\n<|im_start|>assistant\n"


@dataclass(frozen=True)
class Encoder:
    """One text encoder of a pipeline, which takes captions of up to `limit` tokens."""

    pipeline: str
    name: str
    limit: int
    tokenizer: Tokenizer
    special_tokens: bool  # counted with the caption's own
    end: str  # text read after every caption
    leaves_out: bool = False  # longer captions are not trained on; other encoders see their beginning

    @cached_property
    def counts_as(self) -> str:
        """Encoders that count alike have this in common."""
        return fingerprint(self.tokenizer.to_str(), self.special_tokens, self.end)


def read_encoders(pipelines: dict[str, TextReader]) -> list[Encoder]:
    """The text encoders of every pipeline. Raises UserError where a tokenizer is absent or unreadable."""
    encoders = []
    for name, reader in pipelines.items():
        folder = local_folder(reader.model)
        if reader.family == "vlm":
            tokenizer = _read_tokenizer(folder)[0]
            encoders.append(Encoder(name, "language model", reader.max_tokens, tokenizer, False, "", leaves_out=True))
        elif reader.family == "sd3":
            for part, encoder in (("tokenizer", "CLIP-L"), ("tokenizer_2", "CLIP-G")):
                tokenizer, own_limit = _read_tokenizer(folder / part)
                encoders.append(Encoder(name, encoder, own_limit, tokenizer, True, ""))
            if (folder / "tokenizer_3").is_dir():  # T5, which a pipeline may lack
                tokenizer = _read_tokenizer(folder / "tokenizer_3")[0]
                encoders.append(Encoder(name, "T5", reader.max_tokens, tokenizer, True, ""))
        else:
            tokenizer = _read_tokenizer(folder / "tokenizer")[0]
            encoders.append(Encoder(name, "Qwen", reader.max_tokens, tokenizer, True, _QWEN_IMAGE_END))
    return encoders


def _read_tokenizer(folder: Path) -> tuple[Tokenizer, int]:
    """The tokenizer of a folder, without padding and truncation, and its own limit.

    Its class is imported by name: `AutoTokenizer` would load torch.
    """
    name = read_json(folder / "tokenizer_config.json").get("tokenizer_class")
    if name is None or not hasattr(transformers, name):
        raise UserError(f"{folder}: transformers has no tokenizer class {name!r}")
    try:
        whole = getattr(transformers, name).from_pretrained(folder)
    except (ImportError, OSError, ValueError) as error:
        raise UserError(f"{folder}: cannot be read as a {name} ({error})") from None
    tokenizer = whole.backend_tokenizer
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer, whole.model_max_length


def token_counts(encoders: list[Encoder], captions: list[str]) -> list[np.ndarray]:
    """The number of tokens of each caption, a row an encoder. Encoders that count alike are run once."""
    counted: dict[str, np.ndarray] = {}
    for encoder in encoders:
        if encoder.counts_as not in counted:
            texts = [caption + encoder.end for caption in captions]
            encoded = encoder.tokenizer.encode_batch_fast(texts, add_special_tokens=encoder.special_tokens)
            counted[encoder.counts_as] = np.fromiter(map(len, encoded), int, len(texts))
    return [counted[encoder.counts_as] for encoder in encoders]
