"""Every operation, with both clients, on the host in memory."""

from __future__ import annotations

import asyncio
import hashlib
import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from tests.animations import make_gif
from tests.client.conftest import Caller, is_valid, stored_images, without_delays

from imagehost_client import (
    APIConnectionError,
    AsyncClient,
    ChecksumError,
    Client,
    ConflictError,
    Format,
    NotFoundError,
    ServerError,
    UnauthorizedError,
    ValidationError,
)
from imagehost_client.testing import FakeImageHost, make_png


def test_an_image_is_uploaded_read_changed_and_deleted(call: Caller, host: FakeImageHost) -> None:
    image = call(
        lambda client: client.upload(
            make_png(30, 20), filename="cat.png", description="A cat", convert_to_webp=False
        )
    )
    assert (image.width, image.height, image.format) == (30, 20, Format.PNG)
    assert (image.filename, image.description, image.is_public) == ("cat.png", "A cat", True)
    assert image.meta.request_id
    assert image.meta.rate_limit is None  # limits are off
    assert call(lambda client: client.images.get(image)) == image
    changed = call(lambda client: client.images.update(image.id, description="Two cats", is_public=False))
    assert (changed.description, changed.is_public, changed.filename) == ("Two cats", False, "cat.png")
    assert call(lambda client: client.images.delete(image)).deleted is True
    with pytest.raises(NotFoundError) as caught:
        call(lambda client: client.images.get(image))
    assert (caught.value.status, caught.value.code) == (404, "NOT_FOUND")
    assert stored_images(host) == []


def test_images_are_changed_signed_and_deleted_together(call: Caller, host: FakeImageHost) -> None:
    images = [call(lambda client: client.upload(make_png())) for _ in range(2)]
    results = call(lambda client: client.images.update_many(images, description="Both"))
    assert [(result.id, result.status) for result in results] == [(image.id, "updated") for image in images]
    signed = call(lambda client: client.images.signed_urls(images, w=5))
    assert [one.image_id for one in signed] == [image.id for image in images]
    results = call(lambda client: client.images.delete_many([images[0], "0" * 16]))
    assert [result.status for result in results] == ["deleted", "not_found"]
    assert results[1].error.code == "NOT_FOUND"
    assert all(result.meta.request_id for result in results)
    assert [image.id for image in stored_images(host)] == [images[1].id]


def test_a_password_is_changed_and_accounts_are_managed(call: Caller, host: FakeImageHost) -> None:
    token = call(lambda client: client.sessions.create("admin", "secret")).token
    assert call(lambda client: client.change_password("secret", "a longer password")).changed
    assert not is_valid(host, token)
    account = call(lambda client: client.accounts.create("ann", "a longer password", api_per_day=7))
    assert (account.role, account.limits.api_per_day, account.usage.images) == ("user", 7, 0)
    suspended = call(lambda client: client.accounts.update(account, suspended=True))
    assert call(lambda client: client.accounts.get(account.id)) == suspended
    assert [one.name for one in call(lambda client: client.accounts.list())] == ["ann", "admin"]
    assert [one.is_current for one in call(lambda client: client.sessions.list())] == [True]


@pytest.mark.parametrize("kind", ["path", "text", "bytes", "file", "offset", "tuple"])
def test_any_source_is_sent_completely_in_a_retry(
    kind: str, call: Caller, host: FakeImageHost, tmp_path: Path
) -> None:
    content = make_gif(3)
    path = tmp_path / "a.gif"
    path.write_bytes(b"junk" + content if kind == "offset" else content)
    host.fail(503)
    with path.open("rb") as stream:
        stream.seek(4 if kind == "offset" else 0)
        sources: dict[str, Any] = {
            "path": path,
            "text": str(path),
            "bytes": content,
            "tuple": ("a.gif", content),
        }
        image = call(lambda client: client.upload(sources.get(kind, stream), convert_to_webp=False))
    assert host.content(image.id) == content
    assert image.meta.attempts == 2


def test_progress_restarts_with_a_retry(call: Caller, host: FakeImageHost) -> None:
    reports: list[tuple[int, int]] = []
    content = make_png()
    host.fail(502)
    call(lambda client: client.upload(content, progress=lambda sent, total: reports.append((sent, total))))
    assert reports == [(0, len(content)), (len(content), len(content))] * 2


def test_options_are_sent_under_the_names_of_the_api(call: Caller, host: FakeImageHost) -> None:
    album = call(lambda client: client.albums.create("A"))
    image = call(
        lambda client: client.upload(
            make_png(),
            filename="a.png",
            album_id=album,
            quality=80,
            format="webp",
            remove_exif=True,
            convert_to_webp=True,
            auto_rename=True,
            is_public=False,
        )
    )
    assert (image.album_id, image.format, image.is_public) == (album.id, "webp", False)
    assert image.filename != image.original_filename == "a.png"
    with pytest.raises(ValidationError) as caught:
        call(lambda client: client.upload(make_png(), album_id=999_999))
    assert caught.value.fields == ("album_id",)


class CorruptingHost(FakeImageHost):
    """A host whose records have wrong checksums."""

    def _run(self, request: httpx2.Request) -> httpx2.Response:
        return with_wrong_checksum(super()._run(request))


def with_wrong_checksum(response: httpx2.Response) -> httpx2.Response:
    envelope = response.json()
    envelope["data"]["sha256"] = "0" * 64
    return httpx2.Response(200, json=envelope)


def test_an_equal_checksum_is_accepted(call: Caller) -> None:
    content = make_png()
    image = call(lambda client: client.upload(content, checksum=True, convert_to_webp=False))
    assert image.sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_different_checksum_is_an_error_with_both(kind: str) -> None:
    host, content = CorruptingHost(), make_png()
    call = Caller(host.client, host.async_client if kind == "async" else None)
    with pytest.raises(ChecksumError, match=hashlib.sha256(content).hexdigest()) as caught:
        call(lambda client: client.upload(content, checksum=True, convert_to_webp=False))
    assert "0" * 64 in caught.value.details


@pytest.mark.usefixtures("new_host")
def test_uploads_with_the_same_idempotency_key_are_stored_once(call: Caller, host: FakeImageHost) -> None:
    images = [call(lambda client: client.upload(make_png(), idempotency_key="k")) for _ in range(2)]
    assert images[0] == images[1]
    assert [image.meta.replayed for image in images] == [False, True]
    assert len(stored_images(host)) == 1
    with pytest.raises(ConflictError):
        call(lambda client: client.upload(make_gif(), idempotency_key="k"))


def test_albums_hold_images(call: Caller, host: FakeImageHost) -> None:
    album = call(lambda client: client.albums.create("Cats", description="All", is_public=False))
    assert (album.name, album.description, album.is_public, album.image_count) == ("Cats", "All", False, 0)
    images = [call(lambda client: client.upload(make_png())) for _ in range(3)]
    added = call(lambda client: client.albums.add_images(album, [*images, "missing"]))
    assert [member.status for member in added.results] == ["added", "added", "added", "not_found"]
    assert (added.album.image_count, added.album.cover_image_id) == (3, images[-1].id)
    removed = call(lambda client: client.albums.remove_images(album, images[:1]))
    assert [(member.image_id, member.status) for member in removed.results] == [(images[0].id, "removed")]
    listed = call(lambda client: client.images.list(album_id=album.id))
    assert {image.id for image in listed} == {image.id for image in images[1:]}
    assert call(lambda client: client.images.update(images[1], album_id=None)).album_id is None
    assert call(lambda client: client.albums.update(album, name="Dogs")).name == "Dogs"
    assert [record.name for record in call(lambda client: client.albums.list())] == ["Dogs"]
    assert call(lambda client: client.albums.get(str(album.id))).image_count == 1
    assert call(lambda client: client.albums.delete(album, delete_images=True)).id == album.id
    assert {image.id for image in stored_images(host)} == {images[0].id, images[1].id}


def test_a_key_has_the_permissions_of_its_scopes(call: Caller, host: FakeImageHost) -> None:
    ends = datetime.now(UTC) + timedelta(days=1)
    key = call(lambda client: client.keys.create("ci", scopes=["images:read"], expires_at=ends))
    assert key.token.startswith(key.prefix)
    assert key.expires_at == ends
    assert call(lambda client: client.keys.get(key)).name == "ci"
    assert call(lambda client: client.keys.update(key.id, name="cd", expires_at=None)).expires_at is None
    assert [record.name for record in call(lambda client: client.keys.list())] == ["cd"]
    with Client(host.base_url, key.token, transport=host) as limited:
        assert list(limited.images.list()) == []
        with pytest.raises(Exception, match="images:write"):
            limited.upload(make_png())
        call(lambda client: client.keys.delete(key))
        with pytest.raises(UnauthorizedError):
            limited.images.list().first_page()


def test_webhooks_are_created_tested_rotated_and_deleted(call: Caller) -> None:
    webhook = call(
        lambda client: client.webhooks.create("https://example.com/hook", events=["image.uploaded"])
    )
    assert webhook.secret.startswith("whsec_")
    assert call(lambda client: client.webhooks.get(webhook)).events == ("image.uploaded",)
    assert call(lambda client: client.webhooks.update(webhook, is_active=False)).is_active is False
    delivery = call(lambda client: client.webhooks.test(webhook))
    assert [record.id for record in call(lambda client: client.webhooks.deliveries(webhook))] == [delivery.id]
    assert call(lambda client: client.webhooks.retry(webhook, delivery)).status == "pending"
    assert call(lambda client: client.webhooks.rotate_secret(webhook)).secret != webhook.secret
    assert len(call(lambda client: client.webhooks.list())) == 1
    assert call(lambda client: client.webhooks.delete(webhook)).id == webhook.id
    assert call(lambda client: client.webhooks.list()) == []


def test_the_account_has_usage_quota_and_limits(call: Caller) -> None:
    content = make_png()
    call(lambda client: client.upload(content, convert_to_webp=False))
    account = call(lambda client: client.account())
    assert (account.account.name, account.usage.images, account.usage.bytes) == ("admin", 1, len(content))
    assert account.quota.bytes is None
    assert account.limits == ()


def test_a_session_token_has_all_permissions(call: Caller, host: FakeImageHost) -> None:
    session = call(lambda client: client.sessions.create("admin", "secret"))
    with Client(host.base_url, session.token, transport=host) as signed_in:
        assert signed_in.keys.create("k").name == "k"
        assert signed_in.sessions.delete().meta.request_id
    with pytest.raises(UnauthorizedError):
        call(lambda client: client.sessions.create("admin", "wrong"))


def test_the_gallery_lists_public_images_of_all_accounts(call: Caller, host: FakeImageHost) -> None:
    host.add_account("other")
    with host.client("other") as other:
        public_image = other.upload(make_png())
        other.upload(make_png(), is_public=False)
    assert [image.id for image in call(lambda client: client.gallery())] == [public_image.id]
    with Client(host.base_url, transport=host) as anonymous:
        assert [image.id for image in anonymous.gallery(per_page=1)] == [public_image.id]


def test_a_signed_url_delivers_a_private_image(call: Caller, host: FakeImageHost) -> None:
    image = call(lambda client: client.upload(make_png(20, 20), is_public=False))
    signed = call(lambda client: client.images.signed_url(image, w=10, expires_in=60))
    assert signed.expires_at > host.clock.now()
    with httpx2.Client(transport=host) as anonymous:
        assert anonymous.get(image.url).status_code == 404
        assert anonymous.get(signed.url).content == host.core.render(image.id, "w=10").data
    with pytest.raises(ValueError, match="for w"):
        call(lambda client: client.images.signed_url(image, w=0))


def test_pages_are_requested_during_iteration(call: Caller, host: FakeImageHost) -> None:
    ids = [call(lambda client: client.upload(make_png())).id for _ in range(7)]
    host.requests.clear()
    assert [image.id for image in call(lambda client: client.images.list(per_page=3))] == ids[::-1]
    assert len(host.requests) == 3
    assert [len(page) for page in call(lambda client: client.images.list(per_page=3).pages())] == [3, 3, 1]
    assert call(lambda client: client.images.list(per_page=2, page=2).first_page()).items[0].id == ids[4]
    assert [image.id for image in call(lambda client: client.images.list(per_page=2, page=2))] == ids[4::-1]


def test_iteration_neither_skips_nor_repeats_while_images_are_added_and_deleted(client: Client) -> None:
    ids = [client.upload(make_png()).id for _ in range(6)]
    seen = []
    for image in client.images.list(per_page=2):
        seen.append(image.id)
        if len(seen) == 2:
            client.upload(make_png())
            client.images.delete(ids[-1])
            client.images.delete(ids[-2])
    assert seen == ids[::-1]


def test_a_list_can_be_iterated_twice_and_sends_no_request_before(
    client: Client, host: FakeImageHost
) -> None:
    host.requests.clear()
    images = client.images.list()
    assert host.requests == []
    assert list(images) == list(images) == []
    assert len(host.requests) == 2


def repeat_cursor(_: httpx2.Request) -> httpx2.Response:
    """Return a page whose cursor is that of every page."""
    pagination = {"page": 1, "per_page": 1, "total": 2, "total_pages": 2, "next_cursor": "same"}
    return httpx2.Response(200, json={"success": True, "data": {"images": [], "pagination": pagination}})


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_repeated_cursor_is_an_error(kind: type[Client] | type[AsyncClient]) -> None:
    def connect() -> Any:
        return kind("https://h/v1", transport=httpx2.MockTransport(repeat_cursor))

    repeat = Caller(connect, connect if kind is AsyncClient else None)
    with pytest.raises(ServerError, match="cursor"):
        repeat(lambda client: client.images.list(per_page=1))


def test_a_call_is_retried_after_a_connection_failure(call: Caller, host: FakeImageHost) -> None:
    host.drop(times=3)
    assert call(lambda client: client.upload(make_png())).meta.attempts == 4
    host.drop(times=4)
    with pytest.raises(APIConnectionError):
        call(lambda client: client.images.list().first_page())


def test_an_explicit_httpx_client_is_used_and_not_closed(host: FakeImageHost) -> None:
    with httpx2.Client(transport=host) as http:
        with Client(host.base_url, host.accounts["admin"], http_client=http) as client:
            client.upload(make_png())
        assert not http.is_closed

    async def asynchronous() -> None:
        async with httpx2.AsyncClient(transport=host) as http:
            async with AsyncClient(host.base_url, host.accounts["admin"], http_client=http) as client:
                await client.upload(make_png())
            assert not http.is_closed

    anyio.run(asynchronous)


def test_calls_of_the_async_client_can_be_gathered(host: FakeImageHost) -> None:
    async def gather() -> list[str]:
        async with without_delays(host.async_client()) as client:
            images = await asyncio.gather(*(client.upload(io.BytesIO(make_png())) for _ in range(5)))
            task = asyncio.create_task(client.images.get(images[0]))
            assert (await task) == images[0]
            return [image.id for image in images]

    assert len(set(asyncio.run(gather()))) == 5
