"""Locations of hosts: a data directory, or the URLs of a database and of an object store."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from attrs import frozen

from imagehost_core.errors import ValidationError
from imagehost_core.settings import redact_password

_DATABASE_SCHEMES = frozenset({"postgresql", "postgres"})
_STORAGE_SCHEMES = frozenset({"s3", "gs", "az"})
_DIRECTORY, _DATABASE, _STORAGE = "data directory", "database", "object store"


@frozen
class HostLocation:
    """The location of the records and of the files of a host.

    Attributes:
        database: The data directory with the database, or the URL of a PostgreSQL database.
        storage: The data directory with the files, or the URL of an object store.
    """

    database: Path | str
    storage: Path | str

    def __str__(self) -> str:
        """The location, without passwords."""
        return " ".join(dict.fromkeys((name_of(self.database), name_of(self.storage))))


def parse_host_location(
    values: Iterable[str], name: str, default_storage: Path | str | None = None
) -> HostLocation:
    """Return the location of a host from its parts, in any order.

    Args:
        values: A data directory, `postgresql://…`, and `s3://…`, `gs://…` or `az://…`; each at most once. A
            data directory has what no URL has.
        name: The name of the parameter in errors.
        default_storage: The location of the files if none is given.

    Raises:
        ValidationError: A part is of another kind, there are two of a kind, or one is missing.
    """
    parts: dict[str, str] = {}
    for value in values:
        kind = _kind(value, name)
        if kind in parts:
            raise ValidationError(f"expected one {kind} for {name} but received two")
        parts[kind] = value
    directory = Path(parts[_DIRECTORY]).resolve() if _DIRECTORY in parts else None
    database = parts.get(_DATABASE, directory)
    storage = parts.get(_STORAGE, directory) or default_storage
    if database is None:
        raise ValidationError(f"expected a data directory or postgresql://… for {name} but received neither")
    if storage is None:
        raise ValidationError(f"expected a data directory or s3://… for {name} but received neither")
    if len(parts) == len((_DIRECTORY, _DATABASE, _STORAGE)):
        raise ValidationError(f"expected no data directory for {name} beside both URLs but received one")
    return HostLocation(database, storage)


def name_of(part: Path | str) -> str:
    """Return a part of a location without its password."""
    return redact_password(part) if isinstance(part, str) else str(part)


def _kind(value: str, name: str) -> str:
    scheme, separator, _ = value.partition("://")
    if not separator:
        return _DIRECTORY
    if scheme in _DATABASE_SCHEMES:
        return _DATABASE
    if scheme in _STORAGE_SCHEMES:
        return _STORAGE
    expected = "a directory, postgresql://…, s3://…, gs://… or az://…"
    raise ValidationError(f"expected {expected} for {name} but received a URL with {scheme}://")
