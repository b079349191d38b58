"""Shared parts of all commands: the `--data` option, opening the host, and error output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import click

from imagehost_core import ImageHost
from imagehost_core.errors import ImageHostError
from imagehost_core.settings import SettingsError
from imagehost_server.settings import ServerSettings, load

F = TypeVar("F", bound=Callable[..., None])


def data_option(command: F) -> F:
    """Add the `--data` option, which every command has."""
    return click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        required=True,
        metavar="DIR",
        help="Data directory; created if it does not exist.",
    )(command)


@contextmanager
def open_host(data: Path) -> Iterator[ImageHost]:
    """Open the host of a data directory for a block; errors end the command."""
    with cli_errors(), ImageHost.open(data, settings=load_settings(data)) as host:
        yield host


def load_settings(data: Path, flags: Mapping[str, object] | None = None) -> ServerSettings:
    """Return the settings from flags, environment variables and `imagehost.toml`.

    Args:
        data: The data directory.
        flags: Values of command line flags, by setting path.
    """
    with cli_errors():
        return load(data, flags or {}, os.environ)[0]


@contextmanager
def cli_errors() -> Iterator[None]:
    """Turn expected errors of a block into a one-line message and exit status 1, without traceback."""
    try:
        yield
    except (ImageHostError, SettingsError, OSError) as error:
        raise click.ClickException(str(error)) from error
