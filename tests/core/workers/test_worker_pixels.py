"""The recipes of the pixel room run inside the cage, for every format."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from imagehost_core.errors import ValidationError
from imagehost_core.formats import FORMATS, Format
from imagehost_core.jobs import IngestJob, RenderJob
from imagehost_core.transform.geometry import ORIGIN, Plan, Size
from imagehost_core.workers import ImageExecutor

UPLOADABLE = [fmt for fmt, traits in FORMATS.items() if traits.uploadable]


@pytest.fixture(scope="module")
def studio() -> Iterator[ImageExecutor]:
    """A pool with the tasks and the limits that a host uses."""
    with ImageExecutor(1) as pool:
        yield pool


def picture(fmt: Format, *, mode: str = "RGB", frames: int = 1) -> bytes:
    images = [
        Image.linear_gradient("L").resize((64, 48)).rotate(90 * turn).convert(mode) for turn in range(frames)
    ]
    file = io.BytesIO()
    more = {"save_all": True, "append_images": images[1:]} if frames > 1 else {}
    images[0].save(file, fmt.name, **more)
    return file.getvalue()


@pytest.mark.parametrize("fmt", UPLOADABLE)
@pytest.mark.parametrize("wanted", UPLOADABLE)
def test_an_upload_of_any_format_is_stored_in_any_format(
    fmt: Format, wanted: Format, studio: ImageExecutor
) -> None:
    data = picture(fmt)
    job = IngestJob(fmt, wanted=wanted, remove_exif=True, derivative_sides=(16, 8))
    made, blobs = studio.ingest(job, io.BytesIO(data), len(data), deadline=60)
    assert (made.format, made.size, made.frames) == (wanted, Size(64, 48), 1)
    assert len(blobs) == 1 + len(made.derivatives)


@pytest.mark.parametrize("stored", UPLOADABLE)
@pytest.mark.parametrize("fmt", Format)
def test_a_variant_of_any_format_is_made_of_any_master(
    stored: Format, fmt: Format, studio: ImageExecutor
) -> None:
    data, size = picture(stored), Size(30, 20)
    job = RenderJob(Plan(size, ORIGIN, ORIGIN, size), fmt, 80 if FORMATS[fmt].has_quality else None)
    made, variant = studio.render(job, stored, io.BytesIO(data), len(data), deadline=60)
    assert made.size == size
    with Image.open(io.BytesIO(variant)) as image:
        assert (image.format, image.size) == (fmt.name, (30, 20))


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
def test_unusual_uploads_meet_no_door_of_the_cage(
    fmt: Format, mode: str, frames: int, studio: ImageExecutor
) -> None:
    data = picture(fmt, mode=mode, frames=frames)
    made, _ = studio.ingest(IngestJob(fmt), io.BytesIO(data), len(data), deadline=60)
    assert made.frames == frames


def test_a_damaged_upload_is_refused_and_the_next_is_taken(studio: ImageExecutor) -> None:
    data = picture(Format.JPEG)
    with pytest.raises(ValidationError):
        studio.ingest(IngestJob(Format.JPEG), io.BytesIO(data), len(data) // 2, deadline=60)
    assert studio.ingest(IngestJob(Format.JPEG), io.BytesIO(data), len(data), deadline=60)


@pytest.mark.skipif(sys.platform != "linux", reason="the tests look into /proc")
def test_a_warm_worker_has_one_thread_and_is_confined_whole(
    studio: ImageExecutor,
) -> None:
    with studio._acquired(60) as worker:
        status = Path(f"/proc/{worker.pid}/status").read_text(encoding="utf-8")
        caged = worker.ready()
    facts = dict(line.split(":\t") for line in status.splitlines())
    assert (facts["Threads"], facts["NoNewPrivs"]) == ("1", "1")
    assert ("seccomp" in caged.in_force) == (facts["Seccomp"] == "2")
