"""Suspended accounts: tokens, images in every cache and process, galleries and webhooks."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from imagehost_core import ImageHost, NotFoundError, Settings, UnauthorizedError
from imagehost_core.services.delivery import ResolvedImage
from imagehost_core.settings import RenderingSettings, WebhookSettings
from imagehost_core.testing import FrozenClock, make_image

SETTINGS = Settings(
    base_url="https://img.example/v1",
    rendering=RenderingSettings(processes=1),
    webhooks=WebhookSettings(allow_loopback=True),
)

Resolve = Callable[[ImageHost], ResolvedImage | None]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[ImageHost, ImageHost]]:
    """Two hosts with one data directory, as in two processes."""
    clock = FrozenClock()
    with (
        ImageHost.open(tmp_path, settings=SETTINGS, clock=clock) as one,
        ImageHost.open(tmp_path, settings=SETTINGS, clock=clock) as other,
    ):
        one.accounts.create("ann")
        yield one, other


def cached(host: ImageHost, url: str) -> ResolvedImage | None:
    """Return what an event loop would send without waiting, or `None`."""
    path, _, query = url.partition("?")
    return host.delivery.resolve_cached(path, query)


def deliver(host: ImageHost, url: str) -> bytes:
    """Return the bytes of a URL."""
    path, _, query = url.partition("?")
    resolved = host.delivery.resolve(path, query)
    with host.delivery.open(resolved) as blob:
        return blob.read()


def test_tokens_and_sign_in_are_refused_in_every_process(hosts: tuple[ImageHost, ImageHost]) -> None:
    account = hosts[0].accounts.get("ann")
    session, key = hosts[0].sessions.create(account), hosts[0].keys.create(owner=account)
    for host in hosts:
        assert host.authenticate(session.token).account == host.authenticate(key.token).account == account
    hosts[0].accounts.update("ann", suspended=True)
    for host in hosts:
        for token in (session.token, key.token):
            with pytest.raises(UnauthorizedError):
                host.authenticate(token)
        # The record was read before the suspension.
        with pytest.raises(UnauthorizedError):
            host.sessions.create(account)
    hosts[0].accounts.update("ann", suspended=False)
    for host in hosts:
        assert host.authenticate(key.token).account == account
        with pytest.raises(UnauthorizedError):
            host.authenticate(session.token)


@pytest.mark.parametrize("kind", ["master", "variant", "signed"])
def test_cached_images_are_404_in_every_process_until_the_suspension_ends(
    hosts: tuple[ImageHost, ImageHost], kind: str
) -> None:
    image = hosts[0].upload(make_image(), owner="ann", is_public=kind != "signed")
    path = f"{image.id}.webp"
    signed_url = hosts[0].images.signed_url(image, "w=20").url.rpartition("/")[2]
    url = {"master": path, "variant": f"{path}?w=20", "signed": signed_url}[kind]
    expected = deliver(hosts[0], url)
    for host in hosts:
        assert deliver(host, url) == expected
        assert cached(host, url) is not None
    hosts[0].accounts.update("ann", suspended=True)
    for host in hosts:
        assert cached(host, url) is None
        for _ in range(2):
            with pytest.raises(NotFoundError) as suspended:
                host.delivery.resolve(*url.split("?"))
            assert cached(host, url) is None
        with pytest.raises(NotFoundError) as missing:
            host.delivery.resolve("0" * 16)
        details = suspended.value.details.replace(image.id, "0" * 16)
        assert details == missing.value.details
    hosts[1].accounts.update("ann", suspended=False)
    for host in hosts:
        assert deliver(host, url) == expected
        assert cached(host, url) is not None


def test_the_images_of_other_accounts_are_delivered_as_before(hosts: tuple[ImageHost, ImageHost]) -> None:
    image = hosts[0].upload(make_image(), owner="admin")
    before = deliver(hosts[1], image.id)
    hosts[0].accounts.update("ann", suspended=True)
    assert deliver(hosts[1], image.id) == before


def test_a_repeated_suspension_completes_one_that_was_interrupted(
    hosts: tuple[ImageHost, ImageHost],
) -> None:
    image = hosts[0].upload(make_image(), owner="ann")
    deliver(hosts[1], image.id)
    locks = hosts[0].path / "locks"
    locks.rename(hosts[0].path / "elsewhere")
    with pytest.raises(FileNotFoundError):
        hosts[0].accounts.update("ann", suspended=True)
    (hosts[0].path / "elsewhere").rename(locks)
    assert cached(hosts[1], image.id) is not None
    hosts[0].accounts.update("ann", suspended=True)
    assert cached(hosts[1], image.id) is None


def test_a_suspended_accounts_images_are_in_no_gallery(hosts: tuple[ImageHost, ImageHost]) -> None:
    image = hosts[0].upload(make_image(), owner="ann")
    assert [shown.id for shown in hosts[1].gallery()] == [image.id]
    hosts[0].accounts.update("ann", suspended=True)
    assert hosts[1].gallery().items == ()
    hosts[0].accounts.update("ann", suspended=False)
    assert [shown.id for shown in hosts[1].gallery()] == [image.id]


def test_webhooks_are_paused_and_send_everything_later(hosts: tuple[ImageHost, ImageHost]) -> None:
    host = hosts[0]
    for name in ("ann", "admin"):
        host.webhooks.create(owner=name, url="http://127.0.0.1:9/")
    image = host.upload(make_image(), owner="ann")
    host.accounts.update("ann", suspended=True)
    assert host.webhooks.lease(9) == ()
    assert host.webhooks.next_due() is None
    host.images.delete(image)
    host.upload(make_image(), owner="admin")
    assert [leased.delivery.event for leased in host.webhooks.lease(9)] == ["image.uploaded"]
    host.accounts.update("ann", suspended=False)
    assert host.webhooks.next_due() == host.now()
    leased = host.webhooks.lease(9)
    assert sorted(lease.delivery.event for lease in leased) == ["image.deleted", "image.uploaded"]
    assert {lease.delivery.attempts for lease in leased} == {0}


def test_suspending_again_invalidates_what_a_process_that_died_after_its_commit_has_left_in_memory(
    hosts: tuple[ImageHost, ImageHost],
) -> None:
    one, other = hosts
    image = one.upload(make_image(4, 3), owner="ann")
    deliver(other, image.id)
    with closing(sqlite3.connect(one.path / "imagehost.sqlite3", isolation_level=None)) as died:
        died.execute("UPDATE accounts SET suspended_at = 1 WHERE name = 'ann'")
    assert cached(other, image.id) is not None, "the other host was not told"
    one.accounts.update("ann", suspended=True)
    assert cached(other, image.id) is None
