import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pool_files import BOMB, SIZE, animation, encode, photo, pixels, png, rotated, write_tar, write_zip

from workflow_scripts import images, zips
from workflow_scripts.captions.match import PictureIndex
from workflow_scripts.engines import Picture
from workflow_scripts.errors import UserError
from workflow_scripts.images import BadImage, check_header, decode, measure, member_path, read_bytes, read_rgb
from workflow_scripts.report.images import picture
from workflow_scripts.vlm.data import check_images


def array(content):
    image, _ = decode(content)
    assert image.mode == "RGB"
    return np.asarray(image)


def reason(function, *arguments):
    with pytest.raises(BadImage) as caught:
        function(*arguments)
    return caught.value.reason


def test_a_plain_image_is_what_it_was():
    assert (array(photo(1)) == pixels(1)).all()
    assert decode(photo(1))[1] == [] and measure(photo(1)) == (*SIZE, [])


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_16_bit_grey_is_scaled_as_the_closed_form_says(kind):
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    content = encode(Image.fromarray(values), kind)
    expected = (values.astype(int) + 128) // 257  # value / 65535 x 255 to the nearest
    assert (array(content) == expected[..., None]).all()
    assert decode(content)[1] == ["high_bit_depth"]


def test_16_bit_colours_are_scaled_within_one_level():
    values = np.arange(0, 64512, 84).reshape(16, 16, 3)
    rows = b"".join(b"\0" + struct.pack(">48H", *row.ravel()) for row in values)
    content = png(16, 16, 16, 2, rows)
    assert np.abs(array(content) - values / 257).max() <= 1
    assert measure(content) == (16, 16, ["high_bit_depth"])


@pytest.mark.parametrize(
    ("kind", "values", "white"),
    [
        (np.float32, [0, 0.25, 1.0], 1),
        (np.float32, [0, 100, 200], 255),
        (np.float32, [-3, 0, 60000], 65535),
        (np.float32, [0, 1e10, 2e10], 2e10),
        (np.int32, [0, 1, 255], 255),
        (np.int32, [0, 30000, 65535], 65535),
        (np.int32, [0, 2**30, 2**31 - 1], 2**31 - 1),
    ],
)
def test_pixels_of_32_bits_have_the_least_usual_white_that_holds_them(kind, values, white):
    content = encode(Image.fromarray(np.tile(np.array(values, kind), (20, 6))), "TIFF")
    expected = [round(max(0, value) / white * 255) for value in values]
    assert array(content)[0, :3, 0].tolist() == expected
    assert decode(content)[1] == ["high_bit_depth"]


def test_pixels_that_are_no_numbers_are_corrupt():
    assert reason(decode, encode(Image.fromarray(np.full((20, 20), np.nan, np.float32)), "TIFF")) == "corrupt"


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_undone(orientation):
    content = rotated(orientation)
    upright = array(content)
    assert upright.shape == (64, 96, 3)
    corners = [upright[y, x].astype(int) for y, x in ((16, 24), (16, 72), (48, 24), (48, 72))]
    for found, expected in zip(corners, [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)], strict=True):
        assert np.abs(found - expected).max() < 12
    notes = ["rotated"] if orientation > 1 else []
    assert measure(content) == (96, 64, notes) and decode(content)[1] == notes


def test_garbage_for_exif_does_not_cost_the_image():
    content = encode(Image.fromarray(pixels(1)), "JPEG", exif=b"Exif\0\0garbage" * 3)
    assert decode(content)[0].size == SIZE and measure(content) == (*SIZE, [])


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "AVIF"])
def test_first_frame_of_an_animation(kind):
    content = animation(kind)
    assert np.abs(array(content).astype(int) - (255, 0, 0)).max() < 3
    assert decode(content)[1] == ["animated"] and measure(content) == (*SIZE, ["animated"])


def test_cmyk_is_converted():
    colours = Image.new("RGB", SIZE, (200, 40, 90))
    for kind in ("JPEG", "TIFF"):
        content = encode(colours.convert("CMYK"), kind)
        assert np.abs(array(content).astype(int) - (200, 40, 90)).max() <= 3
        assert measure(content) == (*SIZE, ["cmyk"])


def test_transparency_goes_on_white():
    ground = np.zeros((*SIZE[::-1], 4), np.uint8)
    ground[:, :8] = (255, 0, 0, 255)
    ground[:, 8:16] = (0, 0, 255, 51)  # a fifth: 0.8 x 255 = 204 of white shines through
    content = encode(Image.fromarray(ground))
    assert [array(content)[0, x].tolist() for x in (0, 8, 16)] == [[255, 0, 0], [204, 204, 255], [255, 255, 255]]
    palette = Image.new("P", SIZE, 0)
    palette.putpalette([0, 0, 0, 10, 20, 30])
    palette.paste(1, (0, 0, 8, 8))
    by_palette = encode(palette, transparency=0)
    assert array(by_palette)[0, 0].tolist() == [10, 20, 30] and array(by_palette)[0, 20].tolist() == [255] * 3
    assert decode(content)[1] == decode(by_palette)[1] == ["alpha"]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"])
def test_truncated_files_are_refused(kind):
    content = photo(1, kind)
    for part in (content[: len(content) // 2], content[: len(content) // 2 + 100]):
        assert reason(decode, part) in ("truncated", "corrupt")
        assert reason(measure, part) in ("truncated", "corrupt")


def test_reasons_of_headers():
    assert reason(check_header, b"", 16) == "empty"
    assert reason(check_header, b"<html>404 not found</html>", 16) == "not_an_image"
    assert reason(check_header, b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 99 99\n", 16) == "not_an_image"
    assert reason(check_header, photo(1)[:20], 16) == "truncated"
    assert reason(check_header, b"\xff\xd8\xff\xe0" + b"\0" * 60, 16) == "corrupt"
    assert reason(check_header, photo(1), 19) == "too_small"
    check_header(photo(1), 18)


def test_a_decompression_bomb_is_refused_by_its_header(monkeypatch):
    monkeypatch.setattr(images.Image.Image, "load", lambda self: pytest.fail("decoded"))
    for function in (measure, decode):
        assert reason(function, BOMB) == "too_large"
    assert reason(check_header, BOMB, 16) == "too_large"


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")  # pytest resets the module's own filter
def test_an_image_just_under_the_limit_is_no_bomb():
    check_header(png(100_000, 1789, 8, 2, b""), 16)
    assert reason(check_header, png(100_000, 1790, 8, 2, b""), 16) == "too_large"
    assert images.MAX_PIXELS == 178_956_970


def test_members_of_a_tar_are_read_in_place(tmp_path):
    long_name = f"./{'deep/' * 40}{'long' * 30}.png"  # takes header blocks of its own
    members = {"a.png": photo(1), long_name: photo(2), "b.jpg": photo(3, "JPEG")}
    archive = write_tar(tmp_path / "x.tar", members)
    bytes_of_tar = archive.read_bytes()
    for name, content in members.items():
        path = member_path(archive, bytes_of_tar.index(content), len(content), name)
        assert read_bytes(path) == content
        assert path.endswith("/" + name.removeprefix("./"))
        assert images.container(path) == archive
        assert read_rgb(path).size == SIZE
    assert images.place_of(tmp_path / "a.png") is None
    with pytest.raises(BadImage, match=r"x\.tar ends before byte"):
        read_bytes(member_path(archive, len(bytes_of_tar) - 4, 10, "a.png"))
    with pytest.raises(FileNotFoundError):
        read_rgb(member_path(tmp_path / "gone.tar", 0, 4, "a.png"))


def zip_paths(archive):
    return [member_path(archive, start, length, name) for name, start, length in zips.list_members(archive)]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_of_a_zip_are_read_in_place(tmp_path, method, monkeypatch):
    members = {"00453/a.png": photo(1), "00453/": b"", "flat.bmp": encode(Image.new("RGB", (300, 300)), "BMP")}
    archive = write_zip(tmp_path / "x.zip", members, method)
    first, flat = zip_paths(archive)
    assert first.endswith("/00453/a.png") and images.container(first) == archive
    monkeypatch.setattr(zipfile, "ZipFile", lambda *_: pytest.fail("the directory was read again"))
    assert read_bytes(first) == photo(1) and read_bytes(flat) == members["flat.bmp"]
    assert read_rgb(flat).size == (300, 300)
    with pytest.raises(FileNotFoundError):
        read_bytes(first.replace("x.zip", "gone.zip"))


def test_members_of_a_streamed_zip_are_read_in_place(tmp_path):
    """A zip written to a pipe has its sizes and checksums behind the members, where an in-place read does not look."""

    class Pipe(io.BytesIO):
        def seekable(self):
            return False

        def tell(self):
            raise io.UnsupportedOperation

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("a.png", photo(1))
        opened.writestr("b.png", photo(2))
    (tmp_path / "x.zip").write_bytes(pipe.getvalue())
    assert [read_bytes(path) for path in zip_paths(tmp_path / "x.zip")] == [photo(1), photo(2)]


def test_what_is_wrong_with_a_zip_is_said(tmp_path):
    archive = write_zip(tmp_path / "x.zip", {"a.png": photo(1), "b.png": photo(2)})
    sound, (first, second) = archive.read_bytes(), zip_paths(archive)
    place = images.place_of(second)

    def broken(content, path):
        archive.write_bytes(content)
        with pytest.raises(BadImage) as caught:
            read_bytes(path)
        return str(caught.value)

    assert "truncated" in broken(sound[: place.start + 100], second)
    assert "truncated" in broken(sound[: place.start + 10], second)
    assert "another checksum" in broken(sound.replace(photo(1), photo(3)), first)
    assert "no member begins at byte 5" in broken(sound, member_path(archive, 5, 100, "a.png"))
    assert "packed by method 14" in broken(
        write_zip(tmp_path / "x.zip", {"a.png": photo(1)}, zipfile.ZIP_LZMA).read_bytes(), first
    )
    deflated = write_zip(tmp_path / "x.zip", {"a.bmp": encode(Image.new("RGB", (99, 99)), "BMP")}, zipfile.ZIP_DEFLATED)
    (path,) = zip_paths(deflated)
    start, length = images.place_of(path)[1:]
    content = deflated.read_bytes()
    assert "does not inflate" in broken(content[: start + 35] + b"\xff" * 40 + content[start + 75 :], path)
    assert "is cut, or over" in broken(content, member_path(archive, start, length - 9, "a.bmp"))


def test_real_photographs_of_every_kind_decode(shared_path):
    folder = shared_path / "data" / "capeval" / "image"
    for name in ("SO109.jpeg", "DK022.webp", "DK012.png", "DK001.jpg"):  # 8000 x 5333, 4032 x 3024, RGBA, RGB
        content = (folder / name).read_bytes()
        image, notes = decode(content)
        assert measure(content) == (*image.size, notes) and image.mode == "RGB"
    assert read_rgb(folder / "SO109.jpeg", max_pixels=10**6).size == (1224, 816)


def test_what_reads_paths_reads_members_too(tmp_path):
    archive = write_tar(tmp_path / "shards" / "0.tar", {"000012.png": photo(1), "sa_7.png": photo(2)})
    content = archive.read_bytes()
    first, second = (
        member_path(archive, content.index(photo(seed)), len(photo(seed)), name)
        for seed, name in ((1, "000012.png"), (2, "sa_7.png"))
    )
    shown = picture(first, 480)
    assert shown["uri"].startswith("data:image/png") and (shown["width"], shown["height"]) == SIZE
    index = PictureIndex([Picture("one", first), Picture("two", second)])
    assert [index.find(key) for key in ("000012.png", "12", "sa_7", second)] == [[0], [0], [1], [1]]
    check_images([Path(first), Path(second)])
    archive.unlink()
    with pytest.raises(UserError, match=r"1 image files are missing, first .*0\.tar$"):
        check_images([Path(first), Path(second)])
