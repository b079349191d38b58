"""The memory that the headers of files ask for, and the peaks of worker processes."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator

import pytest
from PIL import Image
from tests.hostile_files import HOSTILE_FILES, animated_webp, progressive_jpeg

from imagehost_core.formats import Format
from imagehost_core.headers.scanner import scan
from imagehost_core.jobs import IngestJob, RenderJob
from imagehost_core.sandbox import SandboxLimits
from imagehost_core.transform import Size, parse_transform, plan
from imagehost_core.workers import messages
from imagehost_core.workers.costs import ingest_cost, render_cost
from imagehost_core.workers.executor import TASKS
from imagehost_core.workers.lanes import WorkerRequest
from imagehost_core.workers.pool import ProcessPool
from imagehost_core.workers.process import Worker, WorkerSpec

SIZE = (2_400, 2_000)
CONVERSIONS = (None, Format.GIF)
FRAMES = 600
FAST = {"WEBP": {"lossless": True, "method": 0}}


def saved(mode: str, kind: str, frames: int = 1, size: tuple[int, int] = SIZE, **options: object) -> bytes:
    noise = Image.effect_noise(size, 60)
    image = Image.merge("RGBA", [noise, noise.transpose(Image.Transpose.ROTATE_180), noise, noise])
    image = image.convert(mode) if mode != "P" else image.convert("RGB").quantize()
    file = io.BytesIO()
    if frames > 1:
        options |= {"save_all": True, "append_images": [image.rotate(9 * turn) for turn in range(1, frames)]}
    image.save(file, kind, **options)
    return file.getvalue()


def many_frames(kind: str, size: tuple[int, int]) -> bytes:
    """Return an animation of 600 frames of few colours, whose file is small."""
    frames = [
        Image.new("RGBA", size, (turn % 256, turn // 3, 128, 160 + turn % 90)) for turn in range(FRAMES)
    ]
    file = io.BytesIO()
    frames[0].save(file, kind, save_all=True, append_images=frames[1:], **FAST.get(kind, {}))
    return file.getvalue()


FILES: dict[str, Callable[[], bytes]] = {
    "JPEG": lambda: saved("RGB", "JPEG"),
    "progressive JPEG": lambda: saved("RGB", "JPEG", progressive=True, subsampling=0, quality=75),
    "progressive CMYK": lambda: saved("CMYK", "JPEG", progressive=True),
    "JPEG of many scans": lambda: progressive_jpeg(2_000, 20),
    "PNG": lambda: saved("RGB", "PNG", compress_level=1),
    "PNG with alpha": lambda: saved("RGBA", "PNG", compress_level=1),
    "PNG with palette": lambda: saved("P", "PNG", compress_level=1),
    "tall PNG with alpha": lambda: saved("RGBA", "PNG", size=(73, 65_535), compress_level=1),
    "wide PNG": lambda: saved("RGB", "PNG", size=(65_535, 73), compress_level=1),
    "tall JPEG": lambda: saved("RGB", "JPEG", size=(73, 65_500)),
    "WebP": lambda: saved("RGB", "WEBP", method=0),
    "lossless WebP with alpha": lambda: saved("RGBA", "WEBP", lossless=True, method=0, quality=0),
    "animated WebP": lambda: saved("RGB", "WEBP", frames=3, method=0),
    "tiny frame on a large canvas": lambda: animated_webp(3_000, 1)(0),
    "tiny frames on a large canvas": lambda: animated_webp(3_000, 4)(0),
    "many tiny frames": lambda: animated_webp(387, 400)(0),
    "PNG of 190,000 parts": lambda: HOSTILE_FILES["PNG: 190,000 palettes"][0](2**23),
    "GIF of tiny frames on a large canvas": lambda: HOSTILE_FILES["GIF: 16 frames of 1×1 on 3000×3000"][0](0),
    "progressive JPEG, rotated": lambda: saved(
        "RGB",
        "JPEG",
        progressive=True,
        subsampling=0,
        exif=b"Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0",
    ),
    "GIF": lambda: saved("P", "GIF"),
    "animated GIF": lambda: saved("P", "GIF", frames=3),
    "GIF of many frames": lambda: many_frames("GIF", (200, 180)),
    "WebP of many frames": lambda: many_frames("WEBP", (200, 180)),
}


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    """A pool that starts a worker process for each task, so that each has a peak of its own."""
    limits = SandboxLimits(task_cpu_seconds=0)
    pool = ProcessPool(
        WorkerSpec(TASKS, limits), size=1, queue=1, max_tasks_per_worker=2, max_worker_bytes=2**40
    )
    yield pool
    pool.close()


def render(worker: Worker, file: bytes, fmt: Format, job: RenderJob) -> int:
    """Render a variant; return the peak of the worker process in bytes."""
    arguments = messages.to_json((job, fmt))
    result, lengths = worker.request("render", arguments, io.BytesIO(file), len(file))
    worker.read_blobs(lengths, b"".join)
    assert result.error is None
    return result.usage.peak_bytes


def ingest(worker: Worker, file: bytes, fmt: Format, requested: Format | None = None) -> int:
    """Ingest a file; return the peak of the worker process in bytes."""
    job = IngestJob(fmt, requested_format=requested, remove_exif=True)
    arguments = messages.to_json((job,))
    result, lengths = worker.request("ingest", arguments, io.BytesIO(file), len(file))
    worker.read_blobs(lengths, b"".join)
    assert result.error is None
    return result.usage.peak_bytes


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_an_upload_needs_no_more_memory_than_its_headers_ask_for(pool: ProcessPool, name: str) -> None:
    file, tiny = FILES[name](), io.BytesIO()
    Image.new("RGB", (9, 9)).save(tiny, "PNG")
    header = scan(io.BytesIO(file), len(file))
    for requested in CONVERSIONS:
        cost = ingest_cost(
            header.format,
            Size(*header.canvas_extent),
            frames=header.frames,
            has_alpha=header.has_alpha,
            length=len(file),
            scans=header.scans,
            requested=requested,
        )
        with pool.acquire(WorkerRequest(time.monotonic() + 600)) as worker:
            idle = ingest(worker, tiny.getvalue(), Format.PNG)
            peak = ingest(worker, file, header.format, requested)
        assert 0 < peak - idle <= cost.memory_bytes, requested


@pytest.mark.slow
@pytest.mark.parametrize("fmt", [Format.GIF, Format.WEBP])
def test_a_variant_of_many_frames_needs_no_more_memory_than_its_headers_ask_for(
    pool: ProcessPool, fmt: Format
) -> None:
    size, tiny = Size(16, 16), io.BytesIO()
    file = many_frames("GIF", (size.width, size.height))
    frames = scan(io.BytesIO(file), len(file)).frames
    steps = plan(size, parse_transform("w=190"))
    job = RenderJob(plan=steps, format=fmt, quality=80 if fmt is Format.WEBP else None, animated=True)
    cost = render_cost(job, Format.GIF, size, frames)
    Image.new("RGB", (9, 9)).save(tiny, "PNG")
    with pool.acquire(WorkerRequest(time.monotonic() + 600)) as worker:
        idle = ingest(worker, tiny.getvalue(), Format.PNG)
        peak = render(worker, file, Format.GIF, job)
    assert 0 < peak - idle <= cost.memory_bytes
