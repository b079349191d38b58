"""Long screenshots: sides to 65,535 pixels are stored and sent in formats that can hold them."""

from __future__ import annotations

from io import BytesIO

import pytest
from PIL import Image as PILImage

from imagehost_core import Image, ImageHost, inspect
from imagehost_core.errors import BadRequestError, ValidationError
from imagehost_core.formats import FORMATS, Format
from imagehost_core.uploads import UploadKeywords

LIMITS = {"JPEG": 65_500, "PNG": 65_535, "WEBP": 16_383, "GIF": 65_535}


def encode(fmt: str, width: int, height: int, mode: str = "RGB") -> bytes:
    """Return an image with a gradient of 20 levels from its top to its bottom, and noise in it."""
    image = PILImage.linear_gradient("L").resize((width, height)).point(lambda level: level // 13 * 13)
    image = PILImage.merge("RGB", [image, image, PILImage.effect_noise((width, height), 90)])
    if mode == "RGBA":
        image.putalpha(PILImage.effect_noise((width, height), 90))
    file = BytesIO()
    image.save(file, fmt)
    return file.getvalue()


def read(host: ImageHost, image: Image, extension: str = "", query: str = "") -> PILImage.Image:
    with host.delivery.open(host.delivery.resolve(image.id + extension, query)) as blob:
        return PILImage.open(BytesIO(blob.read()))


@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("fmt", LIMITS)
def test_a_side_as_long_as_the_format_can_hold_is_accepted(host: ImageHost, fmt: str, is_wide: bool) -> None:
    size = (LIMITS[fmt], 4) if is_wide else (4, LIMITS[fmt])
    data = encode(fmt, *size)
    image = host.upload(data, owner="admin")
    assert (image.width, image.height) == size
    assert read(host, image).size == size
    assert (
        read(host, image, query="w=2" if not is_wide else "h=2").size[not is_wide] == (LIMITS[fmt] + 1) // 2
    )
    assert (inspect(data).width, inspect(data).height) == size


def test_a_side_beyond_the_limit_is_refused_with_that_of_the_format(host: ImageHost) -> None:
    with pytest.raises(ValidationError, match=r"at most 65,535 pixels of height .* 65,536"):
        host.upload(encode("PNG", 1, 65_536), owner="admin")
    jpeg = bytearray(encode("JPEG", 8, 65_500))
    start = jpeg.index(b"\xff\xc0")
    jpeg[start + 5 : start + 7] = (65_501).to_bytes(2, "big")
    with pytest.raises(ValidationError, match=r"at most 65,500 pixels of height .* 65,501"):
        host.upload(bytes(jpeg), owner="admin")
    frames = [PILImage.new("L", (1, 16_385), level) for level in (0, 255)]
    file = BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    with pytest.raises(ValidationError, match=r"at most 16,384 pixels of height .* 16,385"):
        host.upload(file.getvalue(), owner="admin")


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_a_long_upload_is_stored_in_a_format_that_holds_it(host: ImageHost, mode: str) -> None:
    data = encode("PNG", 10, 65_535, mode)
    given: tuple[UploadKeywords, ...] = (
        {},
        {"remove_exif": True},
        {"quality": 50},
        {"convert_to_webp": False},
    )
    for options in given:
        image = host.upload(data, owner="admin", **options)
        assert (image.format, image.height) == (Format.PNG, 65_535)
    for fmt in ("webp", "jpeg"):
        with pytest.raises(
            ValidationError, match=f"sides of at most {FORMATS[Format(fmt)].max_side:,} pixels"
        ):
            host.upload(data, owner="admin", format=fmt)
    with pytest.raises(BadRequestError, match="sides of at most 16,383 pixels"):
        read(host, image, ".webp")
    # A derivative is none that its own format cannot hold.
    assert all(max(size) <= (32_768 if mode == "RGBA" else 65_500) for size in image.derivatives)
    assert read(host, image, ".avif", "w=2").height == 13_107
    assert read(host, image, ".jpg", "h=8192").size == (1, 8_192)


def test_a_long_screenshot_has_all_variants(host: ImageHost) -> None:
    image = host.upload(encode("PNG", 60, 19_854), owner="admin")
    assert image.format is Format.PNG
    for extension, query, size in (
        (".auto", "", (60, 19_854)),
        (".jpg", "", (60, 19_854)),
        (".webp", "w=30", (30, 9_927)),
        (".webp", "w=320&h=320&fit=inside", (1, 320)),
        ("", "w=64&h=64", (64, 64)),
    ):
        assert read(host, image, extension, query).size == size
    candidates = host.srcset(image, [30, 45, 60], fm="webp")
    assert [candidate.split()[1] for candidate in candidates.split(", ")] == ["30w", "45w", "49w"]
    assert host.srcset(image, [60]).endswith(" 60w")
