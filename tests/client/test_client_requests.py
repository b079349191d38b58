"""What a program can change and read of single requests: options, headers, responses and sources."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import httpx2
import pytest
from tests.client.conftest import Caller, reset

from imagehost_client import (
    AsyncClient,
    Client,
    ConfigurationError,
    NotFoundError,
    RateLimitError,
    RawResponse,
    UnavailableError,
    ValidationError,
    __version__,
)
from imagehost_client.testing import FakeImageHost, make_png


class RecordingHost(FakeImageHost):
    """A host that keeps the requests it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[httpx2.Request] = []

    def _run(self, request: httpx2.Request) -> httpx2.Response:
        self.received.append(request)
        return super()._run(request)


@pytest.fixture(scope="module")
def module_host() -> RecordingHost:
    return RecordingHost()


@pytest.fixture
def host(module_host: RecordingHost) -> RecordingHost:
    reset(module_host)
    module_host.received.clear()
    return module_host


def test_a_raw_response_has_status_headers_body_and_result(call: Caller, host: RecordingHost) -> None:
    image = call(lambda client: client.upload(make_png()))
    raw = call(lambda client: client.images.get.with_raw_response(image.id))
    assert isinstance(raw, RawResponse)
    assert (raw.status, raw.parsed) == (200, image)
    assert raw.request_id == raw.headers["x-request-id"] == raw.parsed.meta.request_id
    assert json.loads(raw.content)["data"]["id"] == image.id
    created = call(lambda client: client.albums.create.with_raw_response("A"))
    assert (created.status, created.headers["location"].rpartition("/")[2]) == (201, str(created.parsed.id))
    listed = call(lambda client: client.images.list.with_raw_response(per_page=1))
    assert [one.id for one in listed.parsed] == [image.id]
    with pytest.raises(NotFoundError):
        call(lambda client: client.images.get.with_raw_response("0" * 16))


def test_a_raw_response_counts_the_attempts(call: Caller, host: RecordingHost) -> None:
    host.fail(503)
    assert call(lambda client: client.account.with_raw_response()).meta.attempts == 2


def test_endpoints_without_a_method_are_requested_by_path(call: Caller, host: RecordingHost) -> None:
    image = call(lambda client: client.upload(make_png()))
    page = call(lambda client: client.request("GET", "/images", query={"per_page": 1}))
    assert [one["id"] for one in page["images"]] == [image.id]
    changed = call(lambda client: client.request("PATCH", f"/images/{image.id}", json={"description": "A"}))
    assert changed["description"] == "A"
    albums = [
        call(lambda client: client.request("POST", "/albums", json={"name": "A"}, idempotency_key="k"))
        for _ in range(2)
    ]
    assert albums[0] == albums[1]
    with pytest.raises(NotFoundError):
        call(lambda client: client.request("GET", "/new"))


@pytest.mark.parametrize(
    ("method", "key", "attempts"),
    [("GET", None, 2), ("DELETE", None, 2), ("POST", None, 1), ("POST", "k", 2)],
)
def test_a_request_is_retried_only_if_it_can_be_repeated(
    method: str, key: str | None, attempts: int, call: Caller, host: RecordingHost
) -> None:
    host.fail(502, times=2)
    with pytest.raises(UnavailableError):
        call(
            lambda client: client.with_options(max_retries=1).request(
                method, "/albums", json={"name": "A"} if method == "POST" else None, idempotency_key=key
            )
        )
    assert len(host.received) == attempts


def test_options_of_a_call_replace_only_what_they_name(call: Caller, host: RecordingHost) -> None:
    host.fail(503)
    host.fail(429, retry_after=100)
    with pytest.raises(RateLimitError) as caught:
        call(lambda client: client.with_options(timeout=None, deadline=None).account())
    assert caught.value.retry_after == 100
    first = host.received[0]
    assert first.extensions["timeout"] == dict.fromkeys(("connect", "read", "write", "pool"))
    client = host.client()
    unlimited = client.with_options(deadline=None)
    assert unlimited.with_options(deadline=3).with_options(deadline=None).config == unlimited.config
    assert client.with_options().config.timeout == 60
    assert client.with_options(timeout=None).config.timeout is None


def test_headers_and_query_parameters_are_added_to_requests(call: Caller, host: RecordingHost) -> None:
    def list_images(client: Any) -> Any:
        traced = client.with_options(extra_headers={"X-Trace": "1"}, extra_query={"is_public": "true"})
        return traced.with_options(extra_headers={"X-Other": "2"}).images.list(per_page=1)

    assert call(list_images) == []
    (request,) = host.received
    assert (request.headers["x-trace"], request.headers["x-other"]) == ("1", "2")
    assert dict(request.url.params) == {"per_page": "1", "is_public": "true"}
    assert request.headers["authorization"].startswith("Bearer ")


@pytest.mark.parametrize(
    "headers", [{"Authorization": "x"}, {"content-length": "1"}, {"a b": "x"}, {"": "x"}, {"a": "x\r\nb: c"}]
)
def test_a_header_that_only_the_client_sets_or_that_is_malformed_is_rejected(headers: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="header"):
        Client("https://h/v1").with_options(extra_headers=headers)


def test_the_user_agent_names_the_program(host: RecordingHost) -> None:
    for app_info, expected in (
        ("shop/1.2", f"shop/1.2 imagehost-client/{__version__}"),
        (None, f"imagehost-client/{__version__}"),
    ):
        token = host.accounts["admin"]
        with Client(host.base_url, token, app_info=app_info, transport=host) as client:
            client.account()
        assert host.received[-1].headers["user-agent"] == expected
    with pytest.raises(ConfigurationError, match="app_info"):
        AsyncClient("https://h/v1", app_info="a\nb")


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """The client's logger, which is reset after the test."""
    logger = logging.getLogger("imagehost_client")
    state = logger.level, logger.handlers[:]
    yield logger
    logger.level, logger.handlers[:] = state


def test_the_variable_imagehost_log_prints_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], logger: logging.Logger
) -> None:
    host = FakeImageHost()
    host.client().account()
    assert "response received" not in capsys.readouterr().err
    monkeypatch.setenv("IMAGEHOST_LOG", "Debug")
    for _ in range(2):
        host.client().account()
    assert len(logger.handlers) == 1
    printed = capsys.readouterr().err
    assert printed.count("response received: method=GET path=/account") == 2
    assert host.accounts["admin"] not in printed
    monkeypatch.setenv("IMAGEHOST_LOG", "loud")
    with pytest.raises(ConfigurationError, match="IMAGEHOST_LOG"):
        host.client()


def test_an_image_is_not_sent_again_if_it_has_not_changed(call: Caller) -> None:
    image = call(lambda client: client.upload(make_png()))
    first = call(lambda client: client.render(image))
    assert (first.not_modified, len(first.data)) == (False, image.size)
    second = call(lambda client: client.render(image, if_none_match=first.etag))
    assert (second.not_modified, second.data, second.etag) == (True, b"", first.etag)
    assert not call(lambda client: client.render(image, if_none_match='"other"')).not_modified


async def chunks(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 7):
        yield content[start : start + 7]


def test_an_asynchronous_iterable_is_uploaded_and_repeated(host: RecordingHost) -> None:
    async def upload() -> None:
        async with host.async_client() as client:
            host.fail(503, retry_after=0)
            image = await client.upload(("cat.png", chunks(make_png())), convert_to_webp=False)
            assert (image.filename, host.content(image.id), image.meta.attempts) == ("cat.png", make_png(), 2)
            (result,) = await client.upload_many(chunks(make_png()), convert_to_webp=False)
            assert host.content(result.unwrap().id) == make_png()

    anyio.run(upload)
    with host.client() as client, pytest.raises(ValidationError, match="AsyncClient"):
        client.upload(chunks(make_png()))
