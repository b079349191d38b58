"""Albums and their members."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from attrs import frozen

from imagehost_client.models.results import Result


class MemberStatus(StrEnum):
    """The outcome for one image of `add_images` or `remove_images`."""

    ADDED = "added"
    REMOVED = "removed"
    UNCHANGED = "unchanged"
    NOT_FOUND = "not_found"


@frozen(kw_only=True)
class PublicAlbum:
    """The public fields of an album, as shown with its images in the gallery.

    Attributes:
        image_count: The number of its public images.
    """

    id: int
    name: str
    description: str = ""
    image_count: int = 0
    cover_image_id: str | None = None
    cover_url: str | None = None


@frozen(kw_only=True)
class Album(Result):
    """An album."""

    id: int
    name: str
    description: str
    is_public: bool
    image_count: int
    cover_image_id: str | None
    cover_url: str | None
    created_at: datetime
    updated_at: datetime


@frozen(kw_only=True)
class DeletedAlbum(Result):
    """The result of deleting an album."""

    id: int
    deleted: bool = True


@frozen(kw_only=True)
class Member:
    """The outcome for one image of `add_images` or `remove_images`."""

    image_id: str
    status: MemberStatus | str


@frozen(kw_only=True)
class Membership(Result):
    """The result of `add_images` and `remove_images`."""

    results: tuple[Member, ...]
    album: Album
