"""Batch uploads with several files in a request: grouping, results of each file, repetition."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.client.conftest import (
    Caller,
    FaultyServer,
    Request,
    drop_during_request,
    drop_during_response,
    drop_immediately,
    drop_without_response,
    http,
    respond_with,
    stored_images,
    without_delays,
)

from imagehost_client import (
    AsyncClient,
    Client,
    ImageHostError,
    NotFoundError,
    PayloadTooLargeError,
    RateLimit,
    ServerError,
    UnauthorizedError,
    UnsupportedMediaTypeError,
    UploadResult,
    ValidationError,
)
from imagehost_client._batches import MAX_FILE_BYTES, Batch, BatchState, Job, JobQueue, run_group
from imagehost_client._calls.call import Call
from imagehost_client._calls.uploads import FailedFile, UploadedBatch, upload, upload_batch
from imagehost_client._config import Config
from imagehost_client._exchange import Environment, Sleep
from imagehost_client._journal import Journal
from imagehost_client._retry import RetryPolicy
from imagehost_client.models import Image
from imagehost_client.testing import FakeImageHost, make_png

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
UPLOAD = ("POST", "/upload")


def pngs(count: int) -> list[bytes]:
    return [make_png(number + 1, 1) for number in range(count)]


def widths(results: list[UploadResult]) -> list[int]:
    return [result.unwrap().width for result in results]


class DefaultLimitHost(FakeImageHost):
    """A host with the default limit of uploads, which never refuses one."""

    def _run(self, request: httpx2.Request) -> httpx2.Response:
        response = super()._run(request)
        response.headers["X-RateLimit-Limit"] = "10"
        response.headers["X-RateLimit-Remaining"] = str(max(0, 10 - len(self.requests)))
        return response


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_forty_small_files_take_two_requests_under_the_default_limit(kind: str) -> None:
    host = DefaultLimitHost()
    call = Caller(host.client, host.async_client if kind == "async" else None)
    results = call(lambda client: client.upload_many(pngs(40), is_public=False))
    assert host.requests == [UPLOAD] * 2
    assert widths(results) == list(range(1, 41))
    assert not any(result.unwrap().is_public for result in results)
    assert len(stored_images(host)) == 40


def test_files_within_the_limit_have_a_request_each(call: Caller, host: FakeImageHost) -> None:
    call(lambda client: client.upload_many(pngs(10)))
    assert host.requests == [UPLOAD] * 10


@pytest.mark.parametrize(("per_request", "requests"), [(1, 12), (5, 3), (20, 1)])
def test_the_number_of_files_in_a_request_can_be_set(
    per_request: int, requests: int, call: Caller, host: FakeImageHost
) -> None:
    results = call(lambda client: client.upload_many(pngs(12), files_per_request=per_request))
    assert host.requests == [UPLOAD] * requests
    assert widths(results) == list(range(1, 13))


@pytest.mark.parametrize("value", [0, 21, True, "2"])
def test_a_wrong_number_of_files_in_a_request_is_refused(
    value: Any, call: Caller, host: FakeImageHost
) -> None:
    with pytest.raises(ValidationError, match="files_per_request"):
        call(lambda client: client.upload_many(pngs(1), files_per_request=value))
    assert host.requests == []


def test_each_file_of_a_request_has_its_own_error_and_progress(call: Caller, host: FakeImageHost) -> None:
    reports: list[tuple[Any, int, int]] = []
    sources = [make_png(1, 1), b"no image", make_png(3, 1)]
    results = call(
        lambda client: client.upload_many(
            sources, files_per_request=20, progress=lambda *values: reports.append(values)
        )
    )
    assert host.requests == [UPLOAD]
    assert [type(result.error) for result in results] == [type(None), UnsupportedMediaTypeError, type(None)]
    assert (results[1].error.status, results[1].error.code) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert results[1].error.request_id is not None
    assert [results[0].image.width, results[2].image.width] == [1, 3]
    for source in sources:
        assert (source, len(source), len(source)) in reports


def test_files_of_a_request_of_which_none_is_stored_have_their_own_errors(
    call: Caller, host: FakeImageHost
) -> None:
    results = call(lambda client: client.upload_many([b"x", make_png()[:40]], files_per_request=20))
    assert [result.error.status for result in results] == [415, 422]
    assert host.requests == [UPLOAD] * 3


def test_checksums_are_verified_with_a_request_for_each_file(call: Caller, host: FakeImageHost) -> None:
    results = call(
        lambda client: client.upload_many(pngs(3), files_per_request=20, checksum=True, convert_to_webp=False)
    )
    assert (len(results), host.requests) == (3, [UPLOAD] * 3)


def test_a_fatal_error_of_a_request_stops_the_batch(call: Caller, host: FakeImageHost) -> None:
    host.fail(507)
    results = call(lambda client: client.upload_many(pngs(45), parallel=1))
    assert [result.attempted for result in results] == [True] * 20 + [False] * 25
    assert {result.error.status for result in results} == {507}
    assert host.requests == [UPLOAD]


def responder(host: FakeImageHost) -> Any:
    """Return the response function of a faulty server in front of a host in memory."""

    def respond(request: Request) -> bytes:
        url = host.base_url.removesuffix("/v1") + request.path
        response = host.handle_request(
            httpx2.Request(request.method, url, headers=request.headers, content=request.body)
        )
        names = ("content-type", "idempotent-replayed", "x-request-id")
        headers = {name: response.headers[name] for name in names if name in response.headers}
        return http(response.status_code, response.content, **headers)

    return respond


FAULTS = {
    "dropped": drop_immediately,
    "response lost": drop_without_response,
    "request truncated": drop_during_request,
    "response truncated": drop_during_response,
    "busy": respond_with(http(503, Retry_After="0")),
    "rate limited": respond_with(http(429, Retry_After="0")),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_files_of_a_repeated_request_are_stored_once(kind: str, fault: str, host: FakeImageHost) -> None:
    token = host.accounts["admin"]
    with FaultyServer(responder(host)) as server:
        server.plan.extend([FAULTS[fault]] * 2)
        call = Caller(
            lambda: Client(server.url, token),
            (lambda: AsyncClient(server.url, token)) if kind == "async" else None,
        )
        results = call(lambda client: client.upload_many(pngs(10), parallel=2))
    assert widths(results) == list(range(1, 11))
    assert sorted(image.width for image in stored_images(host)) == list(range(1, 11))


# The calls of a request with several files, without a host.


def image_of(host: FakeImageHost, width: int) -> Image:
    with host.client() as client:
        return client.upload(make_png(width, 1))


def run_with(jobs: list[Job], *outcomes: object, state: BatchState | None = None) -> tuple[Any, list[Any]]:
    """Run a group with these outcomes of its calls, and return its results and its calls and delays."""
    calls = run_group(jobs, Journal(None), state or BatchState(60.0), RetryPolicy(max_retries=2))
    steps: list[Call[Any] | Sleep] = [next(calls)]
    for outcome in outcomes:
        try:
            step = calls.throw(outcome) if isinstance(outcome, Exception) else calls.send(outcome)
        except StopIteration as end:
            return end.value, steps
        steps.append(step)
    raise AssertionError(f"expected the end but received {steps[-1]}")


def jobs_of(count: int) -> list[Job]:
    return [Job(source, upload(source), len(source)) for source in pngs(count)]


def failed(index: int, code: str) -> FailedFile:
    return FailedFile(index=index, code=code, message="m", details="d")


def test_only_the_files_that_a_busy_host_has_not_stored_are_sent_again(host: FakeImageHost) -> None:
    images = [image_of(host, width) for width in (1, 2, 3, 4)]
    jobs = jobs_of(4)
    busy = UploadedBatch(
        items=(images[0], failed(1, "SERVICE_UNAVAILABLE"), images[2], failed(3, "SERVICE_UNAVAILABLE"))
    )
    results, steps = run_with(jobs, busy, None, UploadedBatch(items=(images[1], images[3])))
    assert [result.image for result in results] == images
    first, delay, second = steps
    assert isinstance(delay, Sleep)
    assert second.files == jobs[1].call.files + jobs[3].call.files
    assert first.key != second.key


def test_a_host_that_stays_busy_ends_the_repetitions(host: FakeImageHost) -> None:
    image = image_of(host, 1)
    busy = UploadedBatch(items=(image, failed(1, "SERVICE_UNAVAILABLE"), failed(2, "SERVICE_UNAVAILABLE")))
    again = UploadedBatch(items=(failed(0, "SERVICE_UNAVAILABLE"), image))
    single = ImageHostError("busy")
    results, steps = run_with(jobs_of(3), busy, None, again, None, single)
    assert [result.image for result in results] == [image, None, image]
    assert results[1].error is single
    assert len(steps) == 5


def test_an_error_of_the_last_repetition_is_the_files(host: FakeImageHost) -> None:
    image, busy = image_of(host, 1), "SERVICE_UNAVAILABLE"
    step = UploadedBatch(items=(failed(0, busy), failed(1, busy), image))
    again = UploadedBatch(items=(failed(0, busy), failed(1, busy)))
    results, _ = run_with(jobs_of(3), step, None, again, None, again)
    assert [type(result.error).__name__ for result in results] == ["UnavailableError"] * 2 + ["NoneType"]


@pytest.mark.parametrize("error", [PayloadTooLargeError("x"), NotFoundError("x"), FileNotFoundError("x")])
def test_files_of_a_refused_request_are_sent_one_by_one(error: Exception, host: FakeImageHost) -> None:
    image, state, jobs = image_of(host, 1), BatchState(60.0), jobs_of(2)
    results, steps = run_with(jobs, error, image, UnsupportedMediaTypeError("y"), state=state)
    assert [result.image for result in results] == [image, None]
    assert [step.files for step in steps[1:]] == [job.call.files for job in jobs]
    assert state.is_single == isinstance(error, PayloadTooLargeError)


@pytest.mark.parametrize("error", [ServerError("x"), UnauthorizedError("x")])
def test_other_errors_of_a_request_are_those_of_all_its_files(error: ImageHostError) -> None:
    results, steps = run_with(jobs_of(2), error)
    assert [result.error for result in results] == [error, error]
    assert len(steps) == 1


def test_a_full_disk_for_one_file_of_a_request_stops_the_batch(host: FakeImageHost) -> None:
    state = BatchState(60.0)
    full = UploadedBatch(items=(image_of(host, 1), failed(1, "INSUFFICIENT_STORAGE")))
    run_with(jobs_of(2), full, state=state)
    assert state.fatal_error is not None


@pytest.mark.parametrize(
    "errors", [[], [{"index": 2, "code": "X", "message": "m"}], [{"index": -1, "code": "X", "message": "m"}]]
)
def test_a_response_without_a_result_for_each_file_is_an_error(errors: list[object]) -> None:
    with pytest.raises(ServerError, match="2 files"):
        upload_batch([upload(b"a"), upload(b"b")]).decode({"images": [], "errors": errors})


SIZES = st.lists(
    st.one_of(st.none(), st.integers(0, MAX_FILE_BYTES // 8), st.integers(0, MAX_FILE_BYTES)), max_size=60
)


def queue_of(
    sizes: list[int | None], environment: Environment, files_per_request: int | None = None
) -> JobQueue:
    batch = Batch(
        sources=[],
        options={},
        config=Config(base_url="https://h/v1", cdn_url="https://h/img"),
        parallel=1,
        files_per_request=files_per_request,
        journal=None,
        progress=None,
    )
    call = upload(b"")
    return JobQueue([Job(f"{number}", call, size) for number, size in enumerate(sizes)], batch, environment)


def taken(queue: JobQueue) -> list[list[int]]:
    groups = []
    while group := queue.take():
        groups.append([index for index, _ in group])
    return groups


@given(SIZES, st.integers(1, 20))
def test_every_file_is_in_one_request_within_its_limits(sizes: list[int | None], limit: int) -> None:
    groups = taken(queue_of(sizes, Environment(), limit))
    assert sorted(index for group in groups for index in group) == list(range(len(sizes)))
    for group in groups:
        assert len(group) <= limit
        if len(group) > 1:
            assert sum(sizes[index] or 0 for index in group) <= MAX_FILE_BYTES
            assert None not in [sizes[index] for index in group]


def environment_with(limit: int, remaining: int) -> Environment:
    environment = Environment(now=lambda: NOW)
    environment.pacer.update(RateLimit(limit, remaining, NOW + timedelta(seconds=30)), upload=True)
    return environment


@given(st.integers(1, 60), st.integers(0, 60))
def test_requests_have_several_files_while_there_are_more_files_than_requests_left(
    files: int, left: int
) -> None:
    first = taken(queue_of([1] * files, environment_with(60, left)))[0]
    assert len(first) == (1 if files <= left else min(files, 20))


def test_requests_have_one_file_on_a_host_without_a_limit() -> None:
    environment = Environment(now=lambda: NOW)
    environment.pacer.update_unlimited(upload=True)
    assert taken(queue_of([1] * 50, environment)) == [[number] for number in range(50)]


def test_after_the_end_of_a_window_its_whole_limit_counts() -> None:
    environment = environment_with(30, 0)
    environment.now = lambda: NOW + timedelta(seconds=31)
    assert len(taken(queue_of([1] * 30, environment))) == 30


# The journal.


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    directory = tmp_path / "photos"
    directory.mkdir()
    for number, content in enumerate(pngs(4)):
        (directory / f"{number}.png").write_bytes(content)
    return directory


def without_ends(journal: Path) -> None:
    """Remove the responses from a journal, as if the run had been killed before them."""
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join(line for line in lines if not {"ended", "finished"} & _names(line)))


def _names(line: str) -> set[str]:
    return set(json.loads(line)) if line else set()


def test_an_interrupted_request_is_repeated_with_its_files_and_its_key(
    call: Caller, host: FakeImageHost, photos: Path, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    first = call(lambda client: client.upload_many(photos, journal=journal, files_per_request=3))
    without_ends(journal)
    (photos / "0a.png").write_bytes(make_png(9, 9))
    host.requests.clear()
    results = call(lambda client: client.upload_many(photos, journal=journal))
    assert host.requests.count(UPLOAD) == 3
    assert [result.image for result in results if result.image.width != 9] == [
        result.image for result in first
    ]
    assert len(stored_images(host)) == 5
    repeated = call(lambda client: client.upload_many(photos, journal=journal))
    assert all(result.resumed for result in repeated)


def test_images_of_an_interrupted_request_that_were_deleted_since_are_uploaded_again(
    call: Caller, host: FakeImageHost, photos: Path, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    first = call(lambda client: client.upload_many(photos, journal=journal, files_per_request=20))
    without_ends(journal)
    call(lambda client: client.images.delete(first[1].image))
    results = call(lambda client: client.upload_many(photos, journal=journal))
    assert widths(results) == [1, 2, 3, 4]
    assert {image.id for image in stored_images(host)} == {result.image.id for result in results}


def test_an_interrupted_request_with_a_changed_file_is_not_repeated(
    host: FakeImageHost, photos: Path, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    with without_delays(host.client()) as client:
        client.upload_many(photos, journal=journal, files_per_request=20)
        without_ends(journal)
        (photos / "1.png").write_bytes(make_png(20, 20))
        results = client.upload_many(photos, journal=journal, files_per_request=20)
        assert widths(results) == [1, 20, 3, 4]
        without_ends(journal)
        again = client.upload_many(photos, journal=journal)
    assert [result.image for result in again] == [result.image for result in results]


def test_files_of_a_finished_request_that_were_not_stored_are_uploaded_again(
    call: Caller, host: FakeImageHost, photos: Path, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    (photos / "1.png").write_bytes(b"no image")
    call(lambda client: client.upload_many(photos, journal=journal, files_per_request=20))
    host.requests.clear()
    results = call(lambda client: client.upload_many(photos, journal=journal, files_per_request=20))
    assert [result.resumed for result in results] == [True, False, True, True]
    assert host.requests.count(UPLOAD) == 1
    assert len(stored_images(host)) == 3


def test_a_file_that_is_named_twice_is_stored_once(host: FakeImageHost, photos: Path, tmp_path: Path) -> None:
    path = photos / "0.png"
    with without_delays(host.client()) as client:
        results = client.upload_many(
            [path, photos / "1.png", path], journal=tmp_path / "journal", files_per_request=20
        )
    assert results[0].image == results[2].image
    assert len(stored_images(host)) == 2


def test_a_job_of_an_earlier_request_is_not_in_another_one() -> None:
    queue = queue_of([1, 1], Environment(), 20)
    index, job = queue._pending.pop()
    queue._pending.append((index, evolve(job, is_repeated=True)))
    assert taken(queue) == [[0], [1]]
