"""Find the picture that a key of a caption file names."""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePosixPath

from workflow_scripts.engines.interface import Picture

_NUMBERED = re.compile(r"(?:.*_)?(\d+)")  # COCO_val2014_000000040468, 000000040468, sa_1234


class PictureIndex:
    """Pictures by all their names: image id, path, file name, stem, and the number that ends the stem."""

    def __init__(self, pictures: Sequence[Picture]) -> None:
        self._exact: dict[str, int] = {}
        self._names: dict[str, list[int]] = defaultdict(list)
        self._stems: dict[str, list[int]] = defaultdict(list)
        self._numbers: dict[int, list[int]] = defaultdict(list)
        self._paths = [_slashes(picture.path) for picture in pictures]
        for position, (picture, path) in enumerate(zip(pictures, self._paths, strict=True)):
            self._exact[picture.image_id] = self._exact[path] = position
            name = PurePosixPath(path)
            self._names[name.name].append(position)
            self._stems[name.stem].append(position)
            if numbered := _NUMBERED.fullmatch(name.stem):
                self._numbers[int(numbered[1])].append(position)

    def find(self, key: str) -> list[int]:
        """Positions of the pictures that `key` names: one, none, or several where it is ambiguous.

        A key with folders fits a path if one of the two is the end of the other, so that files that moved as a
        whole are found and namesakes of other folders are not. A bare number fits the number that ends a stem.
        """
        path = _slashes(key)
        if path in self._exact:
            return [self._exact[path]]
        name = path.rsplit("/", 1)[-1]
        if name != path:
            return [p for p in self._names.get(name, []) if _is_end(path, self._paths[p])]
        for names in (self._names, self._stems):
            if name in names:
                return names[name]
        return self._numbers.get(int(name), []) if name.isdecimal() and name.isascii() else []


def _slashes(path: str) -> str:
    return path.replace("\\", "/").removeprefix("./")


def _is_end(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return long == short or long.endswith("/" + short.lstrip("/"))
