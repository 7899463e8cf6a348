"""Pictures inside the page: data URIs, scaled down."""

import base64
import io
from pathlib import Path

from workflow_scripts.errors import UserError
from workflow_scripts.images import read_rgb

JPEG_QUALITY = 80
PIXEL_ART = 64  # px; pictures this small are enlarged without smoothing, and kept exactly


def data_uri(mime: str, content: bytes) -> str:
    """Bytes as a URI that needs no network."""
    return f"data:{mime};base64,{base64.b64encode(content).decode('ascii')}"


def picture(path: Path, side: int) -> dict[str, str | int | bool]:
    """An image file for an <img>: uri, width, height, whether it is pixel art. `side` is the longest side in pixels.

    Raises UserError naming a file that does not open.
    """
    try:
        image = read_rgb(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be shown in the report ({error})") from None
    pixel_art = max(image.size) <= PIXEL_ART
    image.thumbnail((side, side))
    buffer = io.BytesIO()
    if pixel_art:
        image.save(buffer, "PNG", optimize=True)
    else:
        image.save(buffer, "JPEG", quality=JPEG_QUALITY, optimize=True)
    uri = data_uri("image/png" if pixel_art else "image/jpeg", buffer.getvalue())
    return {"uri": uri, "width": image.width, "height": image.height, "pixel_art": pixel_art}


def figure(path: Path) -> str:
    """An SVG file as a data URI."""
    if not path.is_file():
        raise UserError(f"{path}: no such figure")
    return data_uri("image/svg+xml", path.read_bytes())
