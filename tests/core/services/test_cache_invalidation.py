"""Caches: what was read before a change is not served after it, though it is put in a cache after it.

In each test a read has its row, then the change is made and returns, and then the read puts its result in
the cache. docs/reliability.md lists the caches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from tests.open_host import open_host
from tests.sqlite_hooks import SqliteHooks, sqlite_hooks
from tests.waiting import wait_until

from imagehost_core import Account, Image, ImageHost, NotFoundError, Scope, Settings, UnauthorizedError
from imagehost_core.models import Role
from imagehost_core.settings import RenderingSettings
from imagehost_core.testing import make_image

SETTINGS = Settings(base_url="https://img.example/v1", rendering=RenderingSettings(processes=1))
QUERY = "w=8"


@pytest.fixture(scope="module")
def installed() -> Iterator[SqliteHooks]:
    with sqlite_hooks() as installed:
        yield installed


@pytest.fixture
def hooks(installed: SqliteHooks, ann: Account) -> Iterator[SqliteHooks]:
    """The hooks, without a function that a test has not called."""
    yield installed
    installed.clear()


@pytest.fixture(scope="module")
def host(installed: SqliteHooks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageHost]:
    with open_host(tmp_path_factory.mktemp("host"), settings=SETTINGS) as opened:
        yield opened


@pytest.fixture
def ann(host: ImageHost) -> Iterator[Account]:
    """A new account."""
    yield host.accounts.create("ann")
    with suppress(NotFoundError):
        host.accounts.delete("ann")


@pytest.fixture
def image(host: ImageHost, ann: Account) -> Image:
    """A new public image, which was not read yet."""
    return host.upload(make_image(20, 16), owner=ann)


TokenChange = Callable[[ImageHost, str], object]
KEY_CHANGES: dict[str, TokenChange] = {
    "key revoked": lambda host, key: host.keys.delete(key, owner="ann"),
    "account suspended": lambda host, _: host.accounts.update("ann", suspended=True),
    "account deleted": lambda host, _: host.accounts.delete("ann"),
}
SESSION_CHANGES: dict[str, TokenChange] = {
    "session ended": lambda host, session: host.sessions.delete(session, owner="ann"),
    "password changed": lambda host, _: host.accounts.set_password_hash("ann", "hash"),
    "account suspended": lambda host, _: host.accounts.update("ann", suspended=True),
    "account deleted": lambda host, _: host.accounts.delete("ann"),
}
TOKEN_ROW, ACCOUNT_ROW = "WHERE token_hash", "FROM accounts WHERE id"
"""Parts of the two queries that read a principal."""


def new_token(host: ImageHost, kind: str, owner: Account) -> tuple[str, str]:
    """Return the token of a new key or session, and its id."""
    if kind == "key":
        key = host.keys.create(owner=owner)
        return key.token, key.id
    session = host.sessions.create(owner)
    return session.token, session.id


@pytest.mark.parametrize("row", [TOKEN_ROW, ACCOUNT_ROW])
@pytest.mark.parametrize(
    ("kind", "change"),
    [("key", change) for change in KEY_CHANGES.values()]
    + [("session", change) for change in SESSION_CHANGES.values()],
    ids=[*(f"key-{name}" for name in KEY_CHANGES), *(f"session-{name}" for name in SESSION_CHANGES)],
)
def test_a_token_that_ended_while_its_principal_was_read_is_refused(
    host: ImageHost, hooks: SqliteHooks, ann: Account, kind: str, change: TokenChange, row: str
) -> None:
    token, token_id = new_token(host, kind, ann)
    hooks.after_row(row, lambda: change(host, token_id))
    with suppress(UnauthorizedError):
        host.authenticate(token)
    assert hooks.is_done
    assert host.keys.authenticate_cached(token) is None
    with pytest.raises(UnauthorizedError):
        host.authenticate(token)


@pytest.mark.parametrize("kind", ["key", "session"])
def test_a_token_is_refused_whose_account_is_suspended_before_its_row_is_read(
    host: ImageHost, hooks: SqliteHooks, ann: Account, kind: str
) -> None:
    token, _ = new_token(host, kind, ann)
    hooks.after_row(TOKEN_ROW, lambda: host.accounts.update("ann", suspended=True))
    with pytest.raises(UnauthorizedError):
        host.authenticate(token)


def test_scopes_limits_and_role_that_changed_while_the_principal_was_read_hold_next_time(
    host: ImageHost, hooks: SqliteHooks, ann: Account
) -> None:
    created = host.keys.create(owner=ann)

    def change() -> None:
        host.keys.update(created, owner="ann", scopes=[Scope.IMAGES_READ])
        host.accounts.update("ann", api_per_minute=7, role="operator")

    hooks.after_row(ACCOUNT_ROW, change)
    host.authenticate(created.token)
    assert hooks.is_done
    principal = host.keys.authenticate_cached(created.token) or host.authenticate(created.token)
    assert principal.scopes == {Scope.IMAGES_READ}
    assert (principal.account.limits.api_per_minute, principal.account.role) == (7, Role.OPERATOR)


ImageChange = Callable[[ImageHost, Image], object]
REFUSALS: dict[str, ImageChange] = {
    "hidden": lambda host, image: host.images.update(image, is_public=False),
    "hidden in bulk": lambda host, image: host.images.update_many([image], owner="ann", is_public=False),
    "deleted": lambda host, image: host.images.delete(image),
    "deleted in bulk": lambda host, image: host.images.delete_many([image], owner="ann"),
    "account suspended": lambda host, _: host.accounts.update("ann", suspended=True),
    "account deleted": lambda host, _: host.accounts.delete("ann"),
}
IMAGE_ROW = "FROM images"
"""A part of the queries that read images."""


@pytest.mark.parametrize("change", REFUSALS.values(), ids=REFUSALS)
def test_an_image_that_ended_while_its_record_was_read_is_not_delivered(
    host: ImageHost, hooks: SqliteHooks, image: Image, change: ImageChange
) -> None:
    hooks.after_row(IMAGE_ROW, lambda: change(host, image))
    host.delivery.resolve(image.id, QUERY)
    assert hooks.is_done
    assert host.delivery.resolve_cached(image.id, QUERY) is None
    with pytest.raises(NotFoundError):
        host.delivery.resolve(image.id, QUERY)


def test_a_signature_whose_key_is_renewed_while_it_is_read_is_refused(
    host: ImageHost, hooks: SqliteHooks, ann: Account
) -> None:
    image = host.upload(make_image(20, 16), owner=ann, is_public=False)
    signed = urlsplit(host.images.signed_url(image, QUERY, owner=ann).url).query
    hooks.after_row(IMAGE_ROW, lambda: host.accounts.renew_signing_secret("ann"))
    host.delivery.resolve(image.id, signed)
    assert hooks.is_done
    assert host.delivery.resolve_cached(image.id, signed) is None
    with pytest.raises(NotFoundError):
        host.delivery.resolve(image.id, signed)


def test_a_file_name_that_changed_while_the_record_was_read_is_delivered_next_time(
    host: ImageHost, hooks: SqliteHooks, image: Image
) -> None:
    hooks.after_row(IMAGE_ROW, lambda: host.images.update(image, filename="new.png"))
    host.delivery.resolve(image.id, QUERY)
    assert hooks.is_done
    assert host.delivery.resolve(image.id, QUERY).image.filename.startswith("new.")


def test_an_image_that_was_hidden_while_a_url_was_resolved_from_memory_is_not_delivered(
    host: ImageHost, image: Image
) -> None:
    """The format is negotiated between the read of the image in memory and the cache of resolved URLs."""

    class Accept(str):
        is_read = False

        def lower(self) -> str:
            return self._change()

        def split(self, *_: object) -> list[str]:
            return [self._change()]

        def _change(self) -> str:
            if not self.is_read:
                self.is_read = True
                host.images.update(image, is_public=False)
            return "*/*"

    host.delivery.resolve(image.id)
    accept = Accept("*/*")
    assert host.delivery.resolve_cached(f"{image.id}.auto", accept=accept) is not None
    assert accept.is_read
    assert host.delivery.resolve_cached(f"{image.id}.auto", accept="*/*") is None


Read = Callable[[ImageHost, Image], object]
READS: dict[str, tuple[str, Read]] = {
    "record": (IMAGE_ROW, lambda host, image: host.images.get(image, owner="ann")),
    "list": (IMAGE_ROW, lambda host, _: list(host.images.list(owner="ann"))),
    "gallery": (IMAGE_ROW, lambda host, _: list(host.gallery())),
    "usage": ("SELECT image_count", lambda host, _: host.accounts.usage("ann")),
}
"""Results of reads that are kept until the next commit, and a part of their queries."""


@pytest.mark.parametrize(("row", "read"), READS.values(), ids=READS)
def test_what_changed_while_it_was_read_is_read_again(
    host: ImageHost, hooks: SqliteHooks, image: Image, row: str, read: Read
) -> None:
    def change() -> None:
        host.images.update(image, filename="new.png")
        host.upload(make_image(12, 12), owner="ann")

    hooks.after_row(row, change)
    before = read(host, image)
    assert hooks.is_done
    after = read(host, image)
    assert after != before
    with open_host(host.path, settings=SETTINGS) as other:
        assert read(other, image) == after


def test_a_variant_of_an_image_that_is_deleted_while_it_is_cached_is_in_no_cache(
    host: ImageHost, hooks: SqliteHooks, image: Image
) -> None:
    """The last read before a variant is written is that of the record, under the lock of the variants."""
    resolved = host.delivery.resolve(image.id, QUERY)
    assert resolved.key is not None
    deletion = threading.Thread(target=host.images.delete, args=[image])

    def delete() -> None:
        deletion.start()
        wait_until(lambda: not list(host.images.list(owner="ann")))

    hooks.after_row(IMAGE_ROW, delete)
    host.delivery.open(resolved).close()
    assert hooks.is_done
    deletion.join(30)
    assert host.delivery.resolve_cached(image.id, QUERY) is None
    assert not list((host.path / "variants").glob(f"*/{image.id}"))
    with pytest.raises(NotFoundError):
        host.delivery.open(resolved)
