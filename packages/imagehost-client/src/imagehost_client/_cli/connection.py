"""The connection of a command: base URL and token of flags, variables and profiles; and the client."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import click
from attrs import define, field, frozen

from imagehost_client import _config
from imagehost_client._cli.output import Console
from imagehost_client._cli.profiles import Profile, Profiles, ProfileStore, default_journals, token_of
from imagehost_client._config import DEFAULT_TIMEOUT
from imagehost_client._redact import Secret
from imagehost_client.client import Client

PROFILE_VARIABLE = "IMAGEHOST_PROFILE"
"""The environment variable with the name of the profile, where no flag names one."""


@frozen(kw_only=True)
class Connection:
    """Where requests are sent, and with which token.

    Attributes:
        base_url: The base URL of the API; empty if there is none.
        base_url_source: A flag, a variable or `profile NAME`.
        cdn_url: The base URL of image delivery; empty if there is no base URL.
        token: The token; `None` for anonymous calls.
        token_source: A variable, `profile NAME`, or `none`.
        profile: The profile of the base URL.
        allow_http: Whether the profile allows plain HTTP.
    """

    base_url: str
    base_url_source: str
    cdn_url: str
    cdn_url_source: str
    token: Secret | None
    token_source: str
    profile: Profile | None = None
    allow_http: bool = False


def resolve_connection(
    profiles: Profiles,
    *,
    base_url: str | None = None,
    profile: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Connection:
    """Return the connection from flags, else from variables, else from the current profile.

    The profile that a flag names precedes the variables. A profile's token is sent to the profile's base URL
    only, whatever other settings say.

    Args:
        profiles: The saved profiles.
        base_url: The value of `--base-url`.
        profile: The value of `--profile`.
        environ: The environment variables.

    Raises:
        ConfigurationError: There is no such profile, or its keyring is locked.
    """
    name = profile or environ.get(PROFILE_VARIABLE) or profiles.current
    chosen = profiles.get(name) if name else None
    variable = environ.get(_config.BASE_URL_VARIABLE, "")
    if base_url:
        url, url_source = normalise_base_url(base_url), "--base-url"
    elif chosen is not None and (profile or not variable):
        url, url_source = chosen.base_url, f"profile {chosen.name}"
    else:
        url, url_source = variable, _config.BASE_URL_VARIABLE
    used = chosen if chosen is not None and chosen.base_url == url.rstrip("/") else None
    token, token_source = _token(used, is_named=bool(profile), environ=environ)
    cdn, cdn_source = _cdn_url(url, used if url_source.startswith("profile") else None, environ)
    return Connection(
        base_url=url,
        base_url_source=url_source,
        cdn_url=cdn,
        cdn_url_source=cdn_source,
        token=token,
        token_source=token_source,
        profile=used,
        allow_http=used is not None and used.allow_http,
    )


def normalise_base_url(text: str) -> str:
    """Return the base URL of a host that a person typed: with a scheme, and with the API's version.

    Only what is missing is added: `https://`, or `http://` for loopback, and `/v1`.
    """
    if "://" not in text:
        host = urlsplit(f"//{text}").hostname or ""
        text = f"{'http' if _config.is_loopback(host) else 'https'}://{text}"
    return _config.add_version(text)


def _token(
    profile: Profile | None, *, is_named: bool, environ: Mapping[str, str]
) -> tuple[Secret | None, str]:
    variable = environ.get(_config.TOKEN_VARIABLE, "").strip()
    if variable and not (is_named and profile is not None):
        return Secret(variable), _config.TOKEN_VARIABLE
    token = None if profile is None else token_of(profile)
    if profile is None or token is None:
        return None, "none"
    return Secret(token), f"profile {profile.name}"


def _cdn_url(base_url: str, profile: Profile | None, environ: Mapping[str, str]) -> tuple[str, str]:
    variable = environ.get(_config.CDN_URL_VARIABLE, "")
    if profile is not None and profile.cdn_url:
        return profile.cdn_url, f"profile {profile.name}"
    if variable and profile is None:
        return variable, _config.CDN_URL_VARIABLE
    return (_config.default_cdn_url(base_url) if base_url else ""), "base_url"


@define
class CommandContext:
    """What a command gets besides its own options.

    Attributes:
        create_client: The factory of the client, with its parameters.
        store: The saved profiles.
        journals: The directory of the journals of uploads that are not finished.
        wait: A function that waits for seconds.
        profile: The value of `--profile`, as the next five attributes are those of other global options.
        retries: The maximum number of retries.
        connection: The connection, once a command needed it.
    """

    create_client: Callable[..., Client] = Client
    store: ProfileStore = field(factory=ProfileStore)
    journals: Path = field(factory=default_journals)
    wait: Callable[[float], object] = time.sleep
    profile: str | None = None
    base_url: str | None = None
    timeout: float | None = None
    retries: int = 3
    allow_http: bool = False
    verbose: bool = False
    console: Console = field(factory=Console)
    connection: Connection | None = None

    def connect(self) -> Client:
        """Return a client, which is closed at the end of the command."""
        connection = self.resolve()
        token = "" if connection.token is None else connection.token.get_secret_value()
        return self.open_client(
            connection.base_url,
            token,
            cdn_url=connection.cdn_url,
            allow_http=self.allow_http or connection.allow_http,
        )

    def open_client(self, base_url: str, token: str, *, cdn_url: str | None, allow_http: bool) -> Client:
        """Return a client of any host, which is closed at the end of the command."""
        if self.verbose:
            logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s", force=True)
            logging.getLogger("imagehost_client").setLevel(logging.DEBUG)
        client = self.create_client(
            base_url=base_url,
            token=token,
            cdn_url=cdn_url,
            timeout=self.timeout or DEFAULT_TIMEOUT,
            max_retries=self.retries,
            allow_http=allow_http,
        )
        client.environment.on_wait = self.console.wait
        return click.get_current_context().with_resource(client)

    def resolve(self) -> Connection:
        """Return the connection from flags, variables and profiles."""
        if self.connection is None:
            if self.store.is_exposed():
                self.console.note(f"other users can read {self.store.path}: run `chmod 600` on it")
            self.connection = resolve_connection(
                self.store.load(), base_url=self.base_url, profile=self.profile
            )
        return self.connection


pass_context = click.make_pass_decorator(CommandContext)
"""A decorator that passes the `CommandContext` as the first argument."""
