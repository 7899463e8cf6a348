"""Captions as a text-to-image model reads them: encoded once and kept on disk, or in the step that needs them.

Which of the two is a matter of disk alone: the encoders, their number format and so the loss are the same.
"""

from functools import cached_property
from pathlib import Path

from workflow_scripts.distributed import rank, wait_for_all, world_size
from workflow_scripts.files import remove_leftovers
from workflow_scripts.progress import Progress
from workflow_scripts.t2i.families import Family, Text
from workflow_scripts.t2i.shards import Shards, items_of, write_shard

SHARD_SIZE = 128  # texts
_ENCODED_AT_ONCE = 32  # texts


class Encoded:
    """Encoded texts by text, read from their shards one by one."""

    def __init__(self, shards: list[tuple[Path, list[str]]]) -> None:
        self._shards = Shards([path for path, _ in shards])
        self._places = {text: (n, row) for n, (_, texts) in enumerate(shards) for row, text in enumerate(texts)}

    def __getitem__(self, text: str) -> Text:
        number, row = self._places[text]
        shard = self._shards[number]
        return {name: shard.get_tensor(f"{row}.{name}") for name in self._names}

    @cached_property
    def _names(self) -> list[str]:
        """The tensors of a text, the same for all."""
        return sorted({name.partition(".")[2] for name in self._shards[0].keys()})  # noqa: SIM118


def encode_once(family: Family, texts: list[str], folder: Path) -> Encoded:
    """Encode different texts into shards in `folder`, each process of the job its share; shards that an earlier run
    left there stay. `folder` must be named by all that decides them."""
    starts = range(0, len(texts), SHARD_SIZE)
    shards = [(folder / f"{n:05d}.safetensors", texts[at : at + SHARD_SIZE]) for n, at in enumerate(starts)]
    own = [(path, some) for path, some in shards[rank() :: world_size()] if items_of(path) != some]
    progress = Progress(sum(len(some) for _, some in own), "captions of this process encoded")
    for path, some in own:
        remove_leftovers(path)
        tensors = {}
        for start in range(0, len(some), _ENCODED_AT_ONCE):
            encoded = family.encode_texts(some[start : start + _ENCODED_AT_ONCE])
            for row, text in enumerate(encoded, start):
                tensors |= {f"{row}.{name}": tensor.cpu().clone() for name, tensor in text.items()}
            progress.update(len(encoded))
        write_shard(path, tensors, some)
    wait_for_all()
    return Encoded(shards)
