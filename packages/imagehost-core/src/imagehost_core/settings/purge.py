"""Settings of cache purges: the request that removes an image from a shared cache."""

from __future__ import annotations

import re

from attrs import Attribute, field, frozen
from attrs.validators import ge, optional

from imagehost_core.settings.secrets import redact_header, redact_url, secret, show_value

_URL = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[!-~]*)?", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
"""A token of RFC 9110, section 5.6.2: a method or the name of a header."""
_HEADER = re.compile(rf"(?P<name>{_TOKEN.pattern}):[ \t]*(?P<value>[!-~]+(?:[ \t]+[!-~]+)*)?", re.ASCII)


def _require_url(_settings: object, attribute: Attribute[str | None], value: str | None) -> None:
    if value is not None and ("#" in value or "\\" in value or _URL.fullmatch(value) is None):
        expected = "an http or https URL without user or fragment"
        raise ValueError(
            f"expected {expected} for {attribute.name} but received {show_value(attribute, value)}"
        )


def _require_token(_settings: object, attribute: Attribute[str], value: str) -> None:
    if _TOKEN.fullmatch(value) is None:
        raise ValueError(f"expected letters, digits and hyphens for {attribute.name} but received {value!r}")


def _require_headers(
    _settings: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]
) -> None:
    for line in value:
        if _HEADER.fullmatch(line) is None:
            raise ValueError(f"expected lines like 'Name: value' for {attribute.name} but received another")


def _require_statuses(
    _settings: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]
) -> None:
    for entry in value:
        if re.fullmatch(r"[2-5][0-9]{2}", entry, re.ASCII) is None:
            raise ValueError(f"expected HTTP statuses for {attribute.name} but received {entry!r}")


@frozen(kw_only=True)
class PurgeSettings:
    """The request that is sent to a shared cache when a public image is deleted or becomes private.

    In `url`, `headers` and `body`, `{id}` is the id of the image, `{tag}` its cache tag, `img-<id>`, and
    `{url}` its URL without an extension and parameters.

    Attributes:
        url: The URL of the request; `None` sends none. It may be of a private network.
        method: The method of the request, such as `POST`, `PURGE` or `BAN`.
        headers: Its headers, as lines like `Name: value`.
        body: Its body.
        tag_header: A response header that has the cache tag, in addition to `Cache-Tag`.
        success_statuses: Statuses that mean success besides 2xx, such as the 404 of a cache that has nothing.
        timeout_seconds: The longest duration of an attempt.
    """

    url: str | None = field(default=None, validator=_require_url, repr=False, metadata=secret(redact_url))
    method: str = field(default="POST", validator=_require_token)
    headers: tuple[str, ...] = field(
        default=(), validator=_require_headers, repr=False, metadata=secret(redact_header)
    )
    body: str | None = field(default=None, repr=False, metadata=secret())
    tag_header: str | None = field(default=None, validator=optional(_require_token))
    success_statuses: tuple[str, ...] = field(default=(), validator=_require_statuses)
    timeout_seconds: float = field(default=10.0, validator=ge(0.1))
