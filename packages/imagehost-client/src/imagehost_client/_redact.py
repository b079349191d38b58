"""Redaction of secrets in logs, errors and representations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

LOGGED_HEADERS = frozenset(
    {
        "content-length",
        "content-type",
        "idempotency-key",
        "idempotent-replayed",
        "location",
        "retry-after",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
        "x-request-id",
    }
)
"""The only headers that are logged."""

_HIDDEN = "***"
_SECRETS = frozenset({"sig", "share", "token", "secret"})


class Secret:
    """A string that `repr`, `str`, logs and tracebacks do not show."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def get_secret_value(self) -> str:
        """Return the string."""
        return self._text

    def hint(self) -> str:
        """Return the prefix and two characters, as in `ihk_9f…`."""
        kind, mark, rest = self._text.partition("_")
        return f"{kind}_{rest[:2]}…" if mark and len(kind) <= 4 and len(rest) >= 16 else _HIDDEN

    def __repr__(self) -> str:
        return f"Secret({_HIDDEN})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a client and its token cannot be pickled: create a client in each process")


def redact_headers(headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers in `LOGGED_HEADERS`, names in lower case."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return {name.lower(): value for name, value in pairs if name.lower() in LOGGED_HEADERS}


def redact_url(url: str, *, hidden: str = _HIDDEN) -> str:
    """Return `url` without user and password, and with the values of secret parameters replaced.

    Args:
        url: A URL, valid or not.
        hidden: The replacement of secrets.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return hidden  # an invalid URL may contain a password anywhere
    host = parts.netloc.rpartition("@")[2]
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode([(name, hidden if name in _SECRETS else value) for name, value in pairs], safe="*")
    return urlunsplit((parts.scheme, host, parts.path, query, ""))
