"""Conversations in LLaVA's JSON shape: where a data set's files are, what a row says, and samples read when asked for.

A data set is a JSON array or JSON lines of {"id", "image"?, "conversations": [{"from": "human" | "gpt", "value"}]};
`image` is a name, or a list of names, in a folder or zip of images. `vlm.index` lists it once (table `conversations`);
training then reads each conversation by the place of its bytes.
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet

from workflow_scripts.errors import UserError
from workflow_scripts.files import sha256_file
from workflow_scripts.vlm.data import IMAGE_MARK, Sample

SHA256 = "json_sha256"  # in the metadata of a table `conversations`


class BadConversation(ValueError):
    """A row that cannot be trained on. `reason` is a word that can be counted, `detail` says more."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


class Conversation(NamedTuple):
    """The names of the images, and (human, gpt) turns."""

    images: tuple[str, ...]
    turns: tuple[tuple[str, str], ...]


def find_json(data: Path) -> Path:
    """The file of conversations that `data` is or holds: data.json, or the only JSON file. Raises UserError."""
    if data.is_file():
        return data
    if not data.is_dir():
        raise UserError(f"{data}: no such folder or file of conversations")
    found = sorted(path for suffix in ("json", "jsonl") for path in data.glob(f"*.{suffix}"))
    if data / "data.json" in found:
        return data / "data.json"
    if len(found) != 1:
        names = ", ".join(path.name for path in found)
        told = f"{len(found)} JSON files ({names}): name one of them in data.path" if found else "no JSON file"
        raise UserError(f"{data}: {told}")
    return found[0]


def find_images(file: Path, images: Path | None) -> Path | None:
    """The folder or zip in which a JSON file's images are named: as set, or `images` or `images.zip` beside the file,
    or None. Raises UserError where what is set is not there."""
    if images is not None:
        if not images.is_dir() and not (images.is_file() and images.suffix.lower() == ".zip"):
            raise UserError(f"images: {images} is no folder and no zip")
        return images
    beside = (file.with_name("images"), file.with_name("images.zip"))
    return next((path for path in beside if path.exists()), None)


def read_row(row: Any) -> Conversation:
    """What a row says. The image mark is taken out of the text: images always stand first. Raises BadConversation:
    `malformed`, `not_unicode`, `image_name` (no file can have it), `turns` (they do not alternate human, gpt), `marks`
    (they do not fit the images)."""
    try:
        named = row.get("image") or []
        images = (named,) if isinstance(named, str) else tuple(named)
        turns = row.get("conversations", [])
        speakers, texts = [turn.get("from") for turn in turns], [turn["value"] for turn in turns]
        said = [text.replace(IMAGE_MARK, "").strip() for text in texts]
        "".join([*texts, *images]).encode()
    except (AttributeError, KeyError, TypeError) as error:
        raise BadConversation("malformed", f"not a row of conversations ({type(error).__name__}: {error})") from None
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        raise BadConversation("not_unicode", f"{character!a} in a turn or an image's name is no character") from None
    if any("\0" in name for name in images):
        raise BadConversation("image_name", f"NUL in {images}")
    if not turns or speakers != ["human", "gpt"] * (len(turns) // 2):
        raise BadConversation("turns", f"turns are {speakers}, expected human and gpt in turn")
    marks = sum(text.count(IMAGE_MARK) for text in texts)
    if marks != len(images) and (marks or len(images) > 1):  # one image without a mark stands first
        raise BadConversation("marks", f"{marks} image marks for {len(images)} images")
    return Conversation(images, tuple(zip(said[::2], said[1::2], strict=True)))


class Conversations:
    """The sound conversations of a data set as a source of samples: their places are in memory, their text is not.

    `index` is the table `conversations` of `file`. Raises UserError where the file is another one than was indexed. A
    pickled copy opens its files anew.
    """

    def __init__(self, index: Path, file: Path) -> None:
        listed = pyarrow.parquet.read_schema(index).metadata[SHA256.encode()].decode()
        if sha256_file(file) != listed:
            raise UserError(f"{file}: changed since {index} was made; delete that and run again")
        self._open(index, file)

    def _open(self, index: Path, file: Path) -> None:
        self._paths = index, file
        columns = ["index", "offset", "length", "images", "fault"]
        rows = pyarrow.parquet.read_table(index, columns=columns)
        self._left_out = Counter(rows["fault"].drop_null().to_pylist())
        rows = rows.filter(rows["fault"].is_null())
        self._index, self._offset, self._length = (rows[name].to_numpy() for name in ("index", "offset", "length"))
        self._images = rows["images"].combine_chunks()
        self._file = os.open(file, os.O_RDONLY)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)

    def __getstate__(self) -> tuple[Path, Path]:
        return self._paths

    def __setstate__(self, paths: tuple[Path, Path]) -> None:
        self._open(*paths)

    def __len__(self) -> int:
        return len(self._index)

    def facts(self) -> dict[str, Any]:
        """Counts for a run record."""
        return {"num_conversations": len(self), "num_conversations_left_out": dict(self._left_out)}

    def key(self, number: int) -> str:
        """`conversation:` and the row's number in the file, whatever is left out."""
        return f"conversation:{self._index[number]}"

    def sample(self, number: int) -> Sample:
        """Read one sample. Raises UserError naming it where its bytes are no conversation any more."""
        content = os.pread(self._file, int(self._length[number]), int(self._offset[number]))
        try:
            turns = read_row(json.loads(content)).turns
        except ValueError as error:
            raise UserError(
                f"sample {self.key(number)}: {self._paths[1]} changed while it was read ({error})"
            ) from None
        images = tuple(Path(path) for path in self._images[number].as_py())
        return Sample(self.key(number), images, turns)
