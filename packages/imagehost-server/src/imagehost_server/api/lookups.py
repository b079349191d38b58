"""Lookups of the resources that a request names, where another error of the request is found first."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from imagehost_core import ImageHost
from imagehost_core.errors import ErrorCollector
from imagehost_core.ids import parse_album_id
from imagehost_core.models import Account

Lookup = Callable[[ImageHost, str, Account], object]

LOOKUPS: dict[str, Lookup] = {
    "image_id": lambda host, text, owner: host.images.get(text, owner=owner),
    "album_id": lambda host, text, owner: host.albums.get(text, owner=owner),
    "key_id": lambda host, text, owner: host.keys.get(text, owner=owner),
    "webhook_id": lambda host, text, owner: host.webhooks.get(text, owner=owner),
}
"""The lookup of a resource, by the name of its path parameter."""


def look_up(
    host: ImageHost, account: Account, path: Mapping[str, str], body: Mapping[str, object]
) -> ErrorCollector:
    """Return the errors of resources that do not exist or belong to another account.

    Args:
        host: The host.
        account: The account that sent the request.
        path: The path parameters.
        body: The members of the body that have the right type.
    """
    errors = ErrorCollector()
    for name, value in path.items():
        if name in LOOKUPS:
            with errors.catch():
                LOOKUPS[name](host, value, account)
    album_id = body.get("album_id")
    if isinstance(album_id, int | str):
        with errors.catch():
            host.uploads.require_album(account, parse_album_id(album_id))
    return errors
