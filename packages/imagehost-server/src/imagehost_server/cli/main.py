"""The command line `imagehost`."""

from __future__ import annotations

import os
from logging.config import dictConfig
from pathlib import Path

import click

from imagehost_core import ImageHost
from imagehost_server import logging_config as logs
from imagehost_server.background import run_forever
from imagehost_server.cli.accounts import keys, users
from imagehost_server.cli.bootstrap import create_initial_credentials
from imagehost_server.cli.common import cli_errors, data_option, load_settings, open_host
from imagehost_server.serve import runner as serving
from imagehost_server.settings import load


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
    settings = load_settings(data, given)
    with cli_errors():
        if settings.server.port == 0:
            given["server.port"] = serving.free_port(settings.server.host)
            settings = load_settings(data, given)
        serving.check_tls(settings.server.tls_cert, settings.server.tls_key)
        serving.check_port(settings.server.host, settings.server.port)
    with cli_errors(), ImageHost.open(data, settings=settings) as host:
        first = create_initial_credentials(host, data)
    if first is not None:
        click.echo(first.text())
    click.echo(f"Serving {settings.base_url}")
    serving.run(data, settings)


@main.command()
@data_option
def webhook_sender(data: Path) -> None:
    """Send webhooks, in a process of its own.

    The server sends them too, unless IMAGEHOST_WEBHOOKS_SEND_IN_SERVER=false. Any number of both may run.
    """
    settings = load_settings(data)
    dictConfig(logs.logging_config(settings.log.level))
    with cli_errors(), ImageHost.open(data, settings=settings) as host:
        click.echo("Sending webhooks")
        run_forever(host)


@main.command()
@data_option
def config(data: Path) -> None:
    """Print every setting, its value and where it came from."""
    with cli_errors():
        _, resolved = load(data, {}, os.environ)
    for setting in resolved:
        click.echo(f"{setting.path} = {setting.value!r}  ({setting.origin})")


@main.group()
def webhooks() -> None:
    """Webhooks."""


@webhooks.command("retry-now")
@data_option
def retry_webhooks(data: Path) -> None:
    """Make every delivery that waits for its next attempt due now.

    For when the network of this host was at fault, and not the destinations.
    """
    with open_host(data) as host:
        click.echo(f"{host.webhooks.retry_all_now()} deliveries are due now")


main.add_command(users)
main.add_command(keys)
