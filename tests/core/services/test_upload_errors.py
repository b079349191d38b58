"""Refused uploads: each bad input has its error and leaves nothing."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image as PILImage

from imagehost_core import (
    ImageHost,
    ImageHostError,
    InsufficientStorageError,
    NotFoundError,
    PayloadTooLargeError,
    Settings,
    UnsupportedMediaTypeError,
    ValidationError,
)
from imagehost_core.limits import MAX_FILE_BYTES
from imagehost_core.settings import LimitSettings, RenderingSettings, StorageSettings
from imagehost_core.testing import make_image
from imagehost_core.uploads import UploadKeywords

ONE_WORKER = Settings(rendering=RenderingSettings(processes=1))
PNG = make_image(40, 30)
UNCHANGED: UploadKeywords = {"convert_to_webp": False}


@pytest.fixture
def refused(
    host: ImageHost, folder: Path, stored_files: Callable[[Path], list[str]]
) -> Iterator[Callable[..., str]]:
    """Upload a file that must be refused, return the details, and assert that nothing is left."""

    def refuse(source: object, error: type[ImageHostError], **options: object) -> str:
        before = (stored_files(folder), host.images.list(owner="admin").total, host.accounts.usage("admin"))
        with pytest.raises(error) as caught:
            host.upload(source, owner="admin", **options)  # type: ignore[arg-type]
        assert (
            stored_files(folder),
            host.images.list(owner="admin").total,
            host.accounts.usage("admin"),
        ) == before
        return caught.value.details

    yield refuse
    host.upload(PNG, owner="admin")


class Zeros(io.RawIOBase):
    """A sparse file of a given length."""

    def __init__(self, size: int) -> None:
        self.left = size

    def read(self, size: int = -1, /) -> bytes:
        count = min(size, self.left)
        self.left -= count
        return bytes(count)


def test_a_file_over_the_limit_is_413_with_both_sizes(refused: Callable[..., str]) -> None:
    details = refused(Zeros(MAX_FILE_BYTES + 1), PayloadTooLargeError)
    assert "52428800 bytes" in details
    assert "52428801 bytes" in details


def test_a_file_at_the_limit_is_accepted(refused: Callable[..., str]) -> None:
    refused(Zeros(MAX_FILE_BYTES), UnsupportedMediaTypeError)


def _avif() -> bytes:
    file = io.BytesIO()
    PILImage.new("RGB", (8, 8)).save(file, "AVIF")
    return file.getvalue()


def _tiff() -> bytes:
    file = io.BytesIO()
    PILImage.new("RGB", (8, 8)).save(file, "TIFF")
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x89",
        b"hello",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%PDF-1.7",
        b"BM",
        _avif(),
        _tiff(),
    ],
    ids=["empty", "one byte", "text", "svg", "pdf", "bmp", "avif", "tiff"],
)
def test_content_of_another_kind_is_415_whatever_its_name(
    refused: Callable[..., str], content: bytes
) -> None:
    refused(content, UnsupportedMediaTypeError, filename="cat.png")


def _jpeg() -> bytes:
    file = io.BytesIO()
    PILImage.effect_noise((64, 64), 90).convert("RGB").save(file, "JPEG")
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        PNG[:-20],
        PNG[:60] + bytes(30) + PNG[90:],
        PNG[:16] + b"\x00\x01\x00\x00" + PNG[20:],
        _jpeg()[: len(_jpeg()) // 2],
        b"GIF89a" + bytes(20),
        b"RIFF\x10\x00\x00\x00WEBPVP8 ",
    ],
    ids=["cut png", "torn png", "too wide png", "cut jpeg", "empty gif", "empty webp"],
)
def test_a_damaged_image_is_422(refused: Callable[..., str], content: bytes) -> None:
    assert "expected" in refused(content, ValidationError)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(9, len(PNG) - 13))
def test_an_image_cut_anywhere_is_422(refused: Callable[..., str], cut: int) -> None:
    refused(PNG[:cut], ValidationError)


def test_an_unknown_or_foreign_album_is_422(host: ImageHost, refused: Callable[..., str]) -> None:
    foreign = host.albums.create(owner=host.accounts.get_or_create("other"), name="theirs")
    assert "album_id" in refused(PNG, ValidationError, album_id=foreign.id)
    assert "album_id" in refused(PNG, ValidationError, album_id=10**9)


def test_an_unknown_album_is_reported_before_the_file_is_scanned(
    refused: Callable[..., str],
) -> None:
    assert "album_id" in refused(b"no image", ValidationError, album_id=10**9)


def test_an_account_name_with_another_character_is_422(host: ImageHost) -> None:
    with pytest.raises(ValidationError, match="for name"):
        host.accounts.get_or_create("no/body")
    with pytest.raises(NotFoundError):
        host.accounts.get("no/body")


def test_an_aborted_upload_leaves_nothing(
    host: ImageHost, folder: Path, stored_files: Callable[[Path], list[str]]
) -> None:
    class HangingUp(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise ConnectionResetError
            return super().read(size and 100)

    before = stored_files(folder)
    with pytest.raises(ConnectionResetError):
        host.upload(HangingUp(PNG), owner="admin")
    assert stored_files(folder) == before


def test_a_missing_file_is_a_file_not_found_error(host: ImageHost, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        host.upload(tmp_path / "nothing.png", owner="admin")


def with_limits(**limits: int) -> Settings:
    return attrs.evolve(ONE_WORKER, limits=LimitSettings(**limits))


def test_the_quota_is_filled_to_the_byte_and_never_exceeded(
    opened: Callable[..., ImageHost], tmp_path: Path, stored_files: Callable[[Path], list[str]]
) -> None:
    host = opened(settings=with_limits(quota_bytes=2 * len(PNG)))
    first, _second = (host.upload(PNG, owner="admin", **UNCHANGED) for _ in range(2))
    assert host.accounts.usage("admin").bytes == 2 * len(PNG)
    stored = stored_files(tmp_path / "data")
    with pytest.raises(InsufficientStorageError, match=f"at most 0 bytes more .* received {len(PNG)} bytes"):
        host.upload(PNG, owner="admin", **UNCHANGED)
    host.upload(PNG, owner=host.accounts.get_or_create("other"), **UNCHANGED)
    host.images.delete(first.id)
    with pytest.raises(InsufficientStorageError, match=f"at most {len(PNG)} bytes more"):
        host.upload(make_image(60, 60), owner="admin", **UNCHANGED)
    host.upload(PNG, owner="admin", **UNCHANGED)
    assert host.accounts.usage("admin").bytes == 2 * len(PNG)
    assert len(stored_files(tmp_path / "data")) == len(stored) + 1


def test_a_master_larger_than_the_quota_leaves_nothing(
    opened: Callable[..., ImageHost], tmp_path: Path, stored_files: Callable[[Path], list[str]]
) -> None:
    host = opened(settings=with_limits(quota_bytes=len(PNG) - 1))
    with pytest.raises(InsufficientStorageError, match=f"at most {len(PNG) - 1} bytes more"):
        host.upload(PNG, owner="admin", **UNCHANGED)
    assert stored_files(tmp_path / "data") == []
    assert host.accounts.usage("admin").bytes == 0


def test_an_upload_below_the_minimum_free_space_is_507(
    opened: Callable[..., ImageHost], tmp_path: Path, stored_files: Callable[[Path], list[str]]
) -> None:
    host = opened(settings=attrs.evolve(ONE_WORKER, storage=StorageSettings(min_free_bytes=2**62)))
    with pytest.raises(InsufficientStorageError, match="left free"):
        host.upload(PNG, owner="admin")
    with pytest.raises(InsufficientStorageError):
        host.uploads.stage()
    assert stored_files(tmp_path / "data") == []


def _noise(side: int) -> bytes:
    file = io.BytesIO()
    PILImage.effect_noise((side, side), 90).save(file, "PNG")
    return file.getvalue()


def test_a_master_larger_than_its_upload_is_507_below_the_minimum_free_space(
    opened: Callable[..., ImageHost],
    small_disk: Callable[..., Path],
    stored_files: Callable[[Path], list[str]],
) -> None:
    disk = small_disk("16m", 5_000)
    file = io.BytesIO()
    PILImage.effect_noise((1_000, 1_000), 90).convert("RGB").save(file, "JPEG", quality=30)
    min_free_bytes = 16 * 2**20 - 2**19 - 4 * len(file.getvalue())
    host = opened(disk, attrs.evolve(ONE_WORKER, storage=StorageSettings(min_free_bytes=min_free_bytes)))
    host.upload(file.getvalue(), owner="admin", **UNCHANGED)
    stored = stored_files(disk)
    with pytest.raises(InsufficientStorageError, match="left free"):
        host.upload(file.getvalue(), owner="admin", format="png")
    assert stored_files(disk) == stored


def test_an_upload_is_507_if_a_master_of_its_size_would_be_below_the_minimum_free_space(
    opened: Callable[..., ImageHost],
    small_disk: Callable[..., Path],
    stored_files: Callable[[Path], list[str]],
) -> None:
    """It is refused before any image work, although its master would be small."""
    disk = small_disk("32m", 5_000)
    file = io.BytesIO()
    PILImage.effect_noise((2_000, 2_000), 90).save(file, "JPEG", quality=70)
    size = len(file.getvalue())
    min_free_bytes = 32 * 2**20 - 2**19 - size * 3 // 2
    host = opened(disk, attrs.evolve(ONE_WORKER, storage=StorageSettings(min_free_bytes=min_free_bytes)))
    with pytest.raises(InsufficientStorageError, match=f"left free after writing {size}"):
        host.upload(file.getvalue(), owner="admin", format="jpeg", quality=1)
    assert stored_files(disk) == []


def test_a_full_disk_at_any_step_is_507_and_leaves_nothing(
    opened: Callable[..., ImageHost],
    small_disk: Callable[..., Path],
    stored_files: Callable[[Path], list[str]],
) -> None:
    """The free space shrinks step by step, so that each step of an upload finds the disk full once."""
    disk = small_disk("8m", 5_000)
    host = opened(disk, attrs.evolve(ONE_WORKER, storage=StorageSettings(min_free_bytes=0)))
    pil_image = _noise(400)
    stored = [host.upload(pil_image, owner="admin", format="png")]
    ballast, outcomes = disk / "ballast", set()
    for free_kib in (0, 20, 60, 100, 140, 160, 180, 200, 260, 320, 340, 360, 400, 600):
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(4_096)) == 4_096:
                pass
        with ballast.open("r+b") as file:
            file.truncate(max(0, ballast.stat().st_size - free_kib * 1_024))
        try:
            stored.append(host.upload(pil_image, owner="admin", format="png"))
            outcomes.add("stored")
        except InsufficientStorageError:
            outcomes.add("refused")
        assert {path.split("/")[2] for path in stored_files(disk)} == {image.id for image in stored}
        assert {image.id for image in host.images.list(owner="admin")} == {image.id for image in stored}
        assert host.accounts.usage("admin").bytes == sum(image.size for image in stored)
    assert outcomes == {"stored", "refused"}
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        while file.write(bytes(4_096)) == 4_096:
            pass
    for image in stored:
        assert len(host.render(image.id).data) == image.size
        assert host.render(image.id, "w=40&fm=png").width == 40
    ballast.unlink()
    for image in stored:
        host.images.delete(image.id)
    assert stored_files(disk) == []
