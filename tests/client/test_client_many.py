"""Batch uploads: order, errors of single files, and directories."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from tests.animations import make_gif
from tests.client.conftest import Caller, stored_images

from imagehost_client import (
    APIConnectionError,
    Client,
    RateLimitError,
    SourceChangedError,
    UnavailableError,
    UnsupportedMediaTypeError,
    UploadResult,
    ValidationError,
)
from imagehost_client._batches import BatchState
from imagehost_client.testing import FakeImageHost, make_png


def test_each_source_has_a_result_in_order(call: Caller, host: FakeImageHost, tmp_path: Path) -> None:
    sources = [make_png(1, 1), b"no image", tmp_path / "missing.png", object(), make_png(2, 1)]
    reports: list[UploadResult] = []
    results = call(lambda client: client.upload_many(sources, on_result=reports.append, is_public=False))
    assert [type(result.error) for result in results] == [
        type(None),
        UnsupportedMediaTypeError,
        FileNotFoundError,
        ValidationError,
        type(None),
    ]
    assert [result.image.width for result in results if result.image] == [1, 2]
    assert [result.source for result in results] == sources
    assert len(reports) == 5
    assert results[0].unwrap().is_public is False
    with pytest.raises(FileNotFoundError):
        results[2].unwrap()


def test_directories_and_patterns_are_expanded(call: Caller, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.png").write_bytes(make_png())
    (tmp_path / "sub" / "a.gif").write_bytes(make_gif())
    results = call(lambda client: client.upload_many(tmp_path, convert_to_webp=False))
    assert [result.image.filename for result in results] == ["b.png", "a.gif"]
    results = call(lambda client: client.upload_many([f"{tmp_path}/*.png"]))
    assert [result.image.filename for result in results] == ["b.webp"]
    assert call(lambda client: client.upload_many([])) == []


def test_progress_is_reported_with_the_source(call: Caller) -> None:
    reports: list[tuple[Any, int, int]] = []
    sources = [make_png(), make_gif()]
    call(lambda client: client.upload_many(sources, progress=lambda *values: reports.append(values)))
    for source in sources:
        assert [values for values in reports if values[0] is source][-1] == (source, len(source), len(source))


def test_invalid_options_are_rejected_before_a_request_is_sent(call: Caller, host: FakeImageHost) -> None:
    with pytest.raises(ValueError, match="checksum"):
        call(lambda client: client.upload_many([make_png()], checksum=True))
    assert host.requests == []


class CountingTransport(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """A transport that counts concurrent requests."""

    def __init__(self, host: FakeImageHost) -> None:
        self.host, self.now, self.most, self.lock = host, 0, 0, threading.Lock()

    def _enter(self) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self._enter()
        response = self.host.handle_request(request)
        threading.Event().wait(0.01)
        with self.lock:
            self.now -= 1
        return response

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._enter()
        response = await self.host.handle_async_request(request)
        await anyio.sleep(0.01)
        self.now -= 1
        return response


@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_number_of_concurrent_uploads_is_limited(kind: str, parallel: int, host: FakeImageHost) -> None:
    from imagehost_client import AsyncClient

    transport_counter = CountingTransport(host)
    token = host.accounts["admin"]
    call = Caller(
        lambda: Client(host.base_url, token, transport=transport_counter),
        (lambda: AsyncClient(host.base_url, token, transport=transport_counter)) if kind == "async" else None,
    )
    call(lambda client: client.upload_many([make_png() for _ in range(9)], parallel=parallel))
    assert 1 <= transport_counter.most <= parallel
    assert len(stored_images(host)) == 9


@pytest.mark.parametrize("status", [401, 403, 507])
def test_a_fatal_error_stops_the_batch(status: int, call: Caller, host: FakeImageHost) -> None:
    host.fail(status)
    results = call(lambda client: client.upload_many([make_png() for _ in range(5)], parallel=1))
    assert {result.error.status for result in results} == {status}
    assert [result.attempted for result in results] == [True, False, False, False, False]
    assert host.requests == [("POST", "/upload")]


@pytest.mark.parametrize("status", [413, 415, 422, 500])
def test_an_error_of_one_file_does_not_stop_the_batch(status: int, call: Caller, host: FakeImageHost) -> None:
    host.fail(status)
    results = call(lambda client: client.upload_many([make_png() for _ in range(3)], parallel=1))
    assert [result.error is None for result in results] == [False, True, True]
    assert all(result.attempted for result in results)


def test_a_host_that_is_not_reached_stops_the_batch(call: Caller, host: FakeImageHost) -> None:
    host.drop(times=4)
    results = call(lambda client: client.upload_many([make_png() for _ in range(5)], parallel=1))
    assert {type(result.error) for result in results} == {APIConnectionError}
    assert [result.attempted for result in results] == [True, False, False, False, False]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    ("status", "outages", "stored"), [(None, 6, 5), (503, 6, 5), (None, 7, 1), (503, 7, 4)]
)
def test_a_batch_outlives_half_a_minute_without_the_host_and_stores_each_file_once(
    status: int | None, outages: int, stored: int, kind: str, host: FakeImageHost
) -> None:
    files, seconds = [make_png(width, 1) for width in range(1, 6)], host.clock.monotonic()

    def stop_after_the_first_file(source: object, sent: int, total: int) -> None:
        if source is files[1] and not stops:
            stops.append(sent)
            host.drop(handled=True, path="/upload")
            if status is None:
                host.drop(times=4 * outages - 1, path="/upload")
            else:
                host.fail(status, times=4 * outages - 1, path="/upload")

    stops: list[int] = []
    options: dict[str, Any] = {"parallel": 1, "files_per_request": 1, "progress": stop_after_the_first_file}

    async def upload() -> list[UploadResult]:
        async with host.async_client() as client:
            return await client.upload_many(files, **options)

    results = anyio.run(upload) if kind == "async" else host.client().upload_many(files, **options)
    assert sum(result.error is None for result in results) == stored
    assert len(stored_images(host)) == min(stored + 1, 5)  # the second file is stored, but not confirmed
    assert host.clock.monotonic() - seconds > 30


def test_a_rate_limit_that_ends_too_late_to_wait_for_stops_the_batch(
    call: Caller, host: FakeImageHost
) -> None:
    host.fail(429, retry_after=3000)
    results = call(lambda client: client.upload_many([make_png() for _ in range(3)], parallel=1))
    assert [(result.error.status, result.attempted) for result in results] == [
        (429, True),
        (429, False),
        (429, False),
    ]


SENT, NOT_SENT = APIConnectionError("lost"), APIConnectionError("refused")
NOT_SENT.is_sent = False
BUSY, REFUSED, LATE = UnavailableError("busy"), ValidationError("bad"), RateLimitError("full", retry_after=61)


@pytest.mark.parametrize(
    ("errors", "stops"),
    [
        ([NOT_SENT], True),
        ([SENT], False),
        ([SENT, SENT], True),
        ([BUSY, SENT], True),
        ([SENT, None, SENT], False),
        ([SENT, REFUSED, BUSY], False),
        ([SENT, FileNotFoundError(), SENT], True),
        ([SENT, SourceChangedError(), SENT], True),
        ([RateLimitError("full", retry_after=60)], False),
        ([LATE], True),
    ],
)
def test_uploads_without_a_response_in_succession_stop_the_batch(
    errors: list[Exception | None], stops: bool
) -> None:
    state = BatchState(60.0)
    for error in errors:
        state.record(error, state.responses)
    assert (state.fatal_error is not None) == stops


def test_an_upload_without_a_response_does_not_stop_the_batch_if_others_have_one_meanwhile() -> None:
    state = BatchState(60.0)
    state.record(None, 0)
    state.record(NOT_SENT, 0)
    assert state.fatal_error is None
