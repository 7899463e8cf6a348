"""The values of a JSON file that is too large for memory: one after another, and any of them again by its bytes."""

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from workflow_scripts.errors import UserError

_CHUNK = 2**20  # bytes read at once
_LONGEST = 2**26  # characters of one value; a broken one is not looked for its end any further
_SPACE = re.compile(r"[ \t\r\n]*")


class Value(NamedTuple):
    """A value and where it lies: `length` bytes from byte `offset` on."""

    value: Any
    offset: int
    length: int


def scan(path: Path) -> Iterator[Value]:
    """The elements of a JSON array, or the values of a file of JSON lines, in one pass with the memory of one chunk.

    Raises UserError naming the file, the number of the value from 0 and its first byte where the JSON is broken.
    """
    number = 0
    with path.open("rb") as file:
        text = _Text(path, file)
        in_array = text.peek() == "["
        if in_array:
            text.skip(1)
        while (first := text.peek()) and not (in_array and first == "]"):
            if in_array and number:
                text.expect(",", number)
            yield text.value(number)
            number += 1
        if in_array:
            text.expect("]", number)
            if text.peek():
                raise text.fault(number, "more after the end of the array")


class _Text:
    """A file as text around a position, of which the byte is known."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._text, self._position, self._byte = "", 0, 0
        if self.peek() == "\ufeff":
            self.skip(1)

    def peek(self) -> str:
        """The next character that is no space; empty at the end of the file."""
        while True:
            self.skip(_SPACE.match(self._text, self._position).end() - self._position)
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._more():
                return ""

    def skip(self, count: int) -> int:
        """Go `count` characters on; how many bytes they are."""
        passed = self._text[self._position : self._position + count]
        length = len(passed) if passed.isascii() else len(passed.encode())
        self._position, self._byte = self._position + count, self._byte + length
        return length

    def expect(self, character: str, number: int) -> None:
        found = self.peek()
        if found != character:
            raise self.fault(number, f"expected {character!r}, found {found!r}" if found else "the file ends too early")
        self.skip(1)

    def value(self, number: int) -> Value:
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._position)
                if end < len(self._text) or not self._more():
                    offset = self._byte
                    return Value(value, offset, self.skip(end - self._position))
            except json.JSONDecodeError as error:
                if len(self._text) - self._position > _LONGEST or not self._more():
                    raise self.fault(number, error.msg) from None

    def fault(self, number: int, detail: str) -> UserError:
        return UserError(f"{self._path}: not valid JSON in value {number}, at byte {self._byte}: {detail}")

    def _more(self) -> bool:
        """Read a chunk; whether there was one. What lies before the position is forgotten."""
        chunk = self._file.read(_CHUNK)
        try:
            self._text = self._text[self._position :] + self._decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            raise UserError(f"{self._path}: not UTF-8 after byte {self._byte} ({error.reason})") from None
        self._position = 0
        return bool(chunk)


_DECODER = json.JSONDecoder()
