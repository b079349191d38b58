"""Resources of others are refused after the same queries as missing ones: their timing reveals nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress

import attrs
import pytest
from tests.open_host import open_host
from tests.sqlite_hooks import SqliteHooks, sqlite_hooks

from imagehost_core import Account, ImageHost, ImageHostError, NotFoundError, Settings, ValidationError
from imagehost_core.settings import RenderingSettings, WebhookSettings
from imagehost_core.testing import make_image

SETTINGS = Settings(
    base_url="https://img.example/v1",
    rendering=RenderingSettings(processes=1),
    webhooks=WebhookSettings(allow_loopback=True),
)
URL = "http://127.0.0.1:9/"


@pytest.fixture(scope="module")
def hooks() -> Iterator[SqliteHooks]:
    with sqlite_hooks() as installed:
        yield installed


@pytest.fixture(scope="module")
def host(hooks: SqliteHooks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageHost]:
    with open_host(tmp_path_factory.mktemp("host"), settings=SETTINGS) as opened:
        yield opened


@attrs.frozen
class Ids:
    """The ids of one resource of each kind."""

    image: str
    album: int
    key: str
    session: str
    webhook: str
    delivery: str


MISSING = Ids(
    image="0123456789abcde0",
    album=999,
    key="0123456789abcde1",
    session="0123456789abcde2",
    webhook="0123456789abcde3",
    delivery="0123456789abcde4",
)


@pytest.fixture(scope="module")
def ann(host: ImageHost) -> Account:
    return host.accounts.create("ann")


@pytest.fixture(scope="module")
def foreign(host: ImageHost) -> Ids:
    """Private resources of another account."""
    owner = host.accounts.create("ben")
    webhook = host.webhooks.create(owner=owner, url=URL, events=["album.created"])
    album = host.albums.create(owner=owner, name="x", is_public=False)
    image = host.upload(make_image(12, 9), owner=owner, album_id=album.id, is_public=False)
    (delivery,) = host.webhooks.deliveries(webhook.id, owner=owner)
    session = host.sessions.create(owner)
    return Ids(image.id, album.id, host.keys.create(owner=owner).id, session.id, webhook.id, delivery.id)


Operation = Callable[[ImageHost, Ids, Account], object]
OPERATIONS: dict[str, Operation] = {
    "images.get": lambda host, ids, ann: host.images.get(ids.image, owner=ann),
    "images.get public": lambda host, ids, _: host.images.get(ids.image, public=True),
    "images.update": lambda host, ids, ann: host.images.update(ids.image, owner=ann, description="x"),
    "images.update_many": lambda host, ids, ann: host.images.update_many(
        [ids.image], owner=ann, description="x"
    ),
    "images.delete": lambda host, ids, ann: host.images.delete(ids.image, owner=ann),
    "images.delete_many": lambda host, ids, ann: host.images.delete_many([ids.image], owner=ann),
    "images.signed_url": lambda host, ids, ann: host.images.signed_url(ids.image, owner=ann),
    "images.signed_urls": lambda host, ids, ann: host.images.signed_urls([{"id": ids.image}], owner=ann),
    "images.list": lambda host, ids, ann: host.images.list(owner=ann, album_id=ids.album),
    "images.list searched": lambda host, ids, ann: host.images.list(owner=ann, album_id=ids.album, q="cat"),
    "gallery": lambda host, ids, _: host.gallery(album_id=ids.album),
    "camera_data": lambda host, ids, ann: host.camera_data(ids.image, owner=ann),
    "upload": lambda host, ids, ann: host.upload(make_image(9, 9), owner=ann, album_id=ids.album),
    "albums.get": lambda host, ids, ann: host.albums.get(ids.album, owner=ann),
    "albums.update": lambda host, ids, ann: host.albums.update(ids.album, owner=ann, name="y"),
    "albums.delete": lambda host, ids, ann: host.albums.delete(ids.album, owner=ann),
    "albums.delete with images": lambda host, ids, ann: host.albums.delete(
        ids.album, owner=ann, delete_images=True
    ),
    "albums.add_images": lambda host, ids, ann: host.albums.add_images(ids.album, [ids.image], owner=ann),
    "albums.remove_images": lambda host, ids, ann: host.albums.remove_images(
        ids.album, [ids.image], owner=ann
    ),
    "keys.get": lambda host, ids, ann: host.keys.get(ids.key, owner=ann),
    "keys.update": lambda host, ids, ann: host.keys.update(ids.key, owner=ann, name="x"),
    "keys.delete": lambda host, ids, ann: host.keys.delete(ids.key, owner=ann),
    "sessions.delete": lambda host, ids, ann: host.sessions.delete(ids.session, owner=ann),
    "webhooks.get": lambda host, ids, ann: host.webhooks.get(ids.webhook, owner=ann),
    "webhooks.update": lambda host, ids, ann: host.webhooks.update(ids.webhook, owner=ann, description="x"),
    "webhooks.delete": lambda host, ids, ann: host.webhooks.delete(ids.webhook, owner=ann),
    "webhooks.test": lambda host, ids, ann: host.webhooks.test(ids.webhook, owner=ann),
    "webhooks.rotate_secret": lambda host, ids, ann: host.webhooks.rotate_secret(ids.webhook, owner=ann),
    "webhooks.deliveries": lambda host, ids, ann: host.webhooks.deliveries(ids.webhook, owner=ann),
    "webhooks.retry": lambda host, ids, ann: host.webhooks.retry(ids.webhook, ids.delivery, owner=ann),
    "delivery": lambda host, ids, _: host.delivery.resolve(ids.image),
    "delivery of a variant": lambda host, ids, ann: host.delivery.resolve(ids.image, "w=8", viewer=ann),
    "delivery with a wrong signature": lambda host, ids, _: host.delivery.resolve(
        ids.image, "w=8&exp=9999999999&sig=x"
    ),
}


def queries(host: ImageHost, hooks: SqliteHooks, operation: Operation, ids: Ids, ann: Account) -> list[str]:
    with hooks.recording() as statements, suppress(NotFoundError, ValidationError):
        operation(host, ids, ann)
    return statements


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_the_queries_are_those_of_a_missing_resource(
    host: ImageHost, hooks: SqliteHooks, ann: Account, foreign: Ids, operation: Operation
) -> None:
    missing = queries(host, hooks, operation, MISSING, ann)
    assert missing, "an operation reads the database"
    assert queries(host, hooks, operation, foreign, ann) == missing
    assert queries(host, hooks, operation, foreign, ann) == missing, "again, from whatever is in memory now"


def test_the_queries_for_an_image_that_its_owner_has_in_memory_are_those_of_a_missing_image(
    host: ImageHost, hooks: SqliteHooks, ann: Account, foreign: Ids
) -> None:
    owner = host.accounts.get("ben")
    host.images.get(foreign.image, owner=owner)
    for query in ("", "w=8"):
        host.delivery.resolve(foreign.image, query, viewer=owner)
        assert host.delivery.resolve_cached(foreign.image, query, viewer=owner) is not None
    for name in ("images.get", "images.get public", *filter(lambda name: "delivery" in name, OPERATIONS)):
        operation = OPERATIONS[name]
        missing = queries(host, hooks, operation, MISSING, ann)
        assert missing, name
        assert queries(host, hooks, operation, foreign, ann) == missing, name


def test_the_errors_are_those_of_a_missing_resource(host: ImageHost, ann: Account, foreign: Ids) -> None:
    def error(operation: Operation, ids: Ids) -> str:
        try:
            return str(operation(host, ids, ann))
        except ImageHostError as raised:
            text = repr((raised.code, raised.details))
        for name, value in attrs.asdict(ids).items():
            text = re.sub(rf"\b{value}\b", name, text)
        return text

    for name, operation in OPERATIONS.items():
        if "_many" not in name and "signed_urls" not in name:
            assert error(operation, foreign) == error(operation, MISSING), name
