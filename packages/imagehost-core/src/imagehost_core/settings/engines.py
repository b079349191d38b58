"""Settings of the database and of the store of images: the engines, as URLs name them."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from urllib.parse import parse_qsl, quote, urlsplit

from attrs import Attribute, field, frozen
from attrs.validators import ge

SQLITE = "sqlite"
"""The value of the setting `database` for a SQLite file in the data directory."""
_DATABASE_URL = re.compile(r"postgres(ql)?://[!-~]+", re.ASCII)


def require_database(_settings: object, attribute: Attribute[str], value: str) -> None:
    """Raise ValueError unless a value names an engine, by a URL that can be parsed; the message has no part.

    A URL is parsed by libpq, if psycopg is installed.
    """
    if value != SQLITE and not (_DATABASE_URL.fullmatch(value) and _is_parseable(value)):
        expected = "sqlite, or a URL like postgresql://user@host/name,"
        raise ValueError(f"expected {expected} for {attribute.name} but received another value")


def _is_parseable(url: str) -> bool:
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        return True
    try:
        ports = str(conninfo_to_dict(url).get("port") or "")
    except (ProgrammingError, UnicodeDecodeError):
        return False
    return all(not port or (port.isdecimal() and 0 < int(port) <= 65_535) for port in ports.split(","))


@frozen(kw_only=True)
class PostgresSettings:
    """The connections of each process to PostgreSQL.

    Attributes:
        pool_size: The most connections of a process.
        timeout_seconds: The longest time that a request waits for a connection, and for other transactions.
        statement_timeout_seconds: The longest time of a statement of a request.
    """

    pool_size: int = field(default=10, validator=ge(1))
    timeout_seconds: float = field(default=5.0, validator=ge(0.1))
    statement_timeout_seconds: float = field(default=30.0, validator=ge(0.1))


FOLDER = "folder"
"""The value that stands for the directory of images in the data directory."""


class StorageProvider(StrEnum):
    """A kind of object store, by the scheme of its URLs."""

    S3 = "s3"
    GOOGLE = "gs"
    AZURE = "az"


_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,220}[A-Za-z0-9]", re.ASCII)
_SEGMENT = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]+", re.ASCII)
_REGION = re.compile(r"[a-z0-9-]+", re.ASCII)
_ENDPOINT = re.compile(
    r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?(?:/[A-Za-z0-9._/-]*)?",
    re.ASCII,
)


def _is_endpoint(text: str) -> bool:
    match = _ENDPOINT.fullmatch(text)
    return match is not None and int(match["port"] or 443) <= 65_535


_OPTIONS: dict[str, Callable[[str], object]] = {"endpoint": _is_endpoint, "region": _REGION.fullmatch}
"""The check of each option in the query of a URL."""


@frozen(kw_only=True)
class StorageUrl:
    """The URL of an image store. It has no credentials: those are read from the provider's variables.

    Attributes:
        provider: The kind of store.
        bucket: The bucket; the container of Azure.
        prefix: The path of all objects in the bucket, without slashes at its ends; empty for none.
        endpoint: The URL of the server; by default that of the provider. With `http` nothing is encrypted.
        region: The region of the bucket.
    """

    provider: StorageProvider
    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None

    def __str__(self) -> str:
        options = [("endpoint", self.endpoint), ("region", self.region)]
        query = "&".join(f"{name}={quote(value, safe=':/')}" for name, value in options if value is not None)
        path = f"/{self.prefix}" if self.prefix else ""
        return f"{self.provider}://{self.bucket}{path}{'?' if query else ''}{query}"


def parse_storage_url(text: str) -> StorageUrl | None:
    """Return the URL of an object store, or `None` for the directory of images in the data directory.

    Raises:
        ValueError: It is neither.
    """
    if text == FOLDER:
        return None
    scheme, separator, _ = text.partition("://")
    if not separator or scheme not in set(StorageProvider) or not text.isascii() or "#" in text:
        raise ValueError(
            "folder, or a URL like s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
        )
    try:
        parts = urlsplit(text)
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    except ValueError as error:
        raise ValueError(f"the URL of an object store ({error})") from None
    if "@" in parts.netloc:
        raise ValueError("a URL without credentials, which are read from the provider's variables")
    if _BUCKET.fullmatch(parts.netloc) is None:
        raise ValueError("a URL with the name of a bucket or container after ://")
    prefix = parts.path.removeprefix("/").removesuffix("/")
    if prefix and not all(_SEGMENT.fullmatch(segment) for segment in prefix.split("/")):
        raise ValueError("a path of letters, digits, dots, hyphens and underscores after the bucket")
    names = [name for name, _ in options]
    if len(set(names)) < len(names) or not set(names) <= _OPTIONS.keys():
        raise ValueError(f"only the parameters {' and '.join(_OPTIONS)}, once each,")
    for name, value in options:
        if not _OPTIONS[name](value):
            raise ValueError(f"a valid {name} in the URL")
    values = dict(options)
    return StorageUrl(
        provider=StorageProvider(scheme),
        bucket=parts.netloc,
        prefix=prefix,
        endpoint=values.get("endpoint"),
        region=values.get("region"),
    )


def require_storage_url(_settings: object, attribute: Attribute[str], value: str) -> None:
    """Raise ValueError unless a setting is `folder` or the URL of an object store.

    The value is not repeated: someone may have written credentials into it.
    """
    try:
        parse_storage_url(value)
    except ValueError as error:
        raise ValueError(f"expected {error} for {attribute.name} but received another value") from None
