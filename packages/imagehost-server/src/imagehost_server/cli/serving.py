"""The commands that serve, and print the settings: `serve`, `webhook-sender`, `webhooks` and `config`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from itertools import groupby
from logging.config import dictConfig
from pathlib import Path

import click

from imagehost_core.settings import ResolvedSetting
from imagehost_server.background import run_forever
from imagehost_server.cli.bootstrap import create_initial_credentials
from imagehost_server.cli.common import (
    cli_errors,
    created_file,
    data_option,
    is_root,
    load_settings,
    new_data_option,
    open_host,
    require_owner,
)
from imagehost_server.logging_config import logging_config
from imagehost_server.metrics import Recorder, serve_metrics
from imagehost_server.serve import runner
from imagehost_server.serve.children import in_fork
from imagehost_server.settings import ServerSettings, load


@click.command()
@new_data_option
@click.option("--host", help="Interface to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port; 0 picks a free one.  [default: 8000]")
@click.option("--workers", type=int, help="Number of server processes.  [default: 1]")
@click.option("--tls-cert", metavar="FILE", help="TLS certificate with its chain, PEM.")
@click.option("--tls-key", metavar="FILE", help="Private key of the certificate, PEM.")
@click.option(
    "--database", metavar="ENGINE", help="`sqlite`, or postgresql://USER@HOST/NAME.  [default: sqlite]"
)
@click.option(
    "--storage", metavar="URL", help="`folder`, or s3://, gs:// or az://BUCKET/PREFIX.  [default: folder]"
)
@click.option(
    "--any-owner",
    is_flag=True,
    help="Serve data that another user owns, on a mount that shows other owners than those of its files.",
)
def serve(data: Path, database: str | None, storage: str | None, any_owner: bool, **flags: object) -> None:
    """Run the server.

    With an empty data directory it creates the account `admin`, and prints its password and a first API
    token once. IMAGEHOST_ADMIN_PASSWORD_FILE names a file with the password to use instead.

    \b
    Examples:
      imagehost serve --data ./data
      imagehost serve --data ./data --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
    """  # noqa: D301 - the escape sequence is click's
    values = {f"server.{name}": value for name, value in flags.items() if value is not None}
    if database is not None:
        values["database"] = database
    if storage is not None:
        values["storage.url"] = storage
    settings = load_settings(data, values)
    if not any_owner:
        _require_server_user(data, settings)
    with cli_errors():
        if settings.server.port == 0:
            values["server.port"] = runner.free_port(settings.server.host)
            settings = load_settings(data, values)
        runner.require_valid_certificate(settings.server.tls_cert, settings.server.tls_key)
        runner.require_free_port(settings.server.host, settings.server.port)
    credentials = in_fork(_prepare, data, settings)
    if credentials:
        click.echo(credentials)
    runner.run(data, settings)


def _prepare(data: Path, settings: ServerSettings) -> str:
    """Open a data directory, as its migration and its first account must not be made by several processes.

    Returns:
        The credentials of the account of a new directory, or nothing.
    """
    with cli_errors(), runner.open_when_available(data, settings) as host:
        credentials = create_initial_credentials(
            host, data, settings.admin.password_file, pages=settings.web.enabled
        )
    return "" if credentials is None else credentials.text()


def _require_server_user(data: Path, settings: ServerSettings) -> None:
    """Raise ClickException if this process would create files that the user of the data cannot open."""
    file = created_file(data, settings)
    advice = ", or `--any-owner` on a mount that shows other owners"
    if file.exists():
        require_owner(file, advice)
    elif data.exists() and is_root():
        # Others can create files in a new directory only where its owner permits it.
        require_owner(data, advice)


@click.command()
@data_option
@click.option(
    "--metrics-port", type=click.IntRange(1, 65_535), help="Serve /metrics of this process on 127.0.0.1:PORT."
)
def webhook_sender(data: Path, metrics_port: int | None) -> None:
    """Send webhooks in a separate process.

    The server sends them too, unless IMAGEHOST_WEBHOOKS_SEND_IN_SERVER=false. Any number of both may run.

    \b
    Example:
      imagehost webhook-sender --data /srv/imagehost --metrics-port 9101
    """  # noqa: D301 - the escape sequence is click's
    settings = load_settings(data)
    dictConfig(logging_config(settings.log.level, settings.log.format))
    recorder = Recorder("webhook_sender")
    if metrics_port is not None:
        with cli_errors():
            serve_metrics(recorder, metrics_port)
    with open_host(data, settings, observe=recorder.observe) as host:
        click.echo("Sending webhooks")
        run_forever(host)


@click.command()
@data_option
def config(data: Path) -> None:
    """Print every setting with its value and its source, as TOML for `imagehost.toml`.

    Secrets are hidden. A value that `serve` rejects is an error here too.

    \b
    Example:
      imagehost config --data /srv/imagehost
    """  # noqa: D301 - the escape sequence is click's
    with cli_errors():
        settings, resolved = load(data, {}, os.environ)
        runner.require_valid_certificate(settings.server.tls_cert, settings.server.tls_key)
    click.echo(format_settings(resolved))


@click.group()
def webhooks() -> None:
    """Manage webhook deliveries."""


@webhooks.command("retry-now")
@data_option
def retry_webhooks(data: Path) -> None:
    """Retry all pending webhook deliveries now.

    Use it after an outage of this host's network, instead of waiting for the retry schedule.

    \b
    Example:
      imagehost webhooks retry-now --data /srv/imagehost
    """  # noqa: D301 - the escape sequence is click's
    with open_host(data) as host:
        click.echo(f"Deliveries due now: {host.webhooks.retry_all_now()}")


def format_settings(resolved: Iterable[ResolvedSetting]) -> str:
    """Return settings as a TOML document, each with its source as a comment.

    TOML has no null: a setting without a value is only a comment. So is one with a secret, without it.
    """
    # Top-level keys come before the first table, where TOML requires them.
    by_section = sorted(resolved, key=lambda setting: _section(setting) != "")
    lines: list[str] = []
    for section, settings in groupby(by_section, _section):
        if section:
            lines += ["", f"[{section}]"]
        for setting in settings:
            name = setting.path.rpartition(".")[2]
            line = f"{name} = {_toml_value(setting.shown)}  # {setting.origin}"
            if setting.value is None:
                line = f"# {name} is not set"
            elif setting.shown != setting.value:
                line = f"# {line}; with a secret"
            lines.append(line)
    return "\n".join(lines)


def _section(setting: ResolvedSetting) -> str:
    return setting.path.rpartition(".")[0]


def _toml_value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, str):
        # JSON's escapes are TOML's too, but TOML also requires one for DEL.
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)
