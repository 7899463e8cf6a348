"""Members of a zip archive in place: listed once, then each is read by where it lies.

A member is known by the byte at which its local header begins and by its compressed size, so that a read needs neither
the archive's directory nor memory for it. Layout: PKWARE's APPNOTE.TXT 6.3, section 4.3.7.
"""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

MAX_BYTES = 2**30  # of one unpacked member

_HEADER = struct.Struct("<4s2xHH4xL8xHH")  # signature, flags, method, CRC-32, lengths of name and extra field
_SIGNATURE, _ENCRYPTED, _SIZES_FOLLOW = b"PK\3\4", 0x1, 0x8


class Member(NamedTuple):
    """`start` is the first byte of the local header, `length` the compressed size in bytes."""

    name: str
    start: int
    length: int


def list_members(archive: Path) -> Iterator[Member]:
    """The files in a zip archive, folders left out. Raises zipfile.BadZipFile where it is none, or is cut."""
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            if not info.is_dir():
                yield Member(info.filename, info.header_offset, info.compress_size)


def read_member(file: BinaryIO, start: int, length: int) -> bytes:
    """The unpacked bytes of a stored or deflated member.

    Raises EOFError where the archive ends within it, zipfile.BadZipFile where there is no such member, it is packed in
    another way, or its checksum (which streamed archives do not have here) is another.
    """
    file.seek(start)
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise EOFError(f"it ends before byte {start + _HEADER.size}")
    signature, flags, method, checksum, name_length, extra_length = _HEADER.unpack(header)
    if signature != _SIGNATURE:
        raise zipfile.BadZipFile(f"no member begins at byte {start}")
    if flags & _ENCRYPTED or method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise zipfile.BadZipFile(f"the member at byte {start} is encrypted or packed by method {method}")
    file.seek(name_length + extra_length, 1)
    packed = file.read(length)
    if len(packed) < length:
        raise EOFError(f"it ends within the member at byte {start}")
    content = packed if method == zipfile.ZIP_STORED else _inflated(packed, start)
    if not flags & _SIZES_FOLLOW and zlib.crc32(content) != checksum:
        raise zipfile.BadZipFile(f"the member at byte {start} has another checksum")
    return content


def _inflated(packed: bytes, start: int) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = inflater.decompress(packed, MAX_BYTES)
    except zlib.error as error:
        raise zipfile.BadZipFile(f"the member at byte {start} does not inflate: {error}") from None
    if not inflater.eof:
        raise zipfile.BadZipFile(f"the member at byte {start} is cut, or over {MAX_BYTES} bytes")
    return content
