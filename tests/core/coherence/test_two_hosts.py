"""Two hosts on one PostgreSQL, quickly: what one has changed holds on the other when the change returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.adapt import Buffer, Loader
from psycopg.pq import Format
from tests.core.coherence.conftest import opening_hosts
from tests.postgres import PostgresServer
from tests.waiting import wait_until

from imagehost_core import Account, ImageHost, NotFoundError, UnauthorizedError
from imagehost_core.testing import make_image

TEXT = psycopg.adapters.types["text"].oid
_waiting: dict[bytes, Callable[[], object]] = {}
"""What to call once when a text is read from the database, by the text."""


class TextLoader(Loader):
    """The loader of texts, which calls the function that waits for one."""

    def load(self, data: Buffer) -> str:
        text = bytes(data)
        if action := _waiting.pop(text, None):
            action()
        return text.decode()


@contextmanager
def text_loader() -> Iterator[None]:
    """Let the connections that are opened in a block read texts with `TextLoader`."""
    before = psycopg.adapters.get_loader(TEXT, Format.TEXT)
    assert before is not None
    psycopg.adapters.register_loader(TEXT, TextLoader)
    try:
        yield
    finally:
        psycopg.adapters.register_loader(TEXT, before)
        _waiting.clear()


@pytest.fixture(scope="module")
def hosts(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer
) -> Iterator[tuple[ImageHost, ImageHost]]:
    """Two hosts; reads of the other one can be interrupted."""
    with (
        postgres_server.empty_database() as url,
        opening_hosts(tmp_path_factory.mktemp("hosts"), url) as open_one,
    ):
        one = open_one("one")
        with text_loader():
            yield one, open_one("other")


@pytest.fixture
def ann(hosts: tuple[ImageHost, ImageHost]) -> Iterator[Account]:
    """A new account."""
    yield hosts[0].accounts.create("ann")
    with suppress(NotFoundError):
        hosts[0].accounts.delete("ann")


def is_delivered(host: ImageHost, url: str) -> bool:
    """Return whether a host delivers an image, from memory or not."""
    path, _, query = url.partition("?")
    try:
        return bool(host.delivery.resolve_cached(path, query) or host.delivery.resolve(path, query))
    except NotFoundError:
        return False


def is_valid(host: ImageHost, token: str) -> bool:
    """Return whether a host accepts a token, from memory or not."""
    try:
        return bool(host.keys.authenticate_cached(token) or host.authenticate(token))
    except UnauthorizedError:
        return False


Change = Callable[[ImageHost, str], object]
IMAGE_CHANGES: dict[str, Change] = {
    "deleted": lambda host, image_id: host.images.delete(image_id),
    "deleted in bulk": lambda host, image_id: host.images.delete_many([image_id], owner="ann"),
    "hidden": lambda host, image_id: host.images.update(image_id, is_public=False),
    "hidden in bulk": lambda host, image_id: host.images.update_many(
        [image_id], owner="ann", is_public=False
    ),
    "account suspended": lambda host, _: host.accounts.update("ann", suspended=True),
    "account deleted": lambda host, _: host.accounts.delete("ann"),
}
TOKEN_CHANGES: dict[str, tuple[str, Change]] = {
    "key revoked": ("key", lambda host, key: host.keys.delete(key, owner="ann")),
    "account of a key suspended": ("key", IMAGE_CHANGES["account suspended"]),
    "account of a key deleted": ("key", IMAGE_CHANGES["account deleted"]),
    "session ended": ("session", lambda host, session: host.sessions.delete(session, owner="ann")),
    "password changed": ("session", lambda host, _: host.accounts.set_password_hash("ann", "hash")),
}


def new_token(host: ImageHost, kind: str, owner: Account) -> tuple[str, str]:
    """Return the token of a new key or session, and its id."""
    if kind == "key":
        key = host.keys.create(owner=owner)
        return key.token, key.id
    session = host.sessions.create(owner)
    return session.token, session.id


@pytest.mark.parametrize("change", IMAGE_CHANGES.values(), ids=IMAGE_CHANGES)
def test_an_image_is_not_delivered_by_the_other_host_after_the_change(
    hosts: tuple[ImageHost, ImageHost], ann: Account, change: Change
) -> None:
    one, other = hosts
    image_id = one.upload(make_image(20, 16), owner=ann).id
    wait_until(lambda: is_delivered(other, image_id) and other.delivery.resolve_cached(image_id))
    change(one, image_id)
    assert not is_delivered(other, image_id)


def test_no_file_of_a_deleted_image_is_left_on_the_other_host(
    hosts: tuple[ImageHost, ImageHost], ann: Account
) -> None:
    one, other = hosts
    image = one.upload(make_image(20, 16), owner=ann)
    other.render(image, "w=8")
    assert [*other.path.rglob(image.id)]
    one.images.delete(image)
    assert not [*other.path.rglob(image.id)]


@pytest.mark.parametrize(("kind", "change"), TOKEN_CHANGES.values(), ids=TOKEN_CHANGES)
def test_a_token_is_refused_by_the_other_host_after_the_change(
    hosts: tuple[ImageHost, ImageHost], ann: Account, kind: str, change: Change
) -> None:
    one, other = hosts
    token, token_id = new_token(one, kind, ann)
    wait_until(lambda: is_valid(other, token) and other.keys.authenticate_cached(token))
    change(one, token_id)
    assert not is_valid(other, token)


@pytest.mark.parametrize("change", IMAGE_CHANGES.values(), ids=IMAGE_CHANGES)
def test_an_image_that_the_other_host_was_reading_during_the_change_is_not_delivered_afterwards(
    hosts: tuple[ImageHost, ImageHost], ann: Account, change: Change
) -> None:
    """The other host has the row, the change is made and acknowledged, then the row is put in the cache."""
    one, other = hosts
    image_id = one.upload(make_image(20, 16), owner=ann).id
    _waiting[image_id.encode()] = lambda: change(one, image_id)
    other.delivery.resolve(image_id)
    assert not _waiting
    assert not is_delivered(other, image_id)


@pytest.mark.parametrize(("kind", "change"), TOKEN_CHANGES.values(), ids=TOKEN_CHANGES)
def test_a_token_that_the_other_host_was_reading_during_the_change_is_refused_afterwards(
    hosts: tuple[ImageHost, ImageHost], ann: Account, kind: str, change: Change
) -> None:
    one, other = hosts
    token, token_id = new_token(one, kind, ann)
    _waiting[token_id.encode()] = lambda: change(one, token_id)
    is_valid(other, token)
    assert not _waiting
    assert not is_valid(other, token)


@pytest.mark.parametrize("is_read_meanwhile", [False, True])
def test_a_signature_whose_key_was_renewed_is_refused_by_the_other_host(
    hosts: tuple[ImageHost, ImageHost], ann: Account, is_read_meanwhile: bool
) -> None:
    one, other = hosts
    image = one.upload(make_image(20, 16), owner=ann, is_public=False)
    url = f"{image.id}?{urlsplit(one.images.signed_url(image, 'w=8', owner=ann).url).query}"
    if is_read_meanwhile:
        _waiting[image.id.encode()] = lambda: one.accounts.renew_signing_secret("ann")
        assert is_delivered(other, url)
        assert not _waiting
    else:
        wait_until(lambda: is_delivered(other, url) and other.delivery.resolve_cached(*url.split("?")))
        one.accounts.renew_signing_secret("ann")
    assert not is_delivered(other, url)
