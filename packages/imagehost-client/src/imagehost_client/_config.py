"""Settings of a client, resolved from arguments and environment variables, and validated; and its log."""

from __future__ import annotations

import ipaddress
import logging
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from attrs import field, frozen

from imagehost_client._redact import Secret, redact_url
from imagehost_client._retry import RetryPolicy
from imagehost_client._types import UNSET, Unset
from imagehost_client.errors import ConfigurationError

__all__ = ["__version__"]

__version__ = "1.0.0rc1"

BASE_URL_VARIABLE = "IMAGEHOST_BASE_URL"
CDN_URL_VARIABLE = "IMAGEHOST_CDN_URL"
TOKEN_VARIABLE = "IMAGEHOST_TOKEN"  # noqa: S105 - the variable's name

VERSION_PATH = "/v1"
"""The last path segment of the base URL: the version of the API."""
_VERSION = re.compile(r"/v[0-9]+(/|$)")

DEFAULT_TIMEOUT = 60.0
"""The network timeout of an attempt, in seconds. The host responds to an upload when the image is stored
durably, so the timeout exceeds the time to re-encode the largest image."""
DEFAULT_DEADLINE = 60.0
"""The time limit of a call with JSON, in seconds, unless the timeout of an attempt is longer."""


@frozen(kw_only=True)
class Config:
    """The settings of a client.

    Attributes:
        base_url: The base URL of the API, without a trailing slash.
        cdn_url: The base URL of image delivery, without a trailing slash.
        token: The API token; `None` for anonymous calls.
        timeout: The network timeout of an attempt, in seconds; `None` for no timeout.
        deadline: The time limit of a call with all its retries, in seconds; `None` for no limit. Unset, it is
            `default_deadline` for calls with JSON, and transfers of files have a minimum rate instead.
        retry: The limits of retries.
        pace: Whether a call waits for the rate limit window to end instead of exceeding the limit.
        app_info: The name and version of the program, for the `User-Agent`.
        extra_headers: Headers of every request besides the client's own.
        extra_query: Query parameters of every request besides those of the call.
    """

    base_url: str
    cdn_url: str
    token: Secret | None = None
    timeout: float | None = DEFAULT_TIMEOUT
    deadline: float | Unset | None = UNSET
    retry: RetryPolicy = field(factory=RetryPolicy)
    pace: bool = False
    app_info: str | None = None
    extra_headers: Mapping[str, str] = field(factory=dict, repr=False)
    extra_query: Mapping[str, str] = field(factory=dict)

    def default_deadline(self) -> float | None:
        """Return the time limit of a call with JSON where none is set: not less than one attempt has."""
        return None if self.timeout is None else max(DEFAULT_DEADLINE, self.timeout)


def resolve(
    base_url: str | None,
    token: str | None,
    *,
    cdn_url: str | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
    deadline: float | Unset | None = UNSET,
    max_retries: int = 3,
    pace: bool = False,
    allow_http: bool = False,
    app_info: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Config:
    """Return the settings from the arguments, else from the environment variables.

    Raises:
        ConfigurationError: The base URL is missing, invalid, or one to which tokens must not be sent.
    """
    base = base_url or environ.get(BASE_URL_VARIABLE, "")
    if not base:
        raise ConfigurationError(f"expected a URL for base_url or {BASE_URL_VARIABLE} but received none")
    parts = parse_url("base_url", base, allow_http=allow_http)
    if _VERSION.search(parts.path.rstrip("/").removesuffix(VERSION_PATH)):
        raise ConfigurationError(
            f"expected a URL that ends in {VERSION_PATH} for base_url but received {base!r}"
        )
    base = add_version(base)
    cdn = cdn_url or environ.get(CDN_URL_VARIABLE) or default_cdn_url(base)
    parse_url("cdn_url", cdn, allow_http=allow_http)
    text = (token if token is not None else environ.get(TOKEN_VARIABLE, "")).strip()
    return Config(
        base_url=base,
        cdn_url=cdn.rstrip("/"),
        token=_secret(text) if text else None,
        timeout=require_positive_seconds("timeout", timeout),
        deadline=deadline if deadline is UNSET else require_positive_seconds("deadline", deadline),
        retry=RetryPolicy(max_retries=max_retries),
        pace=pace,
        app_info=require_app_info(app_info),
    )


def add_version(base_url: str) -> str:
    """Return a base URL with the version of the API at its end."""
    return base_url.rstrip("/").removesuffix(VERSION_PATH) + VERSION_PATH


def default_cdn_url(base_url: str) -> str:
    """Return the default URL of image delivery: `/img` beside `/v1`, or beside its alias `/api/v1`."""
    return base_url.rstrip("/").removesuffix(VERSION_PATH).removesuffix("/api") + "/img"


def parse_url(name: str, url: str, *, allow_http: bool = False) -> SplitResult:
    """Return the parts of `url`.

    Tokens must not be sent unencrypted: only `https` is allowed, except on loopback and with
    `allow_http`.

    Raises:
        ConfigurationError: The URL is not absolute, has a user, a query or a fragment, or is plain HTTP.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    expected = None
    if parts.scheme not in {"http", "https"} or not host:
        expected = "an absolute https URL"
    elif "@" in parts.netloc:
        expected = "a URL without user and password"
    elif parts.query or parts.fragment:
        expected = "a URL without query and fragment"
    elif parts.scheme == "http" and not (allow_http or is_loopback(host)):
        expected = "an https URL (http is allowed on loopback, and elsewhere with allow_http=True)"
    if expected:
        raise ConfigurationError(f"expected {expected} for {name} but received {redact_url(url)!r}")
    return parts


def is_loopback(host: str) -> bool:
    """Return whether `host` is `localhost`, a subdomain of it, or a loopback IP address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def http_options(base_url: str) -> dict[str, Any]:
    """Return the arguments of httpx2's client.

    A host on loopback is not requested through a proxy, and certificates are loaded for https only.
    """
    parts = urlsplit(base_url)
    host, options = parts.hostname or "", dict[str, Any]()
    if is_loopback(host):
        options["mounts"] = {f"all://[{host}]" if ":" in host else f"all://{host}": None}
    if parts.scheme == "http":
        from ssl import PROTOCOL_TLS_CLIENT, SSLContext  # slow to import

        options["verify"] = SSLContext(PROTOCOL_TLS_CLIENT)
    return options


def environment_proxy(url: str) -> str | None:
    """Return the proxy of the environment through which `url` is requested, without its password."""
    from urllib.request import getproxies, proxy_bypass  # slow to import

    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    host = parts.hostname or ""
    return None if not proxy or is_loopback(host) or proxy_bypass(host) else redact_url(proxy)


def _secret(text: str) -> Secret:
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise ConfigurationError(
            "expected printable ASCII without spaces for token but received other characters"
        )
    return Secret(text)


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token of RFC 9110, section 5.6.2."""

OWN_HEADERS = frozenset(
    {
        *("authorization", "connection", "content-length", "content-type", "host"),
        *("idempotency-key", "if-range", "range", "transfer-encoding", "user-agent"),
    }
)
"""Headers that only the client sets."""


def require_headers(headers: Mapping[str, object]) -> dict[str, str]:
    """Return `headers`; raise ConfigurationError for one that is malformed, or that only the client sets."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in OWN_HEADERS:
            raise ConfigurationError(
                f"expected the name of another header for extra_headers but received {name!r}"
            )
        if not isinstance(value, str) or not (value.isascii() and value.isprintable()):
            raise ConfigurationError(
                f"expected printable ASCII for the header {name} but received another value"
            )
    return {name: str(value) for name, value in headers.items()}


def require_app_info(text: str | None) -> str | None:
    """Return `text`; raise ConfigurationError unless it is `None` or printable ASCII."""
    if text is not None and not (text and text.isascii() and text.isprintable()):
        raise ConfigurationError(
            f"expected a name and a version such as shop/1.2 for app_info but received {text!r}"
        )
    return text


def require_positive_seconds(name: str, value: float | None) -> float | None:
    """Return `value`; raise ConfigurationError unless it is `None`, or finite and above 0."""
    if value is not None and not 0 < value < float("inf"):
        raise ConfigurationError(f"expected seconds above 0 for {name} but received {value}")
    return value


LOG_VARIABLE = "IMAGEHOST_LOG"
LOG_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO}
LOG_FORMAT = "%(asctime)s %(name)s %(levelname)s %(message)s"


def configure_logging(environ: Mapping[str, str] = os.environ) -> None:
    """Print the log from the level in `IMAGEHOST_LOG`, once per process.

    Without the variable, and where the program has added a handler of its own, nothing changes but the level.

    Raises:
        ConfigurationError: The variable is neither `debug` nor `info`.
    """
    text = environ.get(LOG_VARIABLE, "").strip().lower()
    if not text:
        return
    if text not in LOG_LEVELS:
        raise ConfigurationError(f"expected debug or info for {LOG_VARIABLE} but received {text!r}")
    logger = logging.getLogger("imagehost_client")
    logger.setLevel(LOG_LEVELS[text])
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(LOG_FORMAT))
        logger.addHandler(handler)
