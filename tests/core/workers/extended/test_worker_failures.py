"""Tests of the errors that failures of worker processes become: 422 for an upload, 503 for a render."""

from __future__ import annotations

import io
import sys
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.core.workers.image_uploads import heavy, ingest

from imagehost_core.errors import ImageHostError, InternalError, UnavailableError, ValidationError
from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob, IngestResult, RenderJob, RenderResult
from imagehost_core.sandbox import SandboxLimits
from imagehost_core.transform import ORIGIN, Plan, Size
from imagehost_core.workers import failures, messages
from imagehost_core.workers.costs import LIGHT_MEMORY_BYTES, Cost
from imagehost_core.workers.executor import ImageExecutor
from imagehost_core.workers.lanes import Lane
from imagehost_core.workers.memory import MemorySettings

MakeExecutor = Callable[..., ImageExecutor]

UPLOAD = IngestJob(Format.GIF, derivative_sides=(4, 2))
THUMBNAIL = RenderJob(Plan(Size(3, 3), ORIGIN, ORIGIN, Size(3, 3)), Format.PNG, None)
LIMITS = SandboxLimits(memory_bytes=2**29)


def upload(
    executor: ImageExecutor, data: bytes, *, timeout_seconds: float = 60
) -> tuple[IngestResult, list[bytes]]:
    return ingest(executor, UPLOAD, data, heavy(timeout_seconds))


def render(
    executor: ImageExecutor, data: bytes, *, timeout_seconds: float = 60
) -> tuple[RenderResult, bytes]:
    return executor.render(THUMBNAIL, Format.WEBP, io.BytesIO(data), len(data), heavy(timeout_seconds))


def test_an_upload_returns_its_blobs(make_executor: MakeExecutor) -> None:
    result, blobs = upload(make_executor(), b"image")
    assert result.derivatives == (Size(4, 4), Size(2, 2))
    assert blobs == [b"image"] * 3


def test_a_render_returns_its_variant(make_executor: MakeExecutor) -> None:
    assert render(make_executor(), b"image") == (RenderResult(Size(3, 3), 1), b"webp:image")


@pytest.mark.parametrize(
    ("data", "timeout_seconds", "details"),
    [
        (b"spin", 0.5, "processed within 0.5 seconds for the file but received one that took longer"),
        (b"segfault", 60, "received one on which the decoder failed"),
        (b"exit_3", 60, "received one on which the decoder failed"),
        (b"write_garbage", 60, "received one on which the decoder failed"),
        (b"too few", 60, "received one on which the decoder failed"),
        (
            b"exhaust_memory",
            60,
            "an image that can be processed with 536870912 bytes of memory "
            "(IMAGEHOST_RENDERING_MEMORY_LIMIT_BYTES) for the file but received one that needs more",
        ),
        (b"raise_validation_error", 60, "expected a whole one for the image but received half of one"),
    ],
)
def test_an_upload_that_the_decoder_cannot_process_is_invalid(
    data: bytes, timeout_seconds: float, details: str, make_executor: MakeExecutor
) -> None:
    executor = make_executor(limits=LIMITS)
    upload(executor, b"a valid upload first, so that the worker process is ready")
    with pytest.raises(ValidationError) as caught:
        upload(executor, data, timeout_seconds=timeout_seconds)
    assert details in caught.value.details
    assert upload(executor, b"and a valid upload after")


@pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: the CPU time of other processes")
@pytest.mark.parametrize("run", [upload, render])
def test_a_worker_that_hangs_without_using_the_cpu_is_no_fault_of_the_file(
    run: Callable[..., object], make_executor: MakeExecutor
) -> None:
    executor = make_executor(limits=LIMITS)
    run(executor, b"a valid image first, so that the worker process is ready")
    with pytest.raises(
        UnavailableError, match="expected a worker to process the image but it hangs"
    ) as caught:
        run(executor, b"sleep", timeout_seconds=0.5)
    assert isinstance(caught.value.__cause__, failures.WorkerHung)
    assert run(executor, b"and a valid image after")


def test_an_upload_that_may_need_more_memory_than_the_budget_says_so_and_not_a_time(
    make_executor: MakeExecutor,
) -> None:
    executor = make_executor(memory=MemorySettings(total_bytes=2**30))
    allowed = 2**30 - LIGHT_MEMORY_BYTES
    with pytest.raises(ValidationError) as caught:
        ingest(executor, UPLOAD, b"image", Cost(Lane.HEAVY, 2**31).request(60))
    assert caught.value.details == (
        f"expected an image that can be processed with {allowed} bytes of memory "
        "(IMAGEHOST_RENDERING_MEMORY_BUDGET_BYTES) for the file but received one that needs more"
    )


@pytest.mark.parametrize(
    ("data", "timeout_seconds", "details"),
    [
        (b"spin", 0.5, "rendering the image took too long"),
        (b"segfault", 60, "rendering the image failed"),
        (b"exhaust_memory", 60, "rendering the image needs more memory than is allowed"),
    ],
)
def test_a_render_that_fails_is_a_temporary_error(
    data: bytes, timeout_seconds: float, details: str, make_executor: MakeExecutor
) -> None:
    executor = make_executor(limits=LIMITS)
    render(executor, b"a valid image first, so that the worker process is ready")
    with pytest.raises(UnavailableError, match=details) as caught:
        render(executor, data, timeout_seconds=timeout_seconds)
    assert caught.value.retry_after >= 1
    assert isinstance(caught.value.__cause__, failures.WorkerFailure)
    assert render(executor, b"and a valid image after")


@pytest.mark.skipif(sys.platform == "win32", reason="NOT TESTED: Windows has no interval timers")
@pytest.mark.parametrize(
    ("run", "error", "details"),
    [
        (upload, ValidationError, r"processed within 0\.2 seconds of CPU time for the file"),
        (render, UnavailableError, "rendering the image takes too much CPU time"),
    ],
)
def test_a_task_beyond_its_cpu_time_fails_long_before_its_deadline(
    run: Callable[..., object], error: type[Exception], details: str, make_executor: MakeExecutor
) -> None:
    executor = make_executor(limits=SandboxLimits(memory_bytes=2**29, task_cpu_seconds=0.2))
    with pytest.raises(error, match=details) as caught:
        run(executor, b"spin", timeout_seconds=600)
    assert isinstance(caught.value.__cause__, failures.CpuTimeExceeded)
    assert run(executor, b"and a valid image after")


def test_requests_for_the_same_variant_share_the_failure_of_a_task_beyond_its_cpu_time() -> None:
    error = failures.RENDER_ERRORS[failures.CpuTimeExceeded](failures.CpuTimeExceeded("killed", 10))
    error.__cause__ = failures.CpuTimeExceeded("killed", 10)
    assert failures.shared_error(error) == messages.from_exception(error)


def test_an_upload_whose_worker_was_killed_from_outside_is_not_invalid(make_executor: MakeExecutor) -> None:
    executor = make_executor(limits=SandboxLimits(seccomp=False))
    with pytest.raises(UnavailableError, match="interrupted"):
        upload(executor, b"kill_self")


def test_an_unexpected_error_of_a_task_is_an_internal_error(make_executor: MakeExecutor) -> None:
    for call in (upload, render):
        with pytest.raises(InternalError) as caught:
            call(make_executor(), b"raise_unexpected")
        assert "secret" not in str(caught.value)
        assert "a secret of the server" in str(caught.value.__cause__)


@pytest.mark.parametrize("errors", [failures.UPLOAD_ERRORS, failures.RENDER_ERRORS])
def test_every_failure_has_an_error(
    errors: Mapping[type[failures.WorkerFailure], failures.ErrorMapper],
) -> None:
    assert set(errors) == {
        *failures.WorkerFailure.__subclasses__(),
        *failures.DeadlineExceeded.__subclasses__(),
    }
    for kind, error in errors.items():
        assert isinstance(error(kind("message", 3)), ImageHostError)


def test_each_blob_of_an_upload_can_be_written_to_a_file(make_executor: MakeExecutor, tmp_path: Path) -> None:
    result, paths = make_executor().ingest(UPLOAD, io.BytesIO(b"image"), 5, heavy(), into=tmp_path)
    assert len(paths) == 1 + len(result.derivatives)
    assert [path.read_bytes() for path in paths] == [b"image"] * 3
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_a_file_that_cannot_be_written_raises_its_error(make_executor: MakeExecutor, tmp_path: Path) -> None:
    (tmp_path / "blob-1").write_bytes(b"another file")
    executor = make_executor()
    with pytest.raises(FileExistsError):
        executor.ingest(UPLOAD, io.BytesIO(b"image"), 5, heavy(), into=tmp_path)
    assert (tmp_path / "blob-1").read_bytes() == b"another file"
    assert upload(executor, b"and a valid upload after")


def test_blobs_written_to_files_are_never_in_memory_whole(
    make_executor: MakeExecutor, tmp_path: Path
) -> None:
    length = 40 * 2**20
    (tmp_path / "source").write_bytes(bytes(length))
    (tmp_path / "blobs").mkdir()
    executor = make_executor()
    upload(executor, b"a small upload first")
    tracemalloc.start()
    try:
        with (tmp_path / "source").open("rb", buffering=0) as source:
            _, paths = executor.ingest(UPLOAD, source, length, heavy(), into=tmp_path / "blobs")
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
    assert [path.stat().st_size for path in paths] == [length] * 3
