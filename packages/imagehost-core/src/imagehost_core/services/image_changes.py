"""Changes of an image's fields by its owner: their validation, and their effect on a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from imagehost_core._util.fields import require_known
from imagehost_core.db.repositories.albums import AlbumRepository
from imagehost_core.errors import FieldError, ValidationError, quote_value
from imagehost_core.formats import Format
from imagehost_core.ids import AccountId, parse_album_id
from imagehost_core.models import Image
from imagehost_core.services.album_rules import require_album
from imagehost_core.uploads import clean_filename, description_errors, with_extension

CHANGEABLE = ("album_id", "description", "is_public", "filename")
"""Fields of an image that its owner can change."""
PUBLISHES = "images_public"
"""The member beside them: whether a public image that leaves a private album stays public."""


def validate_changes(
    changes: Mapping[str, object], albums: AlbumRepository, owner_id: AccountId | None
) -> dict[str, Any]:
    """Return validated changes, with a cleaned filename and an integer album id.

    Args:
        changes: New values by field, and `images_public`.
        albums: The albums of the host.
        owner_id: The account that must own the album; `None`, if it is unknown, for any account.

    Raises:
        ValidationError: A value is not allowed; all errors are reported together.
        TypeError: There is no such field.
    """
    require_known(changes, (*CHANGEABLE, PUBLISHES))
    values = dict(changes)
    errors = list(_errors(values, albums, owner_id))
    if errors:
        raise ValidationError(errors=errors)
    if "filename" in values:
        values["filename"] = clean_filename(str(values["filename"]))
    return values


def apply_changes(image: Image, changes: Mapping[str, Any]) -> Image:
    """Return an image with validated changes; its `updated_at` stays."""
    changed = attrs.evolve(image, **{name: value for name, value in changes.items() if name != PUBLISHES})
    if "filename" not in changes:
        return changed
    return attrs.evolve(changed, filename=with_extension(changed.filename, Format(image.format)))


def _errors(
    values: dict[str, object], albums: AlbumRepository, owner_id: AccountId | None
) -> Iterator[FieldError]:
    """Yield the errors of changes, and convert the album's id to an integer."""
    if values.get("album_id") is not None:
        try:
            values["album_id"] = album_id = parse_album_id(values["album_id"])  # type: ignore[arg-type]
            if owner_id is not None:
                require_album(albums, album_id, owner_id)
        except ValidationError as error:
            yield from error.errors
    yield from description_errors(values.get("description", ""))
    for name in ("is_public", PUBLISHES):
        if not isinstance(values.get(name, True), bool):
            yield FieldError(name, "true or false", quote_value(values[name]))
    filename = values.get("filename", "-")
    if not isinstance(filename, str) or not filename.strip():
        yield FieldError("filename", "a name", quote_value(filename))
