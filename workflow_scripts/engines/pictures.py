"""Open pictures the way every model sees them: upright, RGB, no larger than asked."""

from collections.abc import Sequence

from PIL import Image, ImageOps

from workflow_scripts.engines import Caption, Picture
from workflow_scripts.errors import UserError


def read_pictures(
    pictures: Sequence[Picture], max_pixels: int | None
) -> tuple[dict[int, Image.Image], dict[int, Caption]]:
    """Images by position, and captions with the error of those that do not decode."""
    images, broken = {}, {}
    for position, picture in enumerate(pictures):
        try:
            images[position] = read_rgb(picture.path, max_pixels)
        except FileNotFoundError:
            raise UserError(f"{picture.path}: no such file (image {picture.image_id})") from None
        except Exception as error:  # decoders raise whatever they like on broken bytes
            broken[position] = Caption(None, error=f"unreadable image: {type(error).__name__}: {error}")
    return images, broken


def read_rgb(path: str, max_pixels: int | None) -> Image.Image:
    """An image file as RGB, turned as its EXIF orientation says, scaled down to at most `max_pixels` pixels."""
    with Image.open(path) as file:
        image = ImageOps.exif_transpose(file).convert("RGB")
    if max_pixels and image.width * image.height > max_pixels:
        scale = (max_pixels / (image.width * image.height)) ** 0.5
        size = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
        image = image.resize(size, Image.Resampling.BICUBIC)
    return image
