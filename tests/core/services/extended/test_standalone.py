"""`render` and `inspect` without a host."""

from __future__ import annotations

import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest
from PIL import ExifTags, Image
from tests.waiting import PATIENCE

from imagehost_core import (
    BadRequestError,
    Fit,
    Format,
    PayloadTooLargeError,
    Transform,
    UnsupportedMediaTypeError,
    ValidationError,
    inspect,
    render,
)
from imagehost_core.limits import MAX_FILE_BYTES
from imagehost_core.testing import make_image, memory_host


def photograph(orientation: int = 1) -> bytes:
    """Return a JPEG of 120×80 stored pixels."""
    exif, file = Image.Exif(), BytesIO()
    exif[ExifTags.Base.Orientation] = orientation
    Image.open(BytesIO(make_image(120, 80))).save(file, "JPEG", exif=exif)
    return file.getvalue()


PHOTO = photograph()


@pytest.mark.parametrize("query", ["w=60", "w=40&h=40&fit=contain&fm=png", "h=20&fm=webp", "w=30&fm=avif"])
def test_a_variant_without_a_host_has_the_bytes_of_the_host(query: str) -> None:
    with memory_host() as host:
        # The upload has no derivatives: they are made of larger images only.
        image = host.upload(PHOTO, owner="admin", convert_to_webp=False)
        expected = host.render(image.id, query)
    received = render(PHOTO, query)
    assert received.data == expected.data
    assert (received.media_type, received.width, received.height) == (
        expected.media_type,
        expected.width,
        expected.height,
    )


def test_all_sources_and_spellings_of_parameters_give_the_same_variant(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(PHOTO)
    expected = render(PHOTO, "w=50&h=40&fit=inside&fm=png")
    assert expected == render(path, {"w": "50", "h": "40", "fit": "inside", "fm": "png"})
    assert expected == render(str(path), w=50, h=40, fit="inside", fm="png")
    for data in (bytearray(PHOTO), memoryview(PHOTO)):
        assert expected == render(data, "w=50&h=40&fit=inside&fm=png")
    assert expected == render(BytesIO(PHOTO), Transform(50, 40, fit=Fit.INSIDE, format=Format.PNG))
    assert inspect(path) == inspect(PHOTO) == inspect(BytesIO(PHOTO))


def test_a_sandboxed_variant_has_the_same_bytes_and_the_same_errors() -> None:
    assert render(PHOTO, w=50, sandbox=True) == render(PHOTO, w=50)
    damaged = make_image(64, 64)[:60] + bytes(40) + make_image(64, 64)[100:]
    with pytest.raises(ValidationError) as here:
        render(damaged, w=10)
    with pytest.raises(ValidationError) as sandboxed:
        render(damaged, w=10, sandbox=True)
    assert sandboxed.value.errors == here.value.errors


def test_the_size_is_that_of_the_upright_image_and_metadata_is_removed() -> None:
    stored = photograph(orientation=6)
    info = inspect(stored)
    assert (info.width, info.height, info.has_metadata, info.media_type) == (80, 120, True, "image/jpeg")
    variant = render(stored)
    assert (variant.width, variant.height) == (80, 120)
    assert not inspect(variant.data).has_metadata


def test_errors_are_those_of_an_upload_and_of_a_url() -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        render(b"%PDF-1.7")
    with pytest.raises(ValidationError, match="bytes or a binary file"):
        inspect(5)  # type: ignore[arg-type]
    with pytest.raises(PayloadTooLargeError):
        inspect(bytes(MAX_FILE_BYTES + 1))
    with pytest.raises(BadRequestError) as caught:
        render(PHOTO, w=0, fm="bmp")  # type: ignore[arg-type]
    assert {error.name for error in caught.value.errors} == {"w", "fm"}
    with pytest.raises(BadRequestError, match="both"):
        render(PHOTO, "w=5", h=5)


def test_rendering_without_a_host_loads_no_database_and_starts_no_process() -> None:
    program = (
        "import sys; from imagehost_core import render; sys.addaudithook(lambda event, _: "
        "event in {'subprocess.Popen', 'os.fork', 'os.mkdir', 'os.posix_spawn'} and sys.exit(event)); "
        "render(sys.stdin.buffer, w=20); assert 'sqlite3' not in sys.modules"
    )
    # coverage would load sqlite3, to store what it measures.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    command = [sys.executable, "-c", program]
    subprocess.run(command, input=PHOTO, env=variables, check=True, timeout=PATIENCE)


def test_an_upload_of_another_type_and_an_unknown_order_are_named_errors() -> None:
    with memory_host() as host:
        with pytest.raises(ValidationError, match="a path, bytes or a binary file"):
            host.upload(5, owner="admin")  # type: ignore[arg-type]
        for name in (b"x.png", Path("x.png"), 7):
            with pytest.raises(ValidationError, match="expected a name for filename"):
                host.upload(PHOTO, owner="admin", filename=name)  # type: ignore[arg-type]
        with pytest.raises(BadRequestError, match="-created_at"):
            host.images.list(owner="admin", sort="x")  # type: ignore[arg-type]
