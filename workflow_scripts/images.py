"""Image files as every model sees them: upright, RGB, 8 bits, transparency on white, the first frame.

A path names a file, or a member of a plain tar in place: `shards/00012.tar#1536+20481/000120034.jpg` is the 20481
bytes from byte 1536 of shards/00012.tar on, which the archive calls 000120034.jpg. One seek and one read get it. In a
zip it is the member whose local header begins at that byte, and its compressed size.
"""

import io
import re
import warnings
import zipfile
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from PIL import Image

from workflow_scripts import zips
from workflow_scripts.errors import UserError

# JPEG includes MPO. Others have decoders that are slow, run programs (EPS) or are no photographs.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif")
MAX_PIXELS = 2 * Image.MAX_IMAGE_PIXELS  # 179 million: where Pillow refuses, from the header alone

_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"II*\0", b"MM\0*")
_MEMBER = re.compile(r"(.+?\.(?:tar|zip|parquet))#(\d+)\+(\d+)/", re.IGNORECASE | re.DOTALL)
_EXIF_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

# Pillow warns from half of MAX_PIXELS on, which is a large photograph and no bomb.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


class BadImage(OSError):
    """Bytes that are no usable image. `reason` is a word that can be counted, `detail` says more."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


class Place(NamedTuple):
    """Where an image inside an archive lies: in a tar or zip, `start` and `length` are bytes; in a Parquet file (only
    while the pool is built), row group and row."""

    archive: Path
    start: int
    length: int


def member_path(archive: str | Path, start: int, length: int, name: str) -> str:
    """The path of an image inside an archive. It ends like the member's name, so that names match as for files."""
    return f"{archive}#{start}+{length}/{name.removeprefix('./').lstrip('/')}"


def place_of(path: str | Path) -> Place | None:
    """Where in which archive an image lies; None for a file of its own."""
    found = _MEMBER.match(str(path))
    return Place(Path(found[1]), int(found[2]), int(found[3])) if found else None


def container(path: str | Path) -> Path:
    """The file on disk that holds an image: its archive, or itself."""
    place = place_of(path)
    return place.archive if place else Path(path)


def read_bytes(path: str | Path) -> bytes:
    """The bytes of an image. Raises FileNotFoundError without its file, BadImage where the archive ends too early or
    (zips) does not have it there as its checksum says."""
    place = place_of(path)
    if place is None:
        return Path(path).read_bytes()
    with place.archive.open("rb") as file:
        if place.archive.suffix.lower() == ".zip":
            return _zip_member(place, file)
        file.seek(place.start)
        content = file.read(place.length)
    if len(content) < place.length:
        raise BadImage("truncated", f"{place.archive} ends before byte {place.start + place.length}")
    return content


def _zip_member(place: Place, file: BinaryIO) -> bytes:
    try:
        return zips.read_member(file, place.start, place.length)
    except EOFError as error:
        raise BadImage("truncated", f"{place.archive}: {error}") from None
    except zipfile.BadZipFile as error:
        raise BadImage("corrupt", f"{place.archive}: {error}") from None


def read_rgb(path: str | Path, max_pixels: int | None = None) -> Image.Image:
    """An image upright, RGB, of 8 bits, on white, the first frame, scaled down to at most `max_pixels` pixels.

    Raises FileNotFoundError without its file, BadImage (as any other fault an OSError) for bytes that do not decode.
    """
    image, _ = decode(read_bytes(path))
    if max_pixels and image.width * image.height > max_pixels:
        scale = (max_pixels / (image.width * image.height)) ** 0.5
        size = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
        image = image.resize(size, Image.Resampling.BICUBIC)
    return image


def require_rgb(path: str | Path) -> Image.Image:
    """`read_rgb` where every image must read. Raises UserError naming one that does not."""
    try:
        return read_rgb(path)
    except OSError as error:
        raise UserError(f"{path}: not a readable image ({error})") from None


def decode(content: bytes) -> tuple[Image.Image, list[str]]:
    """Bytes as an RGB image, and what was done to them, out of `animated` (first frame taken), `cmyk`,
    `high_bit_depth` (16 bits or more scaled to 8), `alpha` (put on white), `rotated` (turned upright).

    Raises BadImage.
    """
    with _opened(content) as image:
        try:
            notes = _notes(image)
            image.load()
            turn = _turn(image)
            image = _to_rgb(image)
        except Exception as error:  # decoders raise whatever they like on broken bytes
            raise _fault(error, content) from None
    return (image.transpose(turn), [*notes, "rotated"]) if turn is not None else (image, notes)


def measure(content: bytes) -> tuple[int, int, list[str]]:
    """Width and height in pixels once upright, and notes as of `decode`. The whole image is decoded, a JPEG at an
    eighth of its size: all its bytes are read for a third less time. Raises BadImage.
    """
    with _opened(content) as image:
        try:
            notes, (width, height) = _notes(image), image.size
            if image.format in ("JPEG", "MPO"):
                image.draft(None, (1, 1))
            image.load()
            turn = _turn(image)
        except Exception as error:  # as above
            raise _fault(error, content) from None
    if turn is None:
        return width, height, notes
    sides_swap = turn not in (_TURNS[2], _TURNS[3], _TURNS[4])
    return (*((height, width) if sides_swap else (width, height)), [*notes, "rotated"])


def check_header(content: bytes, min_side: int) -> None:
    """Raise BadImage for what the first bytes tell: `empty`, `not_an_image`, `corrupt`, `too_large` (over MAX_PIXELS,
    nothing is decoded), `too_small` (a side under `min_side` pixels)."""
    with _opened(content) as image:
        if min(image.size) < min_side:
            raise BadImage("too_small", f"{image.width} x {image.height} px, a side under {min_side}")


def _opened(content: bytes) -> Image.Image:
    if not content:
        raise BadImage("empty", "0 bytes")
    try:
        return Image.open(io.BytesIO(content), formats=FORMATS)
    except Exception as error:  # as above
        raise _fault(error, content) from None


def _fault(error: Exception, content: bytes) -> BadImage:
    """A decoder's error as a reason that can be counted."""
    unidentified = isinstance(error, Image.UnidentifiedImageError)  # its text holds an address in memory
    detail = "its header does not read" if unidentified else f"{type(error).__name__}: {error}"
    if isinstance(error, Image.DecompressionBombError):
        return BadImage("too_large", f"over {MAX_PIXELS} pixels: {error}")
    cut_webp = content[8:12] == b"WEBP" and len(content) < 8 + int.from_bytes(content[4:8], "little")
    if cut_webp or "truncated" in str(error).lower():
        return BadImage("truncated", detail)
    known = content.startswith(_SIGNATURES) or content[4:8] == b"ftyp" or content[8:12] == b"WEBP"
    return BadImage("corrupt", detail) if known else BadImage("not_an_image", "no image format known here")


def _notes(image: Image.Image) -> list[str]:
    """What will be done to an opened image, but for turning it."""
    found = {
        # An MPO's further pictures belong to the first one (a depth map, the other eye): it is a still.
        "animated": image.format != "MPO" and getattr(image, "is_animated", False),
        "cmyk": image.mode == "CMYK",
        "high_bit_depth": image.mode[0] in "IF" or any(";16" in str(tile.args) for tile in image.tile),
        "alpha": image.has_transparency_data,
    }
    return [note for note, true in found.items() if true]


def _turn(image: Image.Image) -> Image.Transpose | None:
    """How a loaded image is turned upright. Its EXIF block may be garbage: the pixels are sound all the same."""
    try:
        return _TURNS.get(image.getexif().get(_EXIF_ORIENTATION))
    except Exception:
        return None


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode[0] in "IF":
        image = _to_8_bits(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _to_8_bits(image: Image.Image) -> Image.Image:
    """Modes I;16, I and F as mode L: value / white x 255.

    White is 65535 in 16 bits. 32-bit and float pixels do not say theirs: it is the least usual one that holds all
    values, of 255, 65535, 2^31 - 1 for whole numbers and 1 too for floats.
    """
    values = np.asarray(image).astype(np.float64)
    if not np.isfinite(values).all():
        raise BadImage("corrupt", "pixels that are no finite numbers")
    if image.mode.startswith("I;16"):
        white = 65535
    else:
        whites = [*([1] if image.mode == "F" else []), 255, 65535, 2**31 - 1]
        white = next((w for w in whites if values.max() <= w), values.max())
    return Image.fromarray(np.rint(values.clip(0) / white * 255).astype(np.uint8))
