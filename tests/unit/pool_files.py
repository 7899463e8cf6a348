"""Images for tests of the pool: sound ones, every kind of odd and broken one, and archives of them."""

import io
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from PIL import Image

SIZE = (24, 18)


def pixels(seed):
    return np.random.default_rng(seed).integers(0, 256, (*SIZE[::-1], 3), np.uint8)


def encode(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def photo(seed, kind="PNG", **options):
    """Bytes of an image that differs for each seed."""
    return encode(Image.fromarray(pixels(seed)), kind, **options)


def animation(kind):
    """Three frames: red, green, blue."""
    frames = [Image.new("RGB", SIZE, colour) for colour in ("#ff0000", "#00ff00", "#0000ff")]
    return encode(frames[0], kind, save_all=True, append_images=frames[1:], lossless=True)


def rotated(orientation):
    """A JPEG of four flat quarters (red, green | blue, white), stored so that `orientation` turns it upright."""
    upright = np.repeat(np.repeat(np.array([[(255, 0, 0), (0, 255, 0)], [(0, 0, 255), (255, 255, 255)]]), 32, 0), 48, 1)
    # What each value of the EXIF tag says of row 0 and column 0 (EXIF 2.32, 4.6.4), undone.
    store = {
        1: lambda a: a, 2: lambda a: a[:, ::-1], 3: lambda a: a[::-1, ::-1], 4: lambda a: a[::-1],
        5: lambda a: a.transpose(1, 0, 2), 6: lambda a: a.transpose(1, 0, 2)[::-1],
        7: lambda a: a[::-1, ::-1].transpose(1, 0, 2), 8: lambda a: a.transpose(1, 0, 2)[:, ::-1],
    }  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.ascontiguousarray(store[orientation](upright)).astype(np.uint8))
    return encode(stored, "JPEG", quality=95, exif=exif.tobytes())


def png(width, height, bit_depth, colour_type, data):
    """A PNG by hand, whatever it claims."""

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, bit_depth, colour_type, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(data)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


BOMB = png(100_000, 100_000, 8, 2, b"\0" * 1000)


def write_tar(path, members):
    """A plain tar of {name: bytes}."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def write_zip(path, members, method=zipfile.ZIP_STORED):
    """A zip of {name: bytes}."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def write_parquet(path, rows, row_group_size=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=row_group_size)
    return path
