"""Shared parts of all commands: the `--data` option, opening the host, and error output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import click

from imagehost_core import ImageHost
from imagehost_core.errors import ImageHostError
from imagehost_core.observer import Measurement
from imagehost_core.settings import SQLITE, SettingsError
from imagehost_core.storage.layout import DataLayout
from imagehost_server.pending_log import logging_to_server
from imagehost_server.settings import ServerSettings, load

DATA_VARIABLE = "IMAGEHOST_DATA"
"""The environment variable that stands for `--data`, which takes precedence."""

F = TypeVar("F", bound=Callable[..., None])


def _data_option(text: str, *, exists: bool) -> Callable[[F], F]:
    kind = click.Path(exists=exists, file_okay=False, path_type=Path)
    return click.option(
        "--data", type=kind, required=True, metavar="DIR", envvar=DATA_VARIABLE, show_envvar=True, help=text
    )


data_option = _data_option("Data directory.", exists=True)
"""The option `--data DIR` for an existing data directory."""

new_data_option = _data_option("Data directory; created if it does not exist.", exists=False)
"""The option `--data DIR` for a data directory that the command may create."""


@contextmanager
def open_host(
    data: Path,
    settings: ServerSettings | None = None,
    *,
    recover: bool = True,
    observe: Callable[[Measurement], None] = lambda _measurement: None,
) -> Iterator[ImageHost]:
    """Open the host of a data directory for a block; errors end the command, and nothing is created.

    Args:
        data: The data directory.
        settings: Its settings, unless they are to be loaded.
        recover: Whether to finish what a crash has interrupted.
        observe: Receives the measurements of the host.
    """
    settings = settings or load_settings(data)
    file = created_file(data, settings)
    if not file.is_file():
        raise click.ClickException(
            f"expected a data directory for --data or {DATA_VARIABLE} but {str(data)!r} has no {file.name}; "
            "`imagehost serve` creates data directories"
        )
    require_owner(file)
    command = click.get_current_context().command_path.partition(" ")[2]
    with (
        cli_errors(),
        ImageHost.open(data, settings=settings, recover=recover, observe=observe) as host,
        logging_to_server(data, command),
    ):
        yield host


def created_file(data: Path, settings: ServerSettings) -> Path:
    """Return the file that a data directory has as soon as it is in use."""
    layout = DataLayout(data)
    # With another database the directory has a secret, which is created with it.
    return layout.database if settings.database == SQLITE else layout.secret


def require_owner(file: Path, advice: str = "") -> None:
    """Raise ClickException unless this process has the server's user.

    Files that root creates, such as lock files, could not be opened by the server.

    Args:
        file: A file of the server, or its data directory.
        advice: What the message ends with.
    """
    if sys.platform != "win32" and (owner := file.stat().st_uid) != os.geteuid():
        raise click.ClickException(
            f"expected the user that owns {str(file)!r} but received another user; try "
            f"`sudo -u '#{owner}' imagehost`{advice}"
        )


def is_root() -> bool:
    """Return whether this process has the rights of root."""
    return sys.platform != "win32" and os.geteuid() == 0


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
    except BrokenPipeError:
        raise  # click ends the command, without a message
    except OSError as error:
        raise click.ClickException(_describe(error)) from error
    except (ImageHostError, SettingsError) as error:
        raise click.ClickException(str(error)) from error


def _describe(error: OSError) -> str:
    """Return an error of the system without its number, with the file that it is about."""
    if error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"


def one_line(text: str) -> str:
    """Return text of others, such as a filename, with `?` for what would end the line or change the terminal.

    That includes the bytes of a filename that are not UTF-8, which standard output may refuse to encode.
    """
    return "".join(character if character.isprintable() else "?" for character in text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 image` or `2 images`.

    Args:
        number: The number.
        noun: The noun in the singular, whose plural ends in `s`.
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows the number of items that are done, of all items.

    Args:
        label: The text before the bar.
    """
    with ExitStack() as stack:
        advance: Callable[[int], None] | None = None
        shown = 0

        def show(done: int, total: int) -> None:
            nonlocal advance, shown
            # A smaller number belongs to the next part of the work, which gets a bar of its own.
            if advance is None or done <= shown:
                stack.close()
                bar = click.progressbar(length=total, label=label, file=sys.stderr, show_pos=True)
                advance, shown = stack.enter_context(bar).update, 0
            advance(done - shown)
            shown = done

        yield show if sys.stderr.isatty() else _ignore


def _ignore(_done: int, _total: int) -> None:
    pass


def show_status(text: str = "") -> None:
    """Replace the line of the progress on a terminal, such as before something else is printed."""
    if sys.stderr.isatty():
        # Return to the start of the line, and erase it (ECMA-48, EL).
        click.echo(f"\r\x1b[K{text}", nl=False, err=True)
