"""The settings of a client, resolved from arguments and the environment, and checked once."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from attrs import field, frozen

from imagehost_client._redact import Secret, redact_url
from imagehost_client._retry import RetryPolicy
from imagehost_client.errors import ConfigurationError

BASE_URL = "IMAGEHOST_BASE_URL"
CDN_URL = "IMAGEHOST_CDN_URL"
TOKEN = "IMAGEHOST_TOKEN"  # noqa: S105 - the variable's name

VERSION = "/v1"
"""How the interface's address ends: *the version is part of the base address* (SPEC 9)."""

DEFAULT_TIMEOUT = 60.0
"""Seconds without a byte from the host after which a try is given up. The host answers an upload only
when the image is stored for good, so this is longer than a re-encode of the largest picture takes."""


@frozen(kw_only=True)
class Config:
    """Everything that a call needs to know of its client.

    Attributes:
        base_url: The interface's address, without a slash at its end.
        cdn_url: Where images are served, without a slash at its end.
        token: The API token, or `None` for calls that need none.
        timeout: Seconds that a try may wait for the network.
        deadline: Seconds that a call may take over all its tries, or `None`.
        retry: When and after how long a call is tried again.
        pace: Whether calls wait for a used-up rate limit to end before they are sent.
    """

    base_url: str
    cdn_url: str
    token: Secret | None = None
    timeout: float | None = DEFAULT_TIMEOUT
    deadline: float | None = None
    retry: RetryPolicy = field(factory=RetryPolicy)
    pace: bool = False


def resolve(
    base_url: str | None,
    token: str | None,
    *,
    cdn_url: str | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
    deadline: float | None = None,
    max_retries: int = 3,
    pace: bool = False,
    allow_http: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> Config:
    """Return the settings: what was given, else what the environment says.

    Raises:
        ConfigurationError: There is no base address, or it is not the interface's, or not one that a
            token may be sent to.
    """
    base = base_url or environ.get(BASE_URL, "")
    if not base:
        raise ConfigurationError(f"expected an address for base_url or {BASE_URL} but received none")
    parts = checked_url("base_url", base, allow_http=allow_http)
    if not parts.path.rstrip("/").endswith(VERSION):
        raise ConfigurationError(
            f"expected an address that ends in {VERSION} for base_url but received {base!r}"
        )
    cdn = cdn_url or environ.get(CDN_URL) or f"{parts.scheme}://{parts.netloc}/img"
    checked_url("cdn_url", cdn, allow_http=allow_http)
    text = (token if token is not None else environ.get(TOKEN, "")).strip()
    return Config(
        base_url=base.rstrip("/"),
        cdn_url=cdn.rstrip("/"),
        token=_secret(text) if text else None,
        timeout=seconds_above_zero("timeout", timeout),
        deadline=seconds_above_zero("deadline", deadline),
        retry=RetryPolicy(max_retries=max_retries),
        pace=pace,
    )


def checked_url(name: str, url: str, *, allow_http: bool = False) -> SplitResult:
    """Return `url` in its parts.

    A token must not cross a network in the clear: `https` only, but on loopback, or where the
    caller says `allow_http`.

    Raises:
        ConfigurationError: It is not absolute, has a user, a query or a fragment, or is plain HTTP.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    expected = None
    if parts.scheme not in {"http", "https"} or not host:
        expected = "an absolute https address"
    elif "@" in parts.netloc:
        expected = "an address without user and password"
    elif parts.query or parts.fragment:
        expected = "an address without query and fragment"
    elif parts.scheme == "http" and not (allow_http or is_loopback(host)):
        expected = "an https address (http is for loopback; allow_http=True permits it elsewhere)"
    if expected:
        raise ConfigurationError(f"expected {expected} for {name} but received {redact_url(url)!r}")
    return parts


def is_loopback(host: str) -> bool:
    """Say whether `host` is this machine: `localhost`, a name under it, or a loopback address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _secret(text: str) -> Secret:
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise ConfigurationError(
            "expected printable ASCII without spaces for token but received other characters"
        )
    return Secret(text)


def seconds_above_zero(name: str, value: float | None) -> float | None:
    if value is not None and not 0 < value < float("inf"):
        raise ConfigurationError(f"expected seconds above 0 for {name} but received {value}")
    return value
