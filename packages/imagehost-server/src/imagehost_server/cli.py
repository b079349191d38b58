"""The command line `imagehost`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging.config import dictConfig
from pathlib import Path
from typing import TypeVar

import click

from imagehost_core import ImageHost
from imagehost_core.configuration import SettingError
from imagehost_core.errors import ImageHostError
from imagehost_core.models import ALL_SCOPES, Scope
from imagehost_server import logs, serving
from imagehost_server.firststart import welcome
from imagehost_server.passwords import hash_password, new_password
from imagehost_server.settings import ServerSettings, load
from imagehost_server.worker import work

F = TypeVar("F", bound=Callable[..., None])


def data_option(command: F) -> F:
    """Add the option that every command has."""
    return click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        required=True,
        metavar="DIR",
        help="The data folder; it is made if there is none.",
    )(command)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="imagehost-server")
def main() -> None:
    """An image host: upload pictures, serve them in any size and format."""


@main.command()
@data_option
@click.option("--host", help="The interface to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="The port; 0 takes a free one.  [default: 8000]")
@click.option("--workers", type=int, help="Processes that answer requests.  [default: 1]")
@click.option("--tls-cert", metavar="FILE", help="The certificate and its chain, PEM.")
@click.option("--tls-key", metavar="FILE", help="The certificate's key, PEM.")
def serve(data: Path, **flags: object) -> None:
    """Start the server.

    On an empty folder it makes the account `admin`, and prints its password and a first API token once.
    """
    given = {f"server.{name}": value for name, value in flags.items() if value is not None}
    settings = _settings(data, given)
    with _told():
        if settings.server.port == 0:
            given["server.port"] = serving.free_port(settings.server.host)
            settings = _settings(data, given)
        serving.check_port(settings.server.host, settings.server.port)
    with _told(), ImageHost.open(data, settings=settings) as host:
        first = welcome(host, data)
    if first is not None:
        click.echo(first.text())
    click.echo(f"Serving {settings.base_url}")
    serving.run(data, settings)


@main.command()
@data_option
def worker(data: Path) -> None:
    """Send webhooks, in a process of its own.

    The server sends them too, unless IMAGEHOST_WEBHOOKS_SENDER=false. Any number of both may run.
    """
    settings = _settings(data, {})
    dictConfig(logs.configuration(settings.log.level))
    with _told(), ImageHost.open(data, settings=settings) as host:
        click.echo("Sending webhooks")
        work(host)


@main.command()
@data_option
def config(data: Path) -> None:
    """Print every setting, its value and where it came from."""
    with _told():
        _, resolved = load(data, {}, os.environ)
    for setting in resolved:
        click.echo(f"{setting.path} = {setting.value!r}  ({setting.origin})")


@main.group()
def users() -> None:
    """Accounts."""


@users.command("create")
@data_option
@click.argument("name")
def create_user(data: Path, name: str) -> None:
    """Make an account, and print its password once."""
    password = new_password()
    with _host(data) as host:
        host.accounts.create(name, password_hash=hash_password(password))
    click.echo(f"The password of {name}, shown this once:", err=True)
    click.echo(password)


@users.command("list")
@data_option
def list_users(data: Path) -> None:
    """Print the names of all accounts."""
    with _host(data) as host:
        for account in host.accounts.list():
            click.echo(account.name)


@main.group()
def keys() -> None:
    """API keys."""


@keys.command("create")
@data_option
@click.option("--user", required=True, metavar="NAME", help="Whose key.")
@click.option("--name", default="", help="What to call it.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="What it may do, once for each; all, unless given.",
)
def create_key(data: Path, user: str, name: str, scopes: tuple[str, ...]) -> None:
    """Make an API key, and print its token, alone, on standard output."""
    wanted = map(Scope, scopes) if scopes else ALL_SCOPES
    with _host(data) as host:
        click.echo(host.keys.create(owner=user, name=name, scopes=wanted).token)


@main.group()
def webhooks() -> None:
    """Webhooks."""


@webhooks.command("hasten")
@data_option
def hasten_webhooks(data: Path) -> None:
    """Make every delivery that waits for its next attempt due now.

    For when the network of this host was at fault, and not the destinations.
    """
    with _host(data) as host:
        click.echo(f"{host.webhooks.hasten()} deliveries are due now")


@contextmanager
def _host(data: Path) -> Iterator[ImageHost]:
    with _told(), ImageHost.open(data, settings=_settings(data, {})) as host:
        yield host


def _settings(data: Path, flags: dict[str, object]) -> ServerSettings:
    with _told():
        return load(data, flags, os.environ)[0]


@contextmanager
def _told() -> Iterator[None]:
    """Tell what went wrong in a line, without a traceback."""
    try:
        yield
    except (ImageHostError, SettingError, OSError) as error:
        raise click.ClickException(str(error)) from error
