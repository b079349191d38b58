"""All changes of a host, as values: what they need, how they are made, and how it is seen that they were."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from attrs import field, frozen
from tests.core.services.furnished_host import LARGE
from tests.core.services.orphans import store_orphan
from tests.hosts import Engines

from imagehost_core import ImageHost, NotFoundError, Settings, UnauthorizedError
from imagehost_core.models import Image
from imagehost_core.settings import RenderingSettings, StorageSettings, WebhookSettings
from imagehost_core.testing import make_image
from imagehost_core.webhooks import Attempt, SenderLoad

SMALL = make_image(40, 30)
"""An image without derivatives."""
URL = "http://127.0.0.1:9/"
OWNER = "admin"

Arguments = dict[str, Any]
"""The arguments of a change, as JSON can hold them."""
Applied = Callable[[ImageHost, Arguments], bool]


@frozen(kw_only=True)
class Change:
    """A change.

    Attributes:
        prepare: Makes what the change needs; returns its arguments.
        run: Makes the change.
        is_applied: Returns whether it was made; `None` if it consists of several that are independent.
        events: The number of events of the change by type.
        tables: The tables that a change of several transactions may change before it is made.
        is_repeatable: Whether its repetition has no second effect.
    """

    prepare: Callable[[ImageHost], Arguments]
    run: Callable[[ImageHost, Arguments], object]
    is_applied: Applied | None
    events: Mapping[str, int] = field(factory=dict)
    tables: frozenset[str] = frozenset()
    is_repeatable: bool = False


def settings_of(engines: Engines) -> Settings:
    """Return the settings of a host on engines."""
    return Settings(
        base_url="https://img.example/v1",
        database=engines.database,
        storage=StorageSettings(url=engines.storage, min_free_bytes=0),
        rendering=RenderingSettings(processes=1),
        webhooks=WebhookSettings(allow_loopback=True),
    )


def open_host(engines: Engines, data: Path) -> ImageHost:
    """Open a host on engines."""
    return ImageHost.open(data, settings=settings_of(engines))


def upload(host: ImageHost, **options: Any) -> Image:
    """Upload a small image, and render a variant of it."""
    image = host.upload(SMALL, owner=OWNER, convert_to_webp=False, **options)
    host.render(image.id, "w=10&fm=png")
    return image


def exists(host: ImageHost, image_id: str) -> bool:
    """Return whether an image has a record; if it has, its bytes must be readable."""
    try:
        host.images.get(image_id)
    except NotFoundError:
        return False
    assert host.render(image_id).data
    return True


def _named(_host: ImageHost) -> Arguments:
    return {"name": uuid4().hex}


def _uploaded(host: ImageHost, name: str) -> bool:
    images = [image for image in host.images.iter(owner=OWNER) if image.description == name]
    assert len(images) <= 1
    return all(exists(host, image.id) for image in images) and bool(images)


def _upload_change(prepare: Callable[[ImageHost], Arguments] = _named, **more: Any) -> Change:
    def run(host: ImageHost, arguments: Arguments) -> None:
        host.upload(
            LARGE if arguments.get("large") else SMALL,
            owner=OWNER,
            description=arguments["name"],
            album_id=arguments.get("album"),
            convert_to_webp=False,
        )

    return Change(
        prepare=prepare,
        run=run,
        is_applied=lambda host, arguments: _uploaded(host, arguments["name"]),
        events={"image.uploaded": 1},
        **more,
    )


def _upload_with_key(host: ImageHost, arguments: Arguments) -> None:
    with host.idempotency.begin(host.accounts.get(OWNER), arguments["name"], "fingerprint") as request:
        if request.response is None:
            host.upload(
                SMALL,
                owner=OWNER,
                description=arguments["name"],
                convert_to_webp=False,
                idempotency=request.sub_operation(0),
            )
            request.complete(200, b"{}")


def _images(count: int, *, in_album: bool = False) -> Callable[[ImageHost], Arguments]:
    def prepare(host: ImageHost) -> Arguments:
        album = host.albums.create(owner=OWNER, name="a").id if in_album else None
        return {"album": album, "ids": [upload(host, album_id=album).id for _ in range(count)]}

    return prepare


def _update_change(**changes: Any) -> Change:
    return Change(
        prepare=_images(1),
        run=lambda host, arguments: host.images.update(arguments["ids"][0], owner=OWNER, **changes),
        is_applied=lambda host, arguments: all(
            getattr(host.images.get(arguments["ids"][0]), name) == value for name, value in changes.items()
        ),
    )


def _all_deleted(host: ImageHost, arguments: Arguments) -> bool:
    (deleted,) = {not exists(host, image_id) for image_id in arguments["ids"]}
    return deleted


def _album_exists(host: ImageHost, arguments: Arguments) -> bool:
    try:
        host.albums.get(arguments["album"], owner=OWNER)
    except NotFoundError:
        return False
    return True


def _album(host: ImageHost, arguments: Arguments) -> Any:
    return host.albums.get(arguments["album"], owner=OWNER)


def _account(host: ImageHost, arguments: Arguments) -> Any:
    return next((account for account in host.accounts.iter() if account.name == arguments["name"]), None)


def _new_account(host: ImageHost) -> Arguments:
    account = host.accounts.create(uuid4().hex)
    host.upload(SMALL, owner=account, convert_to_webp=False)
    host.sessions.create(account, user_agent="Mozilla/5.0", ip_address="192.0.2.1")
    return {"name": account.name, "id": account.id}


def _new_key(host: ImageHost) -> Arguments:
    key = host.keys.create(owner=OWNER, name="key")
    return {"id": key.id, "token": key.token}


def _is_revoked(host: ImageHost, arguments: Arguments) -> bool:
    is_revoked = host.keys.get(arguments["id"], owner=OWNER).revoked_at is not None
    if is_revoked:
        with pytest.raises(UnauthorizedError):
            host.authenticate(arguments["token"])
    return is_revoked


def _new_webhook(host: ImageHost) -> Arguments:
    webhook = host.webhooks.create(owner=OWNER, url=URL, events=["album.created"])
    host.albums.create(owner=OWNER, name="a")
    return {"id": webhook.id, "secret": webhook.secret}


def _webhook(host: ImageHost, arguments: Arguments) -> Any:
    return next((each for each in host.webhooks.list(owner=OWNER) if each.id == arguments["id"]), None)


def _deliver(host: ImageHost, arguments: Arguments) -> None:
    with host.webhooks.sender_slot() as slot:
        leased = host.webhooks.report_and_lease((), SenderLoad(100), slot)
        attempt = Attempt(at=host.now(), status=204, duration_ms=1, response="")
        host.webhooks.report((each, attempt) for each in leased)


def _is_delivered(host: ImageHost, arguments: Arguments) -> bool:
    (delivery,) = host.webhooks.deliveries(arguments["id"], owner=OWNER)
    return delivery.status == "delivered"


def _garbage(host: ImageHost) -> Arguments:
    kept = upload(host)
    store_orphan(host._context)
    return {"ids": [kept.id]}


def _backup(host: ImageHost, arguments: Arguments) -> None:
    with (host.path.parent / "backup").open("wb") as file:
        host.backups.write(file, since=host.now() - timedelta(days=1))


CHANGES: dict[str, Change] = {
    "upload": _upload_change(),
    "upload with derivatives": _upload_change(lambda host: {**_named(host), "large": True}),
    "upload into an album": _upload_change(
        lambda host: {**_named(host), "album": host.albums.create(owner=OWNER, name="a").id}
    ),
    "upload with an idempotency key": Change(
        prepare=_named,
        run=_upload_with_key,
        is_applied=lambda host, arguments: _uploaded(host, arguments["name"]),
        events={"image.uploaded": 1},
        tables=frozenset({"idempotency_keys"}),
        is_repeatable=True,
    ),
    "update": _update_change(description="changed words", filename="changed.png"),
    "change of visibility": _update_change(is_public=False),
    "update of several": Change(
        prepare=_images(3),
        run=lambda host, arguments: host.images.update_many(
            arguments["ids"], owner=OWNER, description="changed"
        ),
        is_applied=lambda host, arguments: (
            {host.images.get(each).description for each in arguments["ids"]} == {"changed"}
        ),
    ),
    "delete": Change(
        prepare=_images(1),
        run=lambda host, arguments: host.images.delete(arguments["ids"][0], owner=OWNER),
        is_applied=_all_deleted,
        events={"image.deleted": 1},
    ),
    "delete of several": Change(
        prepare=_images(3),
        run=lambda host, arguments: host.images.delete_many(arguments["ids"], owner=OWNER),
        is_applied=_all_deleted,
        events={"image.deleted": 3},
    ),
    "album create": Change(
        prepare=_named,
        run=lambda host, arguments: host.albums.create(owner=OWNER, name=arguments["name"]),
        is_applied=lambda host, arguments: any(
            album.name == arguments["name"] for album in host.albums.list(owner=OWNER)
        ),
        events={"album.created": 1},
    ),
    "album update": Change(
        prepare=_images(1, in_album=True),
        run=lambda host, arguments: host.albums.update(
            arguments["album"], owner=OWNER, name="b", is_public=False
        ),
        is_applied=lambda host, arguments: _album(host, arguments).name == "b",
        events={"album.updated": 1},
    ),
    "images added to an album": Change(
        prepare=lambda host: {**_images(2)(host), "album": host.albums.create(owner=OWNER, name="a").id},
        run=lambda host, arguments: host.albums.add_images(arguments["album"], arguments["ids"], owner=OWNER),
        is_applied=lambda host, arguments: _album(host, arguments).image_count == 2,
        events={"album.updated": 1},
    ),
    "images removed from an album": Change(
        prepare=_images(2, in_album=True),
        run=lambda host, arguments: host.albums.remove_images(
            arguments["album"], arguments["ids"], owner=OWNER
        ),
        is_applied=lambda host, arguments: _album(host, arguments).image_count == 0,
        events={"album.updated": 1},
    ),
    "album delete": Change(
        prepare=_images(2, in_album=True),
        run=lambda host, arguments: host.albums.delete(arguments["album"], owner=OWNER),
        is_applied=lambda host, arguments: not _album_exists(host, arguments),
    ),
    "album delete with its images": Change(
        prepare=_images(3, in_album=True),
        run=lambda host, arguments: host.albums.delete(arguments["album"], owner=OWNER, delete_images=True),
        is_applied=None,
    ),
    "account create": Change(
        prepare=_named,
        run=lambda host, arguments: host.accounts.create(arguments["name"]),
        is_applied=lambda host, arguments: _account(host, arguments) is not None,
    ),
    "account suspend": Change(
        prepare=_new_account,
        run=lambda host, arguments: host.accounts.update(arguments["name"], suspended=True),
        is_applied=lambda host, arguments: _account(host, arguments).suspended_at is not None,
    ),
    "account delete": Change(
        prepare=_new_account,
        run=lambda host, arguments: host.accounts.delete(arguments["name"]),
        is_applied=None,
    ),
    "key create": Change(
        prepare=_named,
        run=lambda host, arguments: host.keys.create(owner=OWNER, name=arguments["name"]),
        is_applied=lambda host, arguments: any(
            key.name == arguments["name"] for key in host.keys.list(owner=OWNER)
        ),
    ),
    "key revoke": Change(
        prepare=_new_key,
        run=lambda host, arguments: host.keys.delete(arguments["id"], owner=OWNER),
        is_applied=_is_revoked,
    ),
    "webhook create": Change(
        prepare=_named,
        run=lambda host, arguments: host.webhooks.create(
            owner=OWNER, url=URL, events=["album.created"], description=arguments["name"]
        ),
        is_applied=lambda host, arguments: any(
            each.description == arguments["name"] for each in host.webhooks.list(owner=OWNER)
        ),
    ),
    "webhook rotate secret": Change(
        prepare=_new_webhook,
        run=lambda host, arguments: host.webhooks.rotate_secret(arguments["id"], owner=OWNER),
        is_applied=None,
    ),
    "webhook delete": Change(
        prepare=_new_webhook,
        run=lambda host, arguments: host.webhooks.delete(arguments["id"], owner=OWNER),
        is_applied=lambda host, arguments: _webhook(host, arguments) is None,
    ),
    "webhook delivery": Change(
        prepare=_new_webhook,
        run=_deliver,
        is_applied=_is_delivered,
        tables=frozenset({"webhook_deliveries"}),
    ),
    "gc": Change(
        prepare=_garbage,
        run=lambda host, _: host.maintenance.collect_garbage(),
        is_applied=None,
    ),
    "backup": Change(prepare=_images(2), run=_backup, is_applied=None),
}
"""Every change by its name."""
