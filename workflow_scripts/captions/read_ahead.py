"""Decode pictures in threads ahead of the engine, so that it never waits for a file or a JPEG."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from PIL import Image

from workflow_scripts.engines.interface import Picture
from workflow_scripts.errors import UserError
from workflow_scripts.images import read_rgb


class ReadAhead:
    """The images of pictures in the order of `numbers`; at most `ahead` decoded ones wait. Pillow decodes without the
    interpreter's lock, so threads are enough."""

    def __init__(
        self, pictures: Sequence[Picture], numbers: Sequence[int], max_pixels: int | None, threads: int, ahead: int
    ) -> None:
        self._max_pixels, self._ahead = max_pixels, ahead
        self._left: Iterator[Picture] = (pictures[number] for number in numbers)
        self._reading: deque[Future[Image.Image | Exception]] = deque()
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="decode")

    def next(self) -> Image.Image | Exception:
        """The next image, or why it cannot be read. Raises UserError for a file that is gone."""
        while len(self._reading) < self._ahead and (picture := next(self._left, None)) is not None:
            self._reading.append(self._threads.submit(self._read, picture))
        image = self._reading.popleft().result()
        if not self._reading:
            self._threads.shutdown()
        if isinstance(image, UserError):
            raise image
        return image

    def _read(self, picture: Picture) -> Image.Image | Exception:
        try:
            return read_rgb(picture.path, self._max_pixels)
        except FileNotFoundError:
            return UserError(f"{picture.path}: no such file (image {picture.image_id})")
        except Exception as error:  # decoders raise whatever they like on broken bytes
            return error
