"""Tests of the real tasks in the sandbox: uploads and renders of every format."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from tests.core.workers.image_uploads import heavy, ingest
from tests.unusual_files import png_of_samples

from imagehost_core.errors import InternalError, ValidationError
from imagehost_core.formats import FORMATS, Format
from imagehost_core.jobs import IngestJob, RenderJob
from imagehost_core.transform import ORIGIN, Plan, Size
from imagehost_core.workers.executor import ImageExecutor

UPLOADABLE = [fmt for fmt, traits in FORMATS.items() if traits.stored]


@pytest.fixture(scope="module")
def executor() -> Iterator[ImageExecutor]:
    """An executor with the tasks and the limits of a host."""
    with ImageExecutor(1) as executor:
        yield executor


def image(fmt: Format, *, mode: str = "RGB", frames: int = 1) -> bytes:
    images = [
        Image.linear_gradient("L").resize((64, 48)).rotate(90 * turn).convert(mode) for turn in range(frames)
    ]
    file = io.BytesIO()
    options = {"save_all": True, "append_images": images[1:]} if frames > 1 else {}
    images[0].save(file, fmt.name, **options)
    return file.getvalue()


@pytest.mark.parametrize("fmt", UPLOADABLE)
@pytest.mark.parametrize("stored", UPLOADABLE)
def test_an_upload_of_any_format_is_stored_in_any_format(
    fmt: Format, stored: Format, executor: ImageExecutor
) -> None:
    data = image(fmt)
    job = IngestJob(fmt, requested_format=stored, remove_exif=True, derivative_sides=(16, 8))
    result, blobs = ingest(executor, job, data)
    assert (result.format, result.size, result.frames) == (stored, Size(64, 48), 1)
    assert len(blobs) == 1 + len(result.derivatives)


@pytest.mark.parametrize("stored", UPLOADABLE)
@pytest.mark.parametrize("fmt", Format)
def test_a_variant_of_any_format_is_rendered_from_any_master(
    stored: Format, fmt: Format, executor: ImageExecutor
) -> None:
    data, size = image(stored), Size(30, 20)
    job = RenderJob(Plan(size, ORIGIN, ORIGIN, size), fmt, 80 if FORMATS[fmt].has_quality else None)
    result, variant = executor.render(job, stored, io.BytesIO(data), len(data), heavy())
    assert result.size == size
    with Image.open(io.BytesIO(variant)) as opened:
        assert (opened.format, opened.size) == (fmt.name, (30, 20))


@pytest.mark.parametrize(
    ("fmt", "mode", "frames"),
    [
        (Format.JPEG, "CMYK", 1),
        (Format.PNG, "RGBA", 1),
        (Format.PNG, "I;16", 1),
        (Format.PNG, "P", 1),
        (Format.GIF, "P", 5),
        (Format.WEBP, "RGBA", 3),
    ],
)
def test_uploads_of_unusual_kinds_need_nothing_that_the_sandbox_denies(
    fmt: Format, mode: str, frames: int, executor: ImageExecutor
) -> None:
    data = image(fmt, mode=mode, frames=frames)
    result, _ = ingest(executor, IngestJob(fmt), data)
    assert result.frames == frames


@pytest.mark.parametrize("target", [Format.WEBP, Format.PNG, Format.JPEG])
@pytest.mark.parametrize(
    "chunks",
    [
        [(b"cICP", bytes((12, 13, 0, 1)))],
        [(b"cICP", bytes((9, 16, 0, 1))), (b"tRNS", struct.pack(">3H", 1, 2, 3))],
        [(b"gAMA", struct.pack(">I", 100_000)), (b"cHRM", struct.pack(">8I", *range(20_000, 28_000, 1_000)))],
        [(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(b"<a tiff:Orientation='6'/>"))],
        [(b"eXIf", b"II*\0\x08\0\0\0\0\0\x0e\0\0\0\0\0\0\0\0\0")],
    ],
)
@pytest.mark.parametrize("depth", [8, 16])
def test_chunks_of_a_png_need_nothing_that_the_sandbox_denies(
    executor: ImageExecutor, depth: int, chunks: list[tuple[bytes, bytes]], target: Format
) -> None:
    data = png_of_samples([[1, 2, 3, 40, 50, 60]], 2, depth, *chunks)
    job = IngestJob(Format.PNG, requested_format=target)
    result, _ = ingest(executor, job, data)
    assert result.size == Size(2, 1)
    steps = Plan(result.size, ORIGIN, ORIGIN, result.size)
    assert executor.render(
        RenderJob(steps, Format.PNG, None), Format.PNG, io.BytesIO(data), len(data), heavy()
    )


def test_a_damaged_upload_is_rejected_and_the_next_is_accepted(executor: ImageExecutor) -> None:
    data = image(Format.JPEG)
    with pytest.raises(ValidationError):
        ingest(executor, IngestJob(Format.JPEG), data[: len(data) // 2])
    assert ingest(executor, IngestJob(Format.JPEG), data)


def test_a_damaged_source_of_a_render_is_an_internal_error_with_its_cause(executor: ImageExecutor) -> None:
    data = image(Format.JPEG)
    job = RenderJob(Plan(Size(9, 6), ORIGIN, ORIGIN, Size(9, 6)), Format.PNG, None)
    with pytest.raises(InternalError) as caught:
        executor.render(job, Format.JPEG, io.BytesIO(data), len(data) // 2, heavy())
    assert "DamagedSourceError" in str(caught.value.__cause__)


@pytest.mark.skipif(sys.platform != "linux", reason="the test reads /proc")
def test_a_ready_worker_process_has_one_thread_and_is_sandboxed_whole(executor: ImageExecutor) -> None:
    sandbox = executor.status()
    (pid,) = executor.worker_pids
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    fields = dict(line.split(":\t") for line in status.splitlines())
    assert (fields["Threads"], fields["NoNewPrivs"]) == ("1", "1")
    assert ("seccomp" in sandbox.applied) == (fields["Seccomp"] == "2")
