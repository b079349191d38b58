"""The fake host takes the place of the real one: clients made anywhere, its clock, limits and failures."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from threading import Thread

import anyio
import httpx2
import pytest
from tests.client.conftest import Caller

from imagehost_client import (
    APIConnectionError,
    AsyncClient,
    Client,
    ImageHostError,
    InsufficientStorageError,
    NotFoundError,
    RateLimitError,
    UnauthorizedError,
    UnavailableError,
    webhooks,
)
from imagehost_client._doubles import active_double
from imagehost_client.testing import FakeImageHost, make_png


def count_images(base_url: str | None = None, token: str | None = None) -> int:
    """Return the number of images, as a program that makes its own client does."""
    with Client(base_url, token) as client:
        return client.account().usage.images


def test_clients_that_a_program_makes_are_clients_of_the_host(host: FakeImageHost) -> None:
    host.client().upload(make_png())
    host.add_account("other")
    with host.patch() as patched:
        assert patched is host
        assert count_images() == 1
        assert count_images(base_url="https://images.example.com/v1", token="ihk_real") == 1
        assert count_images(token=host.accounts["other"]) == 0
        counts: list[int] = []
        thread = Thread(target=lambda: counts.append(count_images()))
        thread.start()
        thread.join()
        assert counts == [1]
        with httpx2.Client() as http, Client(http_client=http) as client:
            assert client.account().usage.images == 1

        async def count() -> int:
            async with AsyncClient() as client:
                return (await client.account()).usage.images

        assert anyio.run(count) == 1
        missing = httpx2.MockTransport(lambda _: httpx2.Response(404))
        with Client("https://h/v1", transport=missing) as client, pytest.raises(ImageHostError):
            client.account()
    assert active_double() is None
    with pytest.raises(ImageHostError, match="IMAGEHOST_BASE_URL"):
        count_images()


def test_the_inner_of_two_patches_is_in_effect(host: FakeImageHost) -> None:
    other = FakeImageHost()
    host.client().upload(make_png())
    with host.patch():
        with other.patch():
            assert count_images() == 0
        assert count_images() == 1


def test_the_pytest_plugin_has_a_fixture(imagehost_fake: FakeImageHost) -> None:
    imagehost_fake.client().upload(make_png())
    assert count_images() == 1


@pytest.fixture(params=["sync", "async"])
def anyone(request: pytest.FixtureRequest, host: FakeImageHost) -> Caller:
    """A runner of calls with each client."""
    return Caller(host.client, host.async_client if request.param == "async" else None)


def test_retries_advance_the_clock_instead_of_waiting(anyone: Caller, host: FakeImageHost) -> None:
    began, real = host.clock.now(), time.monotonic()
    host.fail(503, times=3, retry_after=50)
    assert anyone(lambda client: client.account()).meta.attempts == 4
    assert host.clock.now() - began >= timedelta(seconds=150)
    assert time.monotonic() - real < 50
    host.fail(503, times=3, retry_after=50)
    with pytest.raises(UnavailableError):
        anyone(lambda client: client.with_options(deadline=99).account())


def test_tokens_and_signed_urls_expire_by_the_clock(host: FakeImageHost) -> None:
    with host.client() as client:
        image = client.upload(make_png(), is_public=False)
        signed = client.images.signed_url(image, expires_in=600)
        key = client.keys.create("k", expires_at=datetime.now(UTC) + timedelta(days=1))
        with (
            httpx2.Client(transport=host) as anonymous,
            Client(host.base_url, key.token, transport=host) as limited,
        ):
            host.clock.advance(599 - 60)
            assert anonymous.get(signed.url).status_code == 200
            host.clock.advance(61)
            assert anonymous.get(signed.url).status_code == 404
            assert limited.account().usage.images == 1
            host.clock.advance(24 * 3600)
            with pytest.raises(UnauthorizedError):
                limited.account()


def test_rate_limits_are_counted_and_reset_by_the_clock(anyone: Caller) -> None:
    host = FakeImageHost(limits={"api_per_minute": 100, "uploads_per_minute": 2})
    with host.client(max_retries=0) as client:
        first = client.upload(make_png())
        assert first.meta.rate_limit is not None
        assert (first.meta.rate_limit.limit, first.meta.rate_limit.remaining) == (2, 1)
        client.upload(make_png())
        with pytest.raises(RateLimitError) as caught:
            client.upload(make_png())
        assert 0 < (caught.value.retry_after or 0) <= 60
        assert caught.value.rate_limit is not None
        assert caught.value.rate_limit.remaining == 0
        account = client.account()
        remaining = {window.name: window.remaining for window in account.limits}
        assert remaining == {"api_per_minute": 97, "uploads_per_minute": 0}
    with host.client() as patient:
        assert patient.upload(make_png()).meta.attempts == 2


def test_paced_uploads_wait_by_the_clock() -> None:
    host = FakeImageHost(limits={"uploads_per_minute": 3})
    began = host.clock.now()
    with host.client(max_retries=0) as client:
        paced = client.with_options(pace=True)
        assert [paced.upload(make_png()).meta.attempts for _ in range(7)] == [1] * 7
    assert host.clock.now() - began >= timedelta(minutes=1)


def test_limits_of_an_account_precede_those_of_the_host() -> None:
    host = FakeImageHost(limits={"api_per_minute": 1}, quota_bytes=1)
    with host.client() as operator:
        operator.accounts.update(1, api_per_minute=0, quota_bytes=0)
        for _ in range(3):
            operator.upload(make_png())


def test_an_upload_beyond_the_quota_is_507() -> None:
    content = make_png()
    host = FakeImageHost(quota_bytes=2 * len(content))
    with host.client() as client:
        for remaining in (1, 0):
            client.upload(content)
            assert client.account().quota.remaining == remaining * len(content)
        with pytest.raises(InsufficientStorageError, match="quota"):
            client.upload(content)
        client.images.delete(next(iter(client.images.list())))
        client.upload(content)


def test_failures_are_planned_by_method_path_and_count(anyone: Caller, host: FakeImageHost) -> None:
    image = anyone(lambda client: client.upload(make_png()))
    host.fail(404, method="DELETE", path="/images/*")
    host.drop(times=4, path="/upload")
    host.fail(503, times=4, path="/img/*")
    assert anyone(lambda client: client.images.get(image)) == image
    with pytest.raises(NotFoundError):
        anyone(lambda client: client.images.delete(image))
    assert anyone(lambda client: client.images.delete(image)).deleted
    with pytest.raises(APIConnectionError):
        anyone(lambda client: client.upload(make_png()))
    assert anyone(lambda client: client.upload(make_png())).meta.attempts == 1
    with httpx2.Client(transport=host) as http:
        assert [http.get(image.url).status_code for _ in range(5)] == [503] * 4 + [404]


def test_signed_events_are_accepted_by_receivers(client: Client, host: FakeImageHost) -> None:
    webhook = client.webhooks.create("https://example.com/hook", events=["image.uploaded"])
    other = client.webhooks.create("https://example.com/all")
    image = client.upload(make_png())
    client.albums.create("A")
    client.webhooks.test(webhook)
    uploaded, test = host.signed_events(webhook.id)
    event = webhooks.unwrap(uploaded.body, uploaded.headers, webhook.secret)
    assert isinstance(event, webhooks.ImageUploaded)
    assert event.data == image
    assert webhooks.unwrap(test.body, test.headers, webhook.secret).kind == "webhook.test"
    assert len(host.signed_events()) == 4
    events = [webhooks.unwrap(one.body, one.headers, other.secret) for one in host.signed_events(other.id)]
    assert [event.kind for event in events] == ["image.uploaded", "album.created"]
    client.webhooks.delete(other)
    assert len(host.signed_events()) == 2
