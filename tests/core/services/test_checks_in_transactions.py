"""Checks before a change are repeated in its transaction: what is gone since is reported as missing.

In each test an operation has read the record that it needs, then another request deletes it, and then the
operation begins its transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from attrs import frozen
from tests.open_host import open_host
from tests.sqlite_hooks import SqliteHooks, sqlite_hooks

from imagehost_core import (
    Account,
    ConflictError,
    Image,
    ImageHost,
    ImageHostError,
    NotFoundError,
    Settings,
    ValidationError,
)
from imagehost_core.models import Album, Webhook, WebhookDelivery
from imagehost_core.services.webhooks import MAX_WEBHOOKS
from imagehost_core.settings import RenderingSettings, WebhookSettings
from imagehost_core.testing import make_image

SETTINGS = Settings(
    base_url="https://img.example/v1",
    rendering=RenderingSettings(processes=1),
    webhooks=WebhookSettings(allow_loopback=True),
)
URL = "http://127.0.0.1:9/"


@pytest.fixture(scope="module")
def installed() -> Iterator[SqliteHooks]:
    with sqlite_hooks() as installed:
        yield installed


@pytest.fixture(scope="module")
def host(installed: SqliteHooks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageHost]:
    with open_host(tmp_path_factory.mktemp("host"), settings=SETTINGS) as opened:
        yield opened


@frozen
class Owned:
    """A new account, and one resource of each kind that it owns; the image is in no album."""

    account: Account
    album: Album
    image: Image
    key: str
    webhook: Webhook
    delivery: WebhookDelivery


@pytest.fixture
def owned(host: ImageHost) -> Iterator[Owned]:
    account = host.accounts.create("ann")
    webhook = host.webhooks.create(owner=account, url=URL, events=["album.created"])
    album = host.albums.create(owner=account, name="x")
    (delivery,) = host.webhooks.deliveries(webhook, owner=account)
    image = host.upload(make_image(12, 9), owner=account)
    yield Owned(account, album, image, host.keys.create(owner=account).id, webhook, delivery)
    with suppress(NotFoundError):
        host.accounts.delete(account)


@pytest.fixture
def hooks(installed: SqliteHooks, owned: Owned) -> Iterator[SqliteHooks]:
    yield installed
    installed.clear()


Action = Callable[[ImageHost, Owned], object]
DELETIONS: dict[str, tuple[str, Action]] = {
    "image": ("FROM images", lambda host, owned: host.images.delete(owned.image)),
    "album": ("FROM albums", lambda host, owned: host.albums.delete(owned.album, owner="ann")),
    "key": ("FROM api_keys", lambda host, owned: host.keys.delete(owned.key, owner="ann")),
    "webhook": ("FROM webhooks", lambda host, owned: host.webhooks.delete(owned.webhook, owner="ann")),
}
"""By kind: a part of the query that reads a record, and its deletion."""
REPORTED: dict[str, tuple[str, Action, type[ImageHostError]]] = {
    "images.update": (
        "image",
        lambda host, owned: host.images.update(owned.image, description="x"),
        NotFoundError,
    ),
    "images.delete": ("image", lambda host, owned: host.images.delete(owned.image), NotFoundError),
    "images.update to an album": (
        "album",
        lambda host, owned: host.images.update(owned.image, album_id=owned.album.id),
        ValidationError,
    ),
    "images.update_many to an album": (
        "album",
        lambda host, owned: host.images.update_many([owned.image], owner="ann", album_id=owned.album.id),
        ValidationError,
    ),
    "upload to an album": (
        "album",
        lambda host, owned: host.upload(make_image(9, 9), owner="ann", album_id=owned.album.id),
        ValidationError,
    ),
    "albums.update": (
        "album",
        lambda host, owned: host.albums.update(owned.album, owner="ann", name="y"),
        NotFoundError,
    ),
    "albums.delete": (
        "album",
        lambda host, owned: host.albums.delete(owned.album, owner="ann"),
        NotFoundError,
    ),
    "albums.add_images": (
        "album",
        lambda host, owned: host.albums.add_images(owned.album, [owned.image], owner="ann"),
        NotFoundError,
    ),
    "albums.remove_images": (
        "album",
        lambda host, owned: host.albums.remove_images(owned.album, [owned.image], owner="ann"),
        NotFoundError,
    ),
    "keys.update": (
        "key",
        lambda host, owned: host.keys.update(owned.key, owner="ann", name="x"),
        ConflictError,
    ),
    "webhooks.update": (
        "webhook",
        lambda host, owned: host.webhooks.update(owned.webhook, owner="ann", description="x"),
        NotFoundError,
    ),
    "webhooks.delete": (
        "webhook",
        lambda host, owned: host.webhooks.delete(owned.webhook, owner="ann"),
        NotFoundError,
    ),
    "webhooks.rotate_secret": (
        "webhook",
        lambda host, owned: host.webhooks.rotate_secret(owned.webhook, owner="ann"),
        NotFoundError,
    ),
    "webhooks.test": (
        "webhook",
        lambda host, owned: host.webhooks.test(owned.webhook, owner="ann"),
        NotFoundError,
    ),
    "webhooks.retry": (
        "webhook",
        lambda host, owned: host.webhooks.retry(owned.webhook, owned.delivery, owner="ann"),
        NotFoundError,
    ),
}
"""By operation: the kind of the record that is deleted meanwhile, the operation, and its error."""


@pytest.mark.parametrize(("kind", "operation", "error"), REPORTED.values(), ids=REPORTED)
def test_what_is_deleted_after_the_check_is_reported_and_nothing_is_changed(
    host: ImageHost,
    hooks: SqliteHooks,
    owned: Owned,
    kind: str,
    operation: Action,
    error: type[ImageHostError],
) -> None:
    query, delete = DELETIONS[kind]
    after: list[object] = []

    def meanwhile() -> None:
        delete(host, owned)
        after.append(state(host, owned))

    hooks.after_row(query, meanwhile)
    try:
        operation(host, owned)
    except error:
        assert after == [state(host, owned)]
    else:
        assert not hooks.is_done, "only an operation whose one check is in its transaction succeeds"


def state(host: ImageHost, owned: Owned) -> object:
    """Return all records of the account, and the files of images."""
    return (
        list(host.images.list(owner="ann")),
        list(host.albums.list(owner="ann")),
        list(host.keys.list(owner="ann")),
        list(host.webhooks.list(owner="ann")),
        host.accounts.usage("ann"),
        sorted(path.name for path in (host.path / "images").glob("*/*")),
    )


@pytest.mark.parametrize("operation", ["update_many", "delete_many"])
def test_an_image_that_is_deleted_after_the_check_is_not_found_in_bulk(
    host: ImageHost, hooks: SqliteHooks, owned: Owned, operation: str
) -> None:
    query, delete = DELETIONS["image"]
    hooks.after_row(query, lambda: delete(host, owned))
    changes = {"description": "x"} if operation == "update_many" else {}
    (result,) = getattr(host.images, operation)([owned.image], owner="ann", **changes)
    assert hooks.is_done
    assert result.status == "not_found"


def test_a_key_that_is_revoked_again_keeps_the_first_time(
    host: ImageHost, hooks: SqliteHooks, owned: Owned
) -> None:
    revoked = []
    hooks.after_row("FROM api_keys", lambda: revoked.append(host.keys.delete(owned.key, owner="ann")))
    revoked += [host.keys.delete(owned.key, owner="ann") for _ in range(2)]
    assert revoked.count(revoked[0]) == len(revoked)


CREATIONS: dict[str, Action] = {
    "upload": lambda host, _: host.upload(make_image(9, 9), owner="ann"),
    "album": lambda host, _: host.albums.create(owner="ann", name="y"),
    "key": lambda host, _: host.keys.create(owner="ann"),
    "webhook": lambda host, _: host.webhooks.create(owner="ann", url=URL),
    "idempotency key": lambda host, owned: host.idempotency.begin(owned.account, "k", "f").__enter__(),
    "signed URL": lambda host, owned: host.images.signed_url(owned.image, owner="ann"),
}
"""Operations that insert a record of an account, or sign for it."""


@pytest.mark.parametrize("create", CREATIONS.values(), ids=CREATIONS)
def test_an_account_that_is_deleted_after_the_check_gets_nothing_new(
    host: ImageHost, hooks: SqliteHooks, owned: Owned, create: Action
) -> None:
    hooks.after_row("FROM accounts", lambda: host.accounts.delete(owned.account))
    with pytest.raises(NotFoundError):
        create(host, owned)
    assert hooks.is_done


def test_the_last_webhook_that_an_account_may_have_is_created_once(
    host: ImageHost, hooks: SqliteHooks, owned: Owned
) -> None:
    for _ in range(MAX_WEBHOOKS - 2):
        host.webhooks.create(owner="ann", url=URL)
    hooks.after_row("FROM webhooks", lambda: host.webhooks.create(owner="ann", url=URL))
    with pytest.raises(ValidationError, match="webhooks"):
        host.webhooks.create(owner="ann", url=URL)
    assert host.webhooks.list(owner="ann").total == MAX_WEBHOOKS
