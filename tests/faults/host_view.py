"""What can be read of a host, as values that can be compared."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from attrs import evolve, frozen

from imagehost_core import Image, ImageHost


@frozen
class AlbumState:
    """An album, with the numbers and the newest of its images."""

    owner: str
    name: str
    is_public: bool
    updated_at: datetime
    image_count: int = 0
    public_image_count: int = 0
    cover_id: str | None = None


@frozen
class AccountState:
    """An account: what it may store, and what it has stored."""

    quota_bytes: int | None = None
    is_suspended: bool = False
    usage: tuple[int, int, int] = (0, 0, 0)


@frozen
class KeyState:
    """An API key."""

    owner: str
    scopes: frozenset[str]
    is_revoked: bool = False


@frozen
class View:
    """What can be read of a host.

    Attributes:
        images: The images by id.
        albums: The albums by id.
        accounts: The accounts by name.
        keys: The keys by id.
        webhooks: The owners of the webhooks by id.
        events: The number of events by webhook and type.
    """

    images: dict[str, Image]
    albums: dict[int, AlbumState]
    accounts: dict[str, AccountState]
    keys: dict[str, KeyState]
    webhooks: dict[str, str]
    events: Counter[tuple[str, str]]

    @classmethod
    def read(cls, host: ImageHost) -> View:
        """Read the view of a host."""
        images: dict[str, Image] = {}
        albums: dict[int, AlbumState] = {}
        accounts: dict[str, AccountState] = {}
        keys: dict[str, KeyState] = {}
        webhooks: dict[str, str] = {}
        events: Counter[tuple[str, str]] = Counter()
        for account in host.accounts.iter():
            name, usage = account.name, host.accounts.usage(account)
            is_suspended = account.suspended_at is not None
            numbers = (usage.images, usage.albums, usage.bytes)
            accounts[name] = AccountState(account.quota_bytes, is_suspended, numbers)
            images |= {image.id: image for image in host.images.iter(owner=account, per_page=7)}
            for album in host.albums.list(owner=account):
                cover = None if album.cover is None else album.cover.id
                state = AlbumState(name, album.name, album.is_public, album.updated_at)
                albums[album.id] = evolve(
                    state,
                    image_count=album.image_count,
                    public_image_count=album.public_image_count,
                    cover_id=cover,
                )
            for key in host.keys.list(owner=account):
                keys[key.id] = KeyState(name, frozenset(key.scopes), key.revoked_at is not None)
            for webhook in host.webhooks.list(owner=account):
                webhooks[webhook.id] = name
                cursor: str | None = ""
                while cursor is not None:
                    page = host.webhooks.deliveries(
                        webhook, owner=account, per_page=100, cursor=cursor or None
                    )
                    events.update((webhook.id, delivery.event) for delivery in page)
                    cursor = page.next_cursor
        return cls(images, albums, accounts, keys, webhooks, events)


def differences(expected: View, received: View) -> list[str]:
    """Return a line for each difference of two views."""
    lines = []
    for name in ("images", "albums", "accounts", "keys", "webhooks", "events"):
        left, right = getattr(expected, name), getattr(received, name)
        lines += [
            f"{name} {key}: expected {left.get(key)} but received {right.get(key)}"
            for key in left.keys() | right.keys()
            if left.get(key) != right.get(key)
        ]
    return lines
