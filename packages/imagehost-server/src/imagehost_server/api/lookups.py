"""Errors that a request has besides a body that does not match its class.

The handler of a request with such a body does not run, so what the core would have found is checked here: the
resources that the path names, and the values of the members that have the right type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from imagehost_core import ImageHost
from imagehost_core.errors import COMBINED, ErrorCollector
from imagehost_core.ids import parse_account_id
from imagehost_core.models import Account
from imagehost_core.services.albums import MAX_IMAGES_PER_REQUEST
from imagehost_core.services.images import MAX_IMAGES as MAX_BULK_IMAGES
from imagehost_core.services.references import parse_image_ids
from imagehost_core.transform import DEFAULT_LIFETIME_SECONDS, PARAMETERS
from imagehost_server.api.body import InvalidBody
from imagehost_server.api.schemas import (
    AlbumChanges,
    AlbumMembers,
    BulkImageChanges,
    BulkImageIds,
    ImageChanges,
    KeyChanges,
    NewAlbum,
    NewKey,
    NewWebhook,
    SignedUrlRequest,
    SignedUrlsRequest,
    WebhookChanges,
    parse_key_members,
)

Lookup = Callable[[ImageHost, str, Account], object]

LOOKUPS: dict[str, Lookup] = {
    "image_id": lambda host, text, owner: host.images.get(text, owner=owner),
    "album_id": lambda host, text, owner: host.albums.get(text, owner=owner),
    "key_id": lambda host, text, owner: host.keys.get(text, owner=owner),
    "account_id": lambda host, text, _: host.accounts.get(parse_account_id(text)),
    "webhook_id": lambda host, text, owner: host.webhooks.get(text, owner=owner),
}
"""The lookup of a resource, by the name of its path parameter."""

Members = Mapping[str, object]
Check = Callable[[ImageHost, Account, Members], object]


def _check_bulk_changes(host: ImageHost, owner: Account, members: Members) -> None:
    errors = ErrorCollector()
    with errors.catch():
        _check_ids(members, MAX_BULK_IMAGES)
    with errors.catch():
        changes = {name: value for name, value in members.items() if name != "image_ids"}
        host.images.validate(changes, owner=owner)
    errors.raise_if_any()


def _check_ids(members: Members, maximum: int) -> None:
    if "image_ids" in members:
        parse_image_ids(members["image_ids"], maximum)  # type: ignore[arg-type]


def _check_signing(host: ImageHost, members: Members) -> None:
    params = {name: members[name] for name in PARAMETERS if name in members}
    host.images.validate_signing(params, members.get("expires_in", DEFAULT_LIFETIME_SECONDS))


def _check_items(host: ImageHost, owner: Account, members: Members) -> None:
    # Signing has no effect, so it can be tried.
    host.images.signed_urls(
        members.get("items", ()),  # type: ignore[arg-type]
        owner=owner,
        expires_in=members.get("expires_in", DEFAULT_LIFETIME_SECONDS),  # type: ignore[arg-type]
    )


CHECKS: dict[type[Struct], Check] = {
    NewAlbum: lambda host, _, members: host.albums.validate(members),
    AlbumChanges: lambda host, _, members: host.albums.validate(members),
    AlbumMembers: lambda _host, _, members: _check_ids(members, MAX_IMAGES_PER_REQUEST),
    ImageChanges: lambda host, owner, members: host.images.validate(members, owner=owner),
    BulkImageChanges: _check_bulk_changes,
    BulkImageIds: lambda _host, _, members: _check_ids(members, MAX_BULK_IMAGES),
    SignedUrlRequest: lambda host, _, members: _check_signing(host, members),
    SignedUrlsRequest: _check_items,
    NewKey: lambda host, _, members: host.keys.validate(parse_key_members(members)),
    KeyChanges: lambda host, _, members: host.keys.validate(parse_key_members(members)),
    NewWebhook: lambda host, _, members: host.webhooks.validate(members),
    WebhookChanges: lambda host, _, members: host.webhooks.validate(members),
}
"""The check of the members that have the right type, by the class of the body; none of them has an effect."""


def look_up(host: ImageHost, account: Account, path: Mapping[str, str], body: InvalidBody) -> ErrorCollector:
    """Return the errors of a request with an invalid body: of the path, of the body, and of its values.

    Args:
        host: The host.
        account: The account that sent the request.
        path: The path parameters.
        body: The body.
    """
    errors = ErrorCollector()
    for name, value in path.items():
        if name in LOOKUPS:
            with errors.catch():
                LOOKUPS[name](host, value, account)
    errors.add(body.error)
    if body.members and body.kind in CHECKS:
        try:
            CHECKS[body.kind](host, account, body.members)
        except COMBINED as error:
            named = {each.name for each in body.error.errors}
            others = [each for each in error.errors if each.name not in named]
            if others:
                errors.add(type(error)(errors=others))
    return errors
