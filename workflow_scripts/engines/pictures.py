"""Open pictures the way every model sees them: upright, RGB, no larger than asked."""

from PIL import Image, ImageOps


def read_rgb(path: str, max_pixels: int | None) -> Image.Image:
    """An image file as RGB, turned as its EXIF orientation says, scaled down to at most `max_pixels` pixels."""
    with Image.open(path) as file:
        image = ImageOps.exif_transpose(file).convert("RGB")
    if max_pixels and image.width * image.height > max_pixels:
        scale = (max_pixels / (image.width * image.height)) ** 0.5
        size = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
        image = image.resize(size, Image.Resampling.BICUBIC)
    return image
