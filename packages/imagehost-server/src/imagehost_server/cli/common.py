"""What all commands share: the data folder, and how they tell what went wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import click

from imagehost_core import ImageHost
from imagehost_core.errors import ImageHostError
from imagehost_core.settings.loader import SettingsError
from imagehost_server.settings import ServerSettings, load

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


@contextmanager
def open_host(data: Path) -> Iterator[ImageHost]:
    """Open the host of a data folder for the length of a block, whose errors are told."""
    with cli_errors(), ImageHost.open(data, settings=load_settings(data)) as host:
        yield host


def load_settings(data: Path, flags: Mapping[str, object] | None = None) -> ServerSettings:
    """Return the settings of a data folder, as flags and the environment give them."""
    with cli_errors():
        return load(data, flags or {}, os.environ)[0]


@contextmanager
def cli_errors() -> Iterator[None]:
    """Tell what went wrong in a line, without a traceback."""
    try:
        yield
    except (ImageHostError, SettingsError, OSError) as error:
        raise click.ClickException(str(error)) from error
