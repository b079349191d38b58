"""What happens to a worker becomes the error of the contract: an upload's fault, or trouble of the moment."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from imagehost_core.errors import ImageHostError, InternalError, UnavailableError, ValidationError
from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob, IngestResult, RenderJob, RenderResult
from imagehost_core.transform.geometry import ORIGIN, Plan, Size
from imagehost_core.workers import ImageExecutor, SandboxLimits
from imagehost_core.workers import failures as mishaps

MakePool = Callable[..., ImageExecutor]

UPLOAD = IngestJob(Format.GIF, derivative_sides=(4, 2))
THUMB = RenderJob(Plan(Size(3, 3), ORIGIN, ORIGIN, Size(3, 3)), Format.PNG, None)
LIMITS = SandboxLimits(memory_bytes=2**29)


def upload(pool: ImageExecutor, data: bytes, *, deadline: float = 60) -> tuple[IngestResult, list[bytes]]:
    return pool.ingest(UPLOAD, io.BytesIO(data), len(data), deadline=deadline)


def thumb(pool: ImageExecutor, data: bytes, *, deadline: float = 60) -> tuple[RenderResult, bytes]:
    return pool.render(THUMB, Format.WEBP, io.BytesIO(data), len(data), deadline=deadline)


def test_an_upload_comes_back_with_its_blobs(make_pool: MakePool) -> None:
    made, blobs = upload(make_pool(), b"picture")
    assert made.derivatives == (Size(4, 4), Size(2, 2))
    assert blobs == [b"picture"] * 3


def test_a_render_comes_back_with_its_variant(make_pool: MakePool) -> None:
    assert thumb(make_pool(), b"picture") == (RenderResult(Size(3, 3), 1), b"webp:picture")


@pytest.mark.parametrize(
    ("data", "deadline", "details"),
    [
        (b"sleep", 0.5, "decoded within 0.5 seconds for the file but received one that took longer"),
        (b"spin", 0.5, "decoded within 0.5 seconds for the file but received one that took longer"),
        (b"crash", 60, "received one on which the decoder failed"),
        (b"leave", 60, "received one on which the decoder failed"),
        (b"babble", 60, "received one on which the decoder failed"),
        (b"too few", 60, "received one on which the decoder failed"),
        (b"hoard", 60, "received one that needs more memory than is allowed"),
        (b"refuse", 60, "expected a whole one for the image but received half of one"),
    ],
)
def test_an_upload_that_its_decoder_cannot_take_is_at_fault(
    data: bytes, deadline: float, details: str, make_pool: MakePool
) -> None:
    pool = make_pool(limits=LIMITS)
    upload(pool, b"a good one first, so that the worker is warm")
    with pytest.raises(ValidationError) as caught:
        upload(pool, data, deadline=deadline)
    assert details in caught.value.details
    assert upload(pool, b"and a good one after")


@pytest.mark.parametrize(
    ("data", "deadline", "details"),
    [
        (b"sleep", 0.5, "the picture took too long to make"),
        (b"crash", 60, "the picture could not be made"),
        (b"hoard", 60, "the picture needs more memory than is allowed"),
    ],
)
def test_a_render_that_fails_is_trouble_of_the_moment(
    data: bytes, deadline: float, details: str, make_pool: MakePool
) -> None:
    pool = make_pool(limits=LIMITS)
    thumb(pool, b"a good one first, so that the worker is warm")
    with pytest.raises(UnavailableError, match=details) as caught:
        thumb(pool, data, deadline=deadline)
    assert caught.value.retry_after >= 1
    assert isinstance(caught.value.__cause__, mishaps.WorkerFailure)
    assert thumb(pool, b"and a good one after")


def test_a_worker_that_somebody_else_ended_says_nothing_about_the_upload(make_pool: MakePool) -> None:
    pool = make_pool(limits=SandboxLimits(seccomp=False))
    with pytest.raises(UnavailableError, match="interrupted"):
        upload(pool, b"killed_from_outside")


def test_a_mistake_of_the_worker_is_our_own_fault(make_pool: MakePool) -> None:
    for call in (upload, thumb):
        with pytest.raises(InternalError) as caught:
            call(make_pool(), b"fail")
        assert "secret" not in str(caught.value)
        assert "a secret of the server" in str(caught.value.__cause__)


@pytest.mark.parametrize("verdicts", [mishaps.UPLOAD_ERRORS, mishaps.RENDER_ERRORS])
def test_every_mishap_has_a_verdict(verdicts: dict[type[mishaps.WorkerFailure], mishaps.ErrorMapper]) -> None:
    assert set(verdicts) == set(mishaps.WorkerFailure.__subclasses__())
    for kind, judge in verdicts.items():
        assert isinstance(judge(kind("words", 3)), ImageHostError)


def test_each_blob_of_an_upload_can_become_a_file(make_pool: MakePool, tmp_path: Path) -> None:
    made, paths = make_pool().ingest(UPLOAD, io.BytesIO(b"picture"), 7, deadline=60, into=tmp_path)
    assert len(paths) == 1 + len(made.derivatives)
    assert [path.read_bytes() for path in paths] == [b"picture"] * 3
    assert sorted(tmp_path.iterdir()) == sorted(paths)


@pytest.mark.parametrize("data", [b"crash", b"refuse", b"too few"])
def test_no_file_is_left_of_an_upload_that_failed(data: bytes, make_pool: MakePool, tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        make_pool().ingest(UPLOAD, io.BytesIO(data), len(data), deadline=60, into=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_reaches_the_caller_and_takes_the_others_with_it(
    make_pool: MakePool, tmp_path: Path
) -> None:
    (tmp_path / "blob-1").write_bytes(b"somebody else's")
    pool = make_pool()
    with pytest.raises(FileExistsError):
        pool.ingest(UPLOAD, io.BytesIO(b"picture"), 7, deadline=60, into=tmp_path)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"somebody else's"]
    assert upload(pool, b"and a good one after")


def test_what_passes_to_files_is_never_held_whole(make_pool: MakePool, tmp_path: Path) -> None:
    length = 40 * 2**20
    (tmp_path / "source").write_bytes(bytes(length))
    (tmp_path / "made").mkdir()
    pool = make_pool()
    upload(pool, b"a small one first")
    tracemalloc.start()
    try:
        with (tmp_path / "source").open("rb", buffering=0) as source:
            _, paths = pool.ingest(UPLOAD, source, length, deadline=60, into=tmp_path / "made")
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
    assert [path.stat().st_size for path in paths] == [length] * 3
