"""The context of a command: the global options, the connection that results, and the client."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable

import click
from attrs import define, field

from imagehost_client._cli.connection import Connection, resolve_connection
from imagehost_client._cli.output import Console
from imagehost_client._cli.profiles import Profile, ProfileStore
from imagehost_client._config import DEFAULT_TIMEOUT
from imagehost_client.client import Client


@define
class CommandContext:
    """What a command gets besides its own options.

    Attributes:
        create_client: The factory of the client, with its parameters.
        store: The saved profiles.
        wait: A function that waits for seconds.
        profile: The value of `--profile`, as the next five attributes are those of other global options.
        retries: The maximum number of retries.
        connection: The connection, once a command needed it.
    """

    create_client: Callable[..., Client] = Client
    store: ProfileStore = field(factory=ProfileStore)
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
        return click.get_current_context().with_resource(
            self.create_client(
                base_url=base_url,
                token=token,
                cdn_url=cdn_url,
                timeout=self.timeout or DEFAULT_TIMEOUT,
                max_retries=self.retries,
                allow_http=allow_http,
            )
        )

    def resolve(self) -> Connection:
        """Return the connection from flags, variables and profiles."""
        if self.connection is None:
            if self.store.is_exposed():
                self.console.note(f"other users can read {self.store.path}: run `chmod 600` on it")
            self.connection = resolve_connection(
                self.store.load(), base_url=self.base_url, profile=self.profile
            )
        return self.connection

    def named_profile(self) -> Profile | None:
        """Return the profile of the connection, if it has one."""
        return self.resolve().profile


pass_context = click.make_pass_decorator(CommandContext)
"""A decorator that passes the `CommandContext` as the first argument."""
