"""The host in memory takes the place of another: clients made anywhere, its clock, limits and failures."""

from __future__ import annotations

import gc
import sys
import time
from datetime import UTC, datetime, timedelta
from threading import Thread

import anyio
import httpx2
import pytest
from tests.client.conftest import Caller, stored_images

from imagehost_client import (
    APIConnectionError,
    APITimeoutError,
    AsyncClient,
    Client,
    ImageHostError,
    InsufficientStorageError,
    NotFoundError,
    RateLimitError,
    ServerError,
    UnauthorizedError,
    UnavailableError,
    webhooks,
)
from imagehost_client._doubles import START, active_double
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
        key = client.keys.create("k", expires_at=host.clock.now() + timedelta(days=1))
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
    host = FakeImageHost(quota_bytes=100)
    with host.client() as client:
        size = client.upload(make_png()).size
        assert 100 / 3 < size <= 50
        assert client.account().quota.remaining == 100 - size
        client.upload(make_png())
        with pytest.raises(InsufficientStorageError, match="quota"):
            client.upload(make_png())
        client.images.delete(next(iter(client.images.list())))
        client.upload(make_png())


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
    assert {delivery.status for delivery in client.webhooks.deliveries(webhook)} == {"delivered"}
    events = [webhooks.unwrap(one.body, one.headers, other.secret) for one in host.signed_events(other.id)]
    assert [event.kind for event in events] == ["image.uploaded", "album.created"]


def test_the_clock_stands_still_and_every_window_of_limits_begins_with_it(anyone: Caller) -> None:
    host = FakeImageHost(limits={"api_per_minute": 2, "api_per_hour": 3})
    resets = [host.client().account().meta.rate_limit for _ in range(2)]
    assert [one.reset for one in resets if one is not None] == [START + timedelta(minutes=1)] * 2
    host.clock.advance(60)
    third = host.client().account().meta.rate_limit
    assert third is not None
    assert (third.remaining, third.reset) == (0, START + timedelta(hours=1))
    late = FakeImageHost(now=datetime(2027, 5, 6, tzinfo=UTC))
    assert late.client().upload(make_png()).created_at.date().isoformat() == "2027-05-06"


def test_records_that_are_made_while_the_clock_stands_have_an_order(client: Client) -> None:
    ids = [client.upload(make_png()).id for _ in range(5)]
    assert [image.id for image in client.images.list(per_page=2)] == ids[::-1]


def test_a_request_whose_response_is_lost_has_its_effect(anyone: Caller, host: FakeImageHost) -> None:
    host.drop(handled=True, path="/upload")
    image = anyone(lambda client: client.upload(make_png()))
    assert (image.meta.attempts, image.meta.replayed) == (2, True)
    assert len(stored_images(host)) == 1


def test_a_delay_is_waited_for_up_to_the_timeout_of_the_client(anyone: Caller, host: FakeImageHost) -> None:
    began = host.clock.monotonic()
    host.delay(50, path="/account")
    assert anyone(lambda client: client.account()).meta.attempts == 1
    host.delay(61, times=4)
    with pytest.raises(APITimeoutError):
        anyone(lambda client: client.account())
    assert host.clock.monotonic() - began == 50 + 60


@pytest.mark.parametrize(("status", "body", "times"), [(502, b"<html>proxy</html>", 4), (200, b"{", 1)])
def test_a_response_can_have_another_body(
    status: int, body: bytes, times: int, anyone: Caller, host: FakeImageHost
) -> None:
    host.fail(status, times=times, body=body)
    with pytest.raises(ServerError):
        anyone(lambda client: client.account())
    assert anyone(lambda client: client.account()).meta.attempts == 1


def test_images_are_decoded_and_rendered_as_on_any_host(host: FakeImageHost) -> None:
    with host.client() as client:
        image = client.upload(make_png(40, 30))
        assert (image.format, host.content(image.id)[:4]) == ("webp", b"RIFF")
        assert client.render(image, w=20, fm="jpg").data[:3] == b"\xff\xd8\xff"
    assert [event["type"] for event in host.events] == ["image.uploaded"]


def test_both_names_of_the_api_and_of_images_reach_the_host(host: FakeImageHost) -> None:
    image = host.client().upload(make_png())
    host.requests.clear()
    headers = {"Authorization": f"Bearer {host.accounts['admin']}"}
    with httpx2.Client(transport=host, headers=headers) as http:
        assert http.get(host.base_url.replace("/v1", "/api/v1/images")).json()["message"]
        host.fail(503, path=f"/img/{image.id}.webp")
        url = f"{host.base_url}/img/{image.id}.webp"
        assert [http.get(url).status_code for _ in range(2)] == [503, 200]
    assert host.requests == [("GET", "/images")]


def test_without_the_server_an_error_names_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imagehost_server.app", None)
    with pytest.raises(
        ImportError, match=r"pip install \./packages/imagehost-core \./packages/imagehost-server"
    ):
        FakeImageHost()


def test_a_host_ends_with_its_object() -> None:
    host = FakeImageHost()
    path = host.core.path
    assert path.is_dir()
    del host
    gc.collect()
    assert not path.exists()
