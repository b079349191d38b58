"""Uploads: the stored bytes and record for each option."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as PILImage
from tests.core.headers.test_headers_camera import photograph
from tests.open_host import open_host
from tests.unusual_files import lossless_jpeg, png_chunks, with_bad_checksum

from imagehost_core import Format, Image, ImageHost, UploadOptions, ValidationError
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.headers.scanner import scan
from imagehost_core.settings import RenderingSettings, Settings, UploadSettings
from imagehost_core.storage.blob_store import derivative_name
from imagehost_core.testing import make_image
from imagehost_core.uploads import UploadKeywords

EACH_ENGINE = True


def master(host: ImageHost, image: Image) -> bytes:
    """Return the bytes of an image's master, after checking its record against them."""
    data = host.render(image.id).data
    assert (len(data), sha256(data).hexdigest()) == (image.size, image.sha256)
    return data


def decoded(data: bytes) -> PILImage.Image:
    pil_image = PILImage.open(io.BytesIO(data))
    pil_image.load()
    return pil_image


@pytest.mark.parametrize(
    "name", ["photo.jpg", "sideways.jpg", "still.png", "glass.webp", "still.gif", "moving.gif", "moving.webp"]
)
def test_bytes_are_stored_unchanged_without_options(
    host: ImageHost, samples: dict[str, bytes], name: str
) -> None:
    image = host.upload(samples[name], owner="admin", filename=name, convert_to_webp=False)
    assert master(host, image) == samples[name]
    assert image.original_filename == image.filename == name


@pytest.mark.parametrize("name", ["photo.jpg", "still.png", "glass.webp", "moving.gif"])
def test_data_after_the_end_of_the_image_is_removed(
    host: ImageHost, samples: dict[str, bytes], name: str
) -> None:
    image = host.upload(samples[name] + b"PK\3\4 an archive", owner="admin", convert_to_webp=False)
    assert master(host, image) == samples[name]


@pytest.mark.parametrize("remove_exif", [False, True])
@pytest.mark.parametrize("convert_to_webp", [False, True])
def test_the_time_of_a_photograph_is_kept_whether_its_metadata_is_or_not(
    host: ImageHost, samples: dict[str, bytes], remove_exif: bool, convert_to_webp: bool
) -> None:
    image = host.upload(photograph(), owner="admin", remove_exif=remove_exif, convert_to_webp=convert_to_webp)
    assert image.taken_at == datetime(2024, 5, 6, 5, 8, 9, tzinfo=UTC)
    assert host.images.get(image.id) == image
    assert (host.camera_data(image).taken_at is None) is remove_exif
    assert host.upload(samples["still.png"], owner="admin").taken_at is None


def test_images_without_the_time_at_which_they_were_taken_are_the_last_in_both_orders(
    host: ImageHost, samples: dict[str, bytes]
) -> None:
    host.accounts.get_or_create("photographer")
    times = ("2024:05:06 07:08:09", None, "1955:01:02 03:04:05", None, "2025:05:06 07:08:09")
    images = [
        host.upload(
            samples["still.png"] if time is None else photograph(camera={0x9003: time, 0x9011: ""}),
            owner="photographer",
        ).id
        for time in times
    ]
    dated, without = [images[index] for index in (2, 0, 4)], sorted(images[1::2])
    for sort, expected in (
        ("taken_at", [*dated, *without]),
        ("-taken_at", [*dated[::-1], *without[::-1]]),
    ):
        listed = host.images.iter(owner="photographer", sort=sort, per_page=1)  # type: ignore[arg-type]
        assert [image.id for image in listed] == expected


@pytest.mark.parametrize("end", [b";", b""], ids=["trailer", "no trailer"])
def test_an_animated_gif_with_bytes_between_its_blocks_is_stored_without_them_if_metadata_is_removed(
    host: ImageHost, samples: dict[str, bytes], end: bytes
) -> None:
    clean = samples["moving.gif"]
    first = clean.index(b"!\xf9\x04")
    unusual = clean[:first] + b"Jane Doe" + clean[first:-1] + b"Jane Doe" + end
    image = host.upload(unusual, owner="admin", convert_to_webp=False, remove_exif=True)
    assert (image.format, image.frames) == (Format.GIF, 4)
    assert master(host, image) == clean


def test_the_default_is_webp_where_that_is_smaller(host: ImageHost, samples: dict[str, bytes]) -> None:
    image = host.upload(samples["still.png"], owner="admin", filename="cat.PNG")
    assert (image.format, image.filename, image.original_filename) == (Format.WEBP, "cat.webp", "cat.PNG")
    assert image.size < len(samples["still.png"])
    assert decoded(master(host, image)).format == "WEBP"


def test_the_default_never_makes_a_file_larger(host: ImageHost) -> None:
    file = io.BytesIO()
    PILImage.effect_noise((64, 64), 90).convert("RGB").save(file, "JPEG", quality=5)
    image = host.upload(file.getvalue(), owner="admin")
    assert image.format is Format.JPEG
    assert master(host, image) == file.getvalue()
    forced = host.upload(file.getvalue(), owner="admin", format="webp")
    assert forced.format is Format.WEBP


@pytest.mark.parametrize("fmt", ["jpeg", "png", "webp"])
@pytest.mark.parametrize("name", ["photo.jpg", "glass.png", "glass.webp", "moving.gif"])
def test_the_requested_format_is_stored(
    host: ImageHost, samples: dict[str, bytes], name: str, fmt: str
) -> None:
    image = host.upload(samples[name], owner="admin", filename=name, format=fmt)  # type: ignore[arg-type]
    pil_image = decoded(master(host, image))
    assert pil_image.format == fmt.upper()
    assert image.format == fmt
    assert pil_image.size == (image.width, image.height) == (120, 90)
    assert image.frames == (4 if name == "moving.gif" and fmt == "webp" else 1)
    assert image.has_alpha == (name.startswith("glass") and fmt != "jpeg")


def test_transparency_becomes_white_in_jpeg(host: ImageHost, samples: dict[str, bytes]) -> None:
    image = host.upload(samples["glass.png"], owner="admin", format=Format.JPEG)
    corner = decoded(master(host, image)).getpixel((60, 0))
    assert isinstance(corner, tuple)
    assert min(corner) > 240


def test_quality_makes_the_file_smaller(host: ImageHost, samples: dict[str, bytes]) -> None:
    sizes = [
        host.upload(samples["photo.jpg"], owner="admin", quality=quality, convert_to_webp=False).size
        for quality in (5, 50, 95)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2]


def test_exif_is_kept_or_removed_and_the_image_is_upright_either_way(
    host: ImageHost, samples: dict[str, bytes]
) -> None:
    stored = host.upload(samples["sideways.jpg"], owner="admin", convert_to_webp=False)
    assert decoded(master(host, stored)).getexif()[0x010F] == "Camera"
    assert (stored.width, stored.height) == (90, 120)
    removed = host.upload(samples["sideways.jpg"], owner="admin", convert_to_webp=False, remove_exif=True)
    pil_image = decoded(master(host, removed))
    assert dict(pil_image.getexif()) == {}
    assert pil_image.size == (removed.width, removed.height) == (90, 120)
    turned = host.upload(samples["sideways.jpg"], owner="admin", format="webp")
    assert decoded(master(host, turned)).getexif().get(0x0112, 1) == 1
    assert (turned.width, turned.height) == (90, 120)


def test_auto_rename_keeps_the_original_filename(host: ImageHost, samples: dict[str, bytes]) -> None:
    first, second = (
        host.upload(samples["photo.jpg"], owner="admin", filename="../me\n.jpg", auto_rename=True)
        for _ in range(2)
    )
    assert first.original_filename == second.original_filename == "me.jpg"
    assert len({first.filename, second.filename, "me.webp", "me.jpg"}) == 4


def test_description_album_and_visibility_are_stored(host: ImageHost, samples: dict[str, bytes]) -> None:
    album = host.albums.create(owner="admin", name="Cats")
    for album_id in (str(album.id), album):
        image = host.upload(
            samples["photo.jpg"], owner="admin", album_id=album_id, description="A cat", is_public=False
        )
        assert (image.album_id, image.description, image.is_public) == (album.id, "A cat", False)
        assert host.images.get(image.id, owner="admin") == image
        assert next(iter(host.images.list(owner="admin", album_id=album.id))).id == image.id
        assert image.id not in [each.id for each in host.gallery()]


def test_an_owner_is_an_account_or_its_name(host: ImageHost, samples: dict[str, bytes]) -> None:
    account = host.accounts.create("by-account")
    album = host.albums.create(owner=account, name="a")
    assert host.albums.get(album.id, owner=account) == album
    for owner in (account, "by-account"):
        assert host.upload(samples["photo.jpg"], owner=owner).account_id == account.id


def test_options_can_be_given_as_one_value(host: ImageHost, samples: dict[str, bytes]) -> None:
    options = UploadOptions(format=Format.PNG, description="one")
    image = host.upload(samples["photo.jpg"], owner="admin", options=options)
    assert (image.format, image.description) == (Format.PNG, "one")


def test_a_format_takes_precedence_over_the_conversion_to_webp(
    host: ImageHost, samples: dict[str, bytes]
) -> None:
    for convert in (True, False):
        upper: Any = "PNG"
        image = host.upload(samples["photo.jpg"], owner="admin", format=upper, convert_to_webp=convert)
        assert image.format is Format.PNG


@pytest.mark.parametrize(
    "wrong",
    [{"quality": 0}, {"format": "tiff"}, {"convert_to_webp": None}, {"album_id": -1}],
)
def test_a_wrong_option_is_422_before_a_byte_is_read(host: ImageHost, wrong: dict[str, object]) -> None:
    source = io.BytesIO(make_image())
    with pytest.raises(ValidationError):
        host.upload(source, owner="admin", **wrong)  # type: ignore[arg-type]
    assert source.tell() == 0


def test_every_kind_of_source_gives_the_same_master(
    host: ImageHost, samples: dict[str, bytes], tmp_path: Path
) -> None:
    data = samples["photo.jpg"]
    path = tmp_path / "from a path.jpg"
    path.write_bytes(data)
    stream = io.BytesIO(b"skipped" + data)
    stream.seek(len(b"skipped"))
    with host.uploads.stage() as staged, path.open("rb") as file:
        for byte in (data[:10], data[10:]):
            staged.write(byte)
        created = [
            host.upload(source, owner="admin", convert_to_webp=False)
            for source in (data, path, str(path), file, stream, staged, bytearray(data), memoryview(data))
        ]
    assert {image.sha256 for image in created} == {sha256(data).hexdigest()}
    assert [image.original_filename for image in created] == [
        "image",
        "from a path.jpg",
        "from a path.jpg",
        "from a path.jpg",
        *["image"] * 4,
    ]
    assert created[0].filename == "image.jpg"


def test_derivatives_are_stored_beside_the_master_as_recorded(host: ImageHost, folder: Path) -> None:
    file = io.BytesIO()
    PILImage.effect_noise((2400, 1000), 40).convert("RGB").save(file, "JPEG")
    image = host.upload(file.getvalue(), owner="admin", format="jpeg")
    home = folder / "images" / image.id[:2] / image.id
    assert image.derivatives
    for width, height in image.derivatives:
        with PILImage.open(home / derivative_name(max(width, height))) as derivative:
            assert derivative.size == (width, height)
    assert len(list(home.iterdir())) == 1 + len(image.derivatives)


@pytest.fixture
def sqlite_host(tmp_path: Path) -> Iterator[ImageHost]:
    with open_host(tmp_path, settings=Settings(rendering=RenderingSettings(processes=1))) as host:
        yield host


def test_files_are_synced_before_the_record_is_committed(
    sqlite_host: ImageHost, samples: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    fsync, rename = os.fsync, os.rename

    def record_fsync(descriptor: int) -> None:
        log.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        fsync(descriptor)

    def record_rename(source: Path, target: Path) -> None:
        log.append(f"rename {target.name}")
        rename(source, target)

    database = sqlite_host._context.records.database
    assert isinstance(database, SqliteDatabase)
    writer = database._writer
    writer.set_trace_callback(lambda statement: log.append(statement.split()[0]))
    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "rename", record_rename)
    image = sqlite_host.upload(samples["photo.jpg"], owner="admin", convert_to_webp=False)
    writer.set_trace_callback(None)
    steps = [
        "rename master",
        "sync master",
        f"rename {image.id}",
        f"sync {image.id[:2]}",
        "BEGIN",
        "INSERT",
        "COMMIT",
    ]
    positions = [log.index(step) for step in steps]
    assert positions == sorted(positions), log
    assert log[-1] == "COMMIT"


def test_an_upload_leaves_nothing_but_the_master(
    opened: Callable[..., ImageHost], tmp_path: Path, stored_files: Callable[[Path], list[str]]
) -> None:
    host = opened()
    image = host.upload(make_image(), owner="admin")
    assert stored_files(tmp_path / "data") == [f"images/{image.id[:2]}/{image.id}/master"]
    assert host.accounts.usage("admin").bytes == image.size


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Format.WEBP),
        ({"convert_to_webp": False}, Format.JPEG),
        ({"format": "jpeg"}, Format.JPEG),
        ({"format": "png"}, Format.PNG),
    ],
)
def test_a_lossless_jpeg_is_never_stored_unchanged_and_renders_in_every_format(
    host: ImageHost, options: UploadKeywords, expected: Format
) -> None:
    upload = lossless_jpeg(decoded(make_image(64, 48)))
    image = host.upload(upload, owner="admin", **options)
    assert image.format is expected
    stored = master(host, image)
    assert decoded(stored).size == (64, 48)
    if expected is Format.JPEG:
        assert scan(io.BytesIO(stored), len(stored)).is_displayable
    for fmt in ("jpg", "png", "webp", "avif"):
        assert host.render(image.id, f"w=8&fm={fmt}").width == 8


@pytest.mark.parametrize(
    "options", [{}, {"convert_to_webp": False}, {"convert_to_webp": False, "remove_exif": True}]
)
def test_a_png_with_a_bad_checksum_in_its_metadata_is_stored_without_that_chunk(
    host: ImageHost, options: UploadKeywords
) -> None:
    valid = io.BytesIO()
    decoded(make_image(64, 48)).save(valid, "PNG", dpi=(72, 72))
    offset = next(offset for kind, offset in png_chunks(valid.getvalue()) if kind == b"pHYs")
    image = host.upload(with_bad_checksum(valid.getvalue(), offset), owner="admin", **options)
    stored = master(host, image)
    if image.format is Format.PNG:
        assert [kind for kind, _ in png_chunks(stored)] == [b"IHDR", b"IDAT", b"IEND"]
        assert decoded(stored).tobytes() == decoded(make_image(64, 48)).tobytes()
    assert host.render(image.id, "w=8").width == 8


def test_the_default_of_remove_exif_is_a_setting_that_an_upload_overrides(
    opened: Callable[..., ImageHost], tmp_path: Path, samples: dict[str, bytes]
) -> None:
    settings = Settings(rendering=RenderingSettings(processes=1), uploads=UploadSettings(remove_exif=True))
    host = opened(tmp_path / "without-exif", settings)
    removed, kept = (
        host.upload(samples["sideways.jpg"], owner="admin", convert_to_webp=False, remove_exif=value)
        for value in (None, False)
    )
    assert dict(decoded(master(host, removed)).getexif()) == {}
    assert decoded(master(host, kept)).getexif()[0x010F] == "Camera"
