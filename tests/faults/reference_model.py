"""A model of a host in memory: what it must contain and respond after changes."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from attrs import define, evolve, field
from tests.faults.host_view import AccountState, AlbumState, KeyState, View
from tests.image_order import in_order

from imagehost_core import Format, Image, ImageHostError
from imagehost_core.errors import ConflictError, NotFoundError, ValidationError
from imagehost_core.lists import ImageFilter, ImageSort
from imagehost_core.uploads import clean_filename, with_extension


@define
class Webhook:
    """A webhook: its owner, its event types (none for all), and the events that were not read yet."""

    owner: str
    types: tuple[str, ...]
    events: list[tuple[str, str]] = field(factory=list)
    count: Counter[str] = field(factory=Counter)


@define
class Model:
    """What a host must contain.

    Each method named like a change makes it, or raises the class of error that the host must raise; `result`
    is what the host has returned, whose new ids the model cannot know.
    """

    now: datetime
    images: dict[str, Image] = field(factory=dict)
    owners: dict[str, str] = field(factory=dict)
    albums: dict[int, AlbumState] = field(factory=dict)
    accounts: dict[str, AccountState] = field(factory=dict)
    keys: dict[str, KeyState] = field(factory=dict)
    tokens: dict[str, str] = field(factory=dict)
    webhooks: dict[str, Webhook] = field(factory=dict)
    idempotency_keys: dict[tuple[str, str], str] = field(factory=dict)
    deleted: set[str] = field(factory=set)

    def copy(self) -> Model:
        """Return a copy that can be changed."""
        return copy.deepcopy(self)

    def view(self) -> View:
        """Return what a host with this content shows."""
        albums = {}
        for album_id, album in self.albums.items():
            members = [image for image in self.images.values() if image.album_id == album_id]
            cover = max(((image.created_at, image.id) for image in members), default=(None, None))
            public = sum(image.is_public for image in members)
            albums[album_id] = evolve(
                album, image_count=len(members), public_image_count=public, cover_id=cover[1]
            )
        accounts = {name: evolve(state, usage=self.usage(name)) for name, state in self.accounts.items()}
        counts = [(key, kind, n) for key, hook in self.webhooks.items() for kind, n in hook.count.items()]
        events = Counter({(key, kind): n for key, kind, n in counts})
        webhooks = {key: hook.owner for key, hook in self.webhooks.items()}
        return View(self.images, albums, accounts, self.keys, webhooks, events)

    def usage(self, owner: str) -> tuple[int, int, int]:
        """Return the numbers of images, albums and bytes of an account."""
        sizes = [image.size for image in self.images_of(owner)]
        albums = [album for album in self.albums.values() if album.owner == owner]
        return len(sizes), len(albums), sum(sizes)

    def images_of(self, owner: str) -> list[Image]:
        """Return the images of an account."""
        return [image for image in self.images.values() if self.owners[image.id] == owner]

    def apply(self, name: str, arguments: dict[str, Any], result: Any, record: Image | None = None) -> Any:
        """Make a change; return the expected result.

        Args:
            name: The name of the change.
            arguments: Its arguments.
            result: The result of the host.
            record: The record of an uploaded image.
        """
        if name == "upload":
            assert record is not None
            known = {name: value for name, value in arguments.items() if name != "content"}
            return self.upload(record=record, **known)
        method: Callable[..., Any] = getattr(self, name)
        return method(**arguments, **({"result": result} if name.startswith("create") else {}))

    def _emit(self, owner: str, kind: str, entity: object) -> None:
        for webhook in self.webhooks.values():
            if webhook.owner == owner and (not webhook.types or kind in webhook.types):
                webhook.events.append((kind, str(entity)))
                webhook.count[kind] += 1

    def _owned(self, owner: str, image: str) -> Image | None:
        return self.images.get(image) if self.owners.get(image) == owner else None

    def _album(self, owner: str, album: int | None) -> AlbumState | None:
        state = None if album is None else self.albums.get(album)
        return state if state is not None and state.owner == owner else None

    def previous_upload(self, owner: str, key: str | None) -> str | None:
        """Return the id of the image that was uploaded under an idempotency key."""
        return None if key is None else self.idempotency_keys.get((owner, key))

    def upload(
        self, owner: str, filename: str, key: str | None, options: dict[str, Any], record: Image
    ) -> str:
        """Add an image; return its id."""
        if previous := self.previous_upload(owner, key):
            return previous
        expected = evolve(
            record,
            album_id=options.get("album_id"),
            description=options.get("description", ""),
            is_public=options.get("is_public", self._is_listed(options.get("album_id"))),
            filename=with_extension(clean_filename(filename), Format(record.format)),
            original_filename=clean_filename(filename),
            created_at=self.now,
            updated_at=self.now,
        )
        self.images[record.id], self.owners[record.id] = expected, owner
        if key is not None:
            self.idempotency_keys[owner, key] = record.id
        self._emit(owner, "image.uploaded", record.id)
        return record.id

    def _change(self, images: Iterable[Image], owner: str, changes: dict[str, Any]) -> list[str]:
        """Change images; return the ids of those that have changed."""
        changed, albums = list[str](), dict[int, None]()
        for image in images:
            values = {name: value for name, value in changes.items() if name != "images_public"}
            if "filename" in values:
                values["filename"] = with_extension(clean_filename(values["filename"]), Format(image.format))
            after = evolve(image, **values)
            keeps = "is_public" in changes or changes.get("images_public", False)
            if not keeps and self._leaves(image, after):
                after = evolve(after, is_public=False)
            if after != image:
                changed.append(image.id)
                self.images[image.id] = evolve(after, updated_at=self.now)
                if after.album_id != image.album_id:
                    albums |= dict.fromkeys(
                        id_ for id_ in (image.album_id, after.album_id) if id_ is not None
                    )
        for album_id in albums:
            self.albums[album_id] = evolve(self.albums[album_id], updated_at=self.now)
            self._emit(owner, "album.updated", album_id)
        return changed

    def _is_listed(self, album: int | None) -> bool:
        """Return whether galleries list the public images of an album, or of none."""
        return album is None or album not in self.albums or self.albums[album].is_public

    def _leaves(self, before: Image, after: Image) -> bool:
        """Return whether an image leaves a private album for a public one or for none."""
        return not self._is_listed(before.album_id) and self._is_listed(after.album_id)

    def _require_album(self, owner: str, changes: dict[str, Any]) -> None:
        if changes.get("album_id") is not None and self._album(owner, changes["album_id"]) is None:
            raise ValidationError("no such album")

    def update(self, owner: str, image: str, changes: dict[str, Any]) -> None:
        """Change an image."""
        current = self._owned(owner, image)
        if current is None:
            raise NotFoundError(image)
        self._require_album(owner, changes)
        self._change([current], owner, changes)

    def update_many(self, owner: str, images: list[str], changes: dict[str, Any]) -> list[list[str]]:
        """Change images."""
        self._require_album(owner, changes)
        found = [image for image in (self._owned(owner, id_) for id_ in images) if image is not None]
        changed, known = set(self._change(found, owner, changes)), {image.id for image in found}
        return [
            [id_, "updated" if id_ in changed else "unchanged" if id_ in known else "not_found"]
            for id_ in images
        ]

    def delete(self, owner: str, image: str) -> None:
        """Delete an image."""
        if self._owned(owner, image) is None:
            raise NotFoundError(image)
        del self.images[image]
        self.deleted.add(image)
        self._emit(owner, "image.deleted", image)

    def delete_many(self, owner: str, images: list[str]) -> list[list[str]]:
        """Delete images."""
        results = []
        for image in images:
            is_found = self._owned(owner, image) is not None
            if is_found:
                self.delete(owner, image)
            results.append([image, "deleted" if is_found else "not_found"])
        return results

    def create_album(self, owner: str, name: str, is_public: bool, result: int) -> int:
        """Create an album."""
        self.albums[result] = AlbumState(owner, name.strip(), is_public, self.now)
        self._emit(owner, "album.created", result)
        return result

    def update_album(self, owner: str, album: int, changes: dict[str, Any]) -> None:
        """Change an album."""
        current = self._album(owner, album)
        if current is None:
            raise NotFoundError(str(album))
        fields = {name: value for name, value in changes.items() if name != "images_public"}
        changed = evolve(current, **fields)
        images = [
            image
            for image in self.images.values()
            if image.album_id == album and image.is_public != changes.get("images_public", image.is_public)
        ]
        for image in images:
            self.images[image.id] = evolve(image, is_public=not image.is_public, updated_at=self.now)
        if changed != current or images:
            self.albums[album] = evolve(changed, updated_at=self.now)
            self._emit(owner, "album.updated", album)

    def delete_album(self, owner: str, album: int, delete_images: bool, images_public: bool) -> int:
        """Delete an album, with its images or without; return how many have become private."""
        if self._album(owner, album) is None:
            raise NotFoundError(str(album))
        made_private = 0
        for image in [image for image in self.images.values() if image.album_id == album]:
            if delete_images:
                self.delete(owner, image.id)
            else:
                after = evolve(image, album_id=None)
                if image.is_public and self._leaves(image, after) and not images_public:
                    after = evolve(after, is_public=False, updated_at=self.now)
                    made_private += 1
                self.images[image.id] = after
        del self.albums[album]
        return made_private

    def add_images(self, owner: str, album: int, images: list[str]) -> list[list[str]]:
        """Move images to an album."""
        if self._album(owner, album) is None:
            raise NotFoundError(str(album))
        statuses = {"updated": "added"}
        results = self.update_many(owner, images, {"album_id": album})
        return [[id_, statuses.get(status, status)] for id_, status in results]

    def remove_images(self, owner: str, album: int, images: list[str]) -> list[list[str]]:
        """Remove images from an album."""
        if self._album(owner, album) is None:
            raise NotFoundError(str(album))
        members = [id_ for id_ in images if id_ in self.images and self.images[id_].album_id == album]
        self.update_many(owner, members, {"album_id": None})
        return [
            [id_, "removed" if id_ in members else "unchanged" if self._owned(owner, id_) else "not_found"]
            for id_ in images
        ]

    def update_account(self, account: str, changes: dict[str, Any]) -> None:
        """Change the quota of an account, or suspend it."""
        current = self.accounts[account]
        if account == "admin" and changes.get("suspended"):
            raise ConflictError("the last operator")
        self.accounts[account] = evolve(
            current,
            is_suspended=changes.get("suspended", current.is_suspended),
            quota_bytes=changes.get("quota_bytes", current.quota_bytes),
        )

    def create_key(self, owner: str, scopes: list[str], result: list[str]) -> list[str]:
        """Create a key; its token is unknown after a crash."""
        key_id, token = result
        self.keys[key_id] = KeyState(owner, frozenset(scopes))
        if token:
            self.tokens[token] = key_id
        return result

    def revoke_key(self, owner: str, key: str) -> None:
        """Revoke a key."""
        if key not in self.keys or self.keys[key].owner != owner:
            raise NotFoundError(key)
        self.keys[key] = evolve(self.keys[key], is_revoked=True)

    def create_webhook(self, owner: str, events: list[str], result: str) -> str:
        """Create a webhook."""
        self.webhooks[result] = Webhook(owner, tuple(events))
        return result

    def delete_webhook(self, owner: str, webhook: str) -> None:
        """Delete a webhook with its events."""
        if webhook not in self.webhooks or self.webhooks[webhook].owner != owner:
            raise NotFoundError(webhook)
        del self.webhooks[webhook]

    def list_images(
        self, owner: str, album: int | None, filters: ImageFilter, sort: ImageSort
    ) -> list[Image]:
        """Return the images of a list, all pages of it."""
        if album is not None and self._album(owner, album) is None:
            raise NotFoundError(str(album))
        images = [
            image
            for image in self.images_of(owner)
            if album in (None, image.album_id)
            and filters.is_public in (None, image.is_public)
            and filters.format in (None, image.format)
            and (filters.created_after is None or image.created_at > filters.created_after)
            and (filters.created_before is None or image.created_at < filters.created_before)
            and (not filters.has_search or matches(filters.q, image))
        ]
        return in_order(images, sort)

    def gallery(self, album: int | None) -> list[Image]:
        """Return the public images, of all accounts or of a public album."""
        if album is not None:
            state = self.albums.get(album)
            if state is None or not state.is_public or self.accounts[state.owner].is_suspended:
                raise NotFoundError(str(album))
        images = [
            image
            for image in self.images.values()
            if image.is_public
            and not self.accounts[self.owners[image.id]].is_suspended
            and (image.album_id is None or self.albums[image.album_id].is_public)
            and album in (None, image.album_id)
        ]
        return sorted(images, key=lambda image: (image.created_at, image.id), reverse=True)

    def can_view(self, image: str, viewer: str | None, *, is_signed: bool = False) -> bool:
        """Return whether an account, or everyone, gets the bytes of an image."""
        record = self.images.get(image)
        if record is None or self.accounts[self.owners[image]].is_suspended:
            return False
        return record.is_public or is_signed or self.owners[image] == viewer


def matches(search: str, image: Image) -> bool:
    """Return whether an image has the words of a search in ASCII; a part between spaces is a phrase."""
    phrases = [words for part in search.split() if (words := re.findall("[0-9a-z]+", part.lower()))]
    texts = [
        " ".join(["", *re.findall("[0-9a-z]+", text.lower()), ""])
        for text in (image.filename, image.description)
    ]
    if not phrases:
        return False
    parts = [f" {' '.join(phrase)} " for phrase in phrases]
    if len(phrases[-1][-1]) >= 2:
        parts[-1] = parts[-1].rstrip()
    return all(any(part in text for text in texts) for part in parts)


def error_of(action: Callable[[], Any]) -> type[Exception] | None:
    """Return the class of the error that an action raises."""
    try:
        action()
    except ImageHostError as error:
        return type(error)
    return None
