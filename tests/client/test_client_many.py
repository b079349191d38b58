"""Batch uploads: order, errors of single files, directories, and the journal."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from tests.client.conftest import Caller, without_delays

from imagehost_client import Client, UnsupportedMediaTypeError, UploadResult
from imagehost_client.testing import FakeImageHost, make_gif, make_png


def test_each_source_has_a_result_in_order(call: Caller, host: FakeImageHost, tmp_path: Path) -> None:
    sources = [make_png(1, 1), b"no image", tmp_path / "missing.png", object(), make_png(2, 1)]
    reports: list[UploadResult] = []
    results = call(lambda client: client.upload_many(sources, on_result=reports.append, is_public=False))
    assert [type(result.error) for result in results] == [
        type(None),
        UnsupportedMediaTypeError,
        FileNotFoundError,
        TypeError,
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
    results = call(lambda client: client.upload_many(tmp_path))
    assert [result.image.filename for result in results] == ["b.png", "a.gif"]
    results = call(lambda client: client.upload_many([f"{tmp_path}/*.png"]))
    assert [result.image.filename for result in results] == ["b.png"]
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
    assert len(host.tables["images"].rows) == 9


class StopError(Exception):
    """The exception that interrupts a batch."""


def test_an_interrupted_batch_resumes_without_duplicates(
    call: Caller, host: FakeImageHost, tmp_path: Path
) -> None:
    for number in range(6):
        (tmp_path / f"{number}.png").write_bytes(make_png(number + 1, 1))
    journal = tmp_path / "journal"
    results_before: list[UploadResult] = []

    def stop(result: UploadResult) -> None:
        results_before.append(result)
        if len(results_before) == 3:
            raise StopError

    with pytest.raises(StopError):
        call(lambda client: client.upload_many(tmp_path, journal=journal, parallel=1, on_result=stop))
    results = call(lambda client: client.upload_many(tmp_path, journal=journal))
    assert [result.image.width for result in results] == [1, 2, 3, 4, 5, 6]
    assert sum(result.resumed for result in results) >= 3
    assert len(host.tables["images"].rows) == 6
    repeated = call(lambda client: client.upload_many(tmp_path, journal=journal))
    assert [result.image for result in repeated] == [result.image for result in results]
    assert all(result.resumed for result in repeated)


def test_an_upload_with_a_lost_response_is_repeated_with_its_key(host: FakeImageHost, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(make_png())
    journal = tmp_path / "journal"
    with without_delays(host.client()) as client:
        first = client.upload_many(tmp_path, journal=journal)[0].unwrap()
        lines = journal.read_text().split("\n")
        journal.write_text(
            "\n".join(line for line in lines if "finished" not in line) + '{"finished": "truncated'
        )
        result = client.upload_many(tmp_path, journal=journal)[0]
    assert result.image == first
    assert result.image is not None
    assert result.image.meta.replayed
    assert not result.resumed


def test_a_changed_file_or_other_options_are_uploaded_again(host: FakeImageHost, tmp_path: Path) -> None:
    path, journal = tmp_path / "a.png", tmp_path / "journal"
    path.write_bytes(make_png(1, 1))
    with without_delays(host.client()) as client:
        client.upload_many(path, journal=journal)
        assert not client.upload_many(path, journal=journal, is_public=False)[0].resumed
        path.write_bytes(make_png(2, 1))
        assert not client.upload_many(path, journal=journal)[0].resumed
    assert len(host.tables["images"].rows) == 3


def test_sources_other_than_paths_are_not_in_the_journal(host: FakeImageHost, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with without_delays(host.client()) as client:
        results = client.upload_many([make_png(), tmp_path / "missing.png"], journal=journal)
    assert [result.error is None for result in results] == [True, False]
    assert journal.read_text().strip() == ""


@pytest.mark.parametrize("line", ["7", "[]", '{"started": []}', '{"finished": "x", "image": {}}', "\x00"])
def test_an_invalid_line_of_a_journal_is_ignored(line: str, host: FakeImageHost, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(make_png())
    journal = tmp_path / "journal"
    journal.write_text(line)
    with without_delays(host.client()) as client:
        assert client.upload_many(tmp_path, journal=journal)[0].error is None
    assert json.loads(journal.read_text().splitlines()[-1])["image"]["format"] == "png"
