"""The secret of an account's signed URLs: what ends them, in every process and on every host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.services.conftest import ONE_WORKER
from tests.open_host import open_host

from imagehost_core import Image, ImageHost, NotFoundError, Scope
from imagehost_core.authorization import SessionRequirement, authorize
from imagehost_core.settings import DeliverySettings
from imagehost_core.testing import FrozenClock, make_image

EACH_ENGINE = True
Opened = Callable[..., ImageHost]


def is_valid(host: ImageHost, url: str) -> bool:
    """Return whether a signed URL gives access, as seen by memory and by the database."""
    path, query = urlsplit(url).path.removeprefix("/img/"), urlsplit(url).query
    in_memory = host.delivery.resolve_cached(path, query) is not None
    try:
        host.delivery.resolve(path, query)
    except NotFoundError:
        assert not in_memory
        return False
    # What was just read is in memory now, with the key of its account.
    return host.delivery.resolve_cached(path, query) is not None


def own_private(host: ImageHost, name: str) -> Image:
    host.accounts.get_or_create(name)
    return host.upload(make_image(8, 8), owner=name, is_public=False)


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[ImageHost, Image, FrozenClock]]:
    """A host whose clock stands still, with a private image of `ann`."""
    clock = FrozenClock()
    with open_host(settings=ONE_WORKER, clock=clock) as host:
        yield host, own_private(host, "ann"), clock


@pytest.fixture
def hosts(opened: Opened, tmp_path: Path, engine: str) -> tuple[ImageHost, ImageHost]:
    """Two processes of one host; with PostgreSQL, two hosts of one database."""
    directories = [tmp_path / "data", tmp_path / ("data" if engine == "sqlite" else "other")]
    if engine != "sqlite":
        shared = tmp_path / "images"
        shared.mkdir()
        for directory in directories:
            directory.mkdir()
            (directory / "images").symlink_to(shared)
    return opened(directories[0]), opened(directories[1])


def test_a_renewed_secret_ends_all_signed_urls_of_its_account_everywhere(
    hosts: tuple[ImageHost, ImageHost],
) -> None:
    one, other = hosts
    image, foreign = own_private(one, "ann"), own_private(one, "bob")
    urls = [one.images.signed_url(image), one.images.signed_url(image, "w=4", owner="ann")]
    kept = one.images.signed_url(foreign)
    assert all(is_valid(host, url.url) for host in hosts for url in [*urls, kept])
    one.accounts.renew_signing_secret("ann")
    assert not any(is_valid(host, url.url) for host in hosts for url in urls)
    assert all(is_valid(host, kept.url) for host in hosts)
    renewed = other.images.signed_url(image)
    assert all(is_valid(host, renewed.url) for host in hosts)
    other.accounts.renew_signing_secret("ANN")
    assert not any(is_valid(host, renewed.url) for host in hosts)


def test_signing_out_and_a_new_password_keep_signed_urls_and_a_suspension_ends_them(
    hosts: tuple[ImageHost, ImageHost],
) -> None:
    one, other = hosts
    image = own_private(one, "ann")
    session = one.sessions.create(one.accounts.get("ann"))
    owner = authorize(one.authenticate(session.token), Scope.IMAGES_READ)
    url = one.images.signed_url(image, owner=owner)
    one.sessions.delete(session, owner="ann")
    one.accounts.set_password_hash("ann", "hash")
    assert is_valid(one, url.url)
    assert is_valid(other, url.url)
    one.accounts.update("ann", suspended=True)
    assert not is_valid(other, url.url)
    one.accounts.update("ann", suspended=False)
    assert is_valid(other, url.url)
    one.accounts.delete("ann")
    assert not is_valid(other, url.url)


def test_only_a_session_that_is_valid_renews_the_secret(hosts: tuple[ImageHost, ImageHost]) -> None:
    one, _ = hosts
    url = one.images.signed_url(own_private(one, "ann"))
    session = one.sessions.create(one.accounts.get("ann"))
    owner = authorize(one.authenticate(session.token), SessionRequirement.ONLY)
    one.sessions.delete(session, owner="ann")
    with pytest.raises(Exception, match="valid now"):
        one.accounts.renew_signing_secret(owner)
    assert is_valid(one, url.url)
    with pytest.raises(NotFoundError):
        one.accounts.renew_signing_secret("unknown")


def test_a_url_read_during_a_renewal_is_not_kept(hosts: tuple[ImageHost, ImageHost]) -> None:
    one, other = hosts
    url = one.images.signed_url(own_private(one, "ann"))
    ann = one.accounts.get("ann")
    context = one._context
    with context.principals.invalidated_by(context.units.transaction(ann)) as transaction:
        context.records.accounts.set_signing_secret(transaction, ann.id, b"another")
        path, query = urlsplit(url.url).path.removeprefix("/img/"), urlsplit(url.url).query
        one.delivery.resolve(path, query)
        assert one.delivery.resolve_cached(path, query) is None
    assert not is_valid(one, url.url)
    assert not is_valid(other, url.url)


def test_a_signed_transform_of_a_public_image_is_valid_after_changes_of_other_keys(opened: Opened) -> None:
    host = opened(settings=attrs.evolve(ONE_WORKER, delivery=DeliverySettings(require_signed=True)))
    ann = host.accounts.get_or_create("ann")
    url = host.images.signed_url(host.upload(make_image(8, 8), owner=ann), "w=4")
    assert is_valid(host, url.url)
    # The image stays in memory, and the key of its account does not.
    host.keys.delete(host.keys.create(owner=ann), owner=ann)
    assert is_valid(host, url.url)


@given(key_seconds=st.integers(1, 40_000_000), url_seconds=st.integers(1, 365 * 86_400))
def test_a_signed_url_outlives_no_key_that_made_it(
    shared: tuple[ImageHost, Image, FrozenClock], key_seconds: int, url_seconds: int
) -> None:
    host, image, clock = shared
    key = host.keys.create(owner="ann", expires_at=clock() + timedelta(seconds=key_seconds))
    owner = authorize(host.authenticate(key.token), Scope.IMAGES_READ)
    (many,) = host.images.signed_urls([{"image_id": image.id}], owner=owner, expires_in=url_seconds)
    one = host.images.signed_url(image, owner=owner, expires_in=url_seconds)
    for url in (many, one):
        expires = int(parse_qs(urlsplit(url.url).query)["exp"][0])
        assert expires - int(clock().timestamp()) == min(key_seconds, url_seconds)
