"""The options that several commands share; and the global ones, which every command accepts at any place."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, TypeVar, get_args

import click
from click.shell_completion import CompletionItem

from imagehost_client._cli.connection import CommandContext, pass_context
from imagehost_client._cli.errors import ExitStatus, report_error
from imagehost_client._cli.output import Column
from imagehost_client._types import UNSET, Fit, Unset
from imagehost_client.urls import OUTPUT_FORMATS

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def _store(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    """Set the attribute of the context of an option's name, if the option is given."""
    if value is None or value is False or option.name is None:
        return
    context = ctx.ensure_object(CommandContext)
    if option.name == "quiet":
        context.console.is_quiet = True
    else:
        setattr(context, option.name, value)


def _complete_profile(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of saved profiles that begin with `incomplete`."""
    profiles = ctx.ensure_object(CommandContext).store.load().profiles
    return [
        CompletionItem(name, help=profile.base_url)
        for name, profile in sorted(profiles.items())
        if name.startswith(incomplete)
    ]


def _option(*declarations: str, **attributes: Any) -> click.Option:
    return click.Option(declarations, expose_value=False, callback=_store, **attributes)


GLOBAL_OPTIONS: tuple[click.Option, ...] = (
    _option(
        "--profile",
        metavar="NAME",
        shell_complete=_complete_profile,
        help="Host and account that `login` has saved.",
    ),
    _option("--base-url", metavar="URL", help="Base URL of the API."),
    _option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help="Network timeout of an attempt.  [default: 60]",
    ),
    _option("--retries", type=click.IntRange(0), metavar="N", help="Maximum of retries.  [default: 3]"),
    _option("--allow-http", is_flag=True, help="Allow plain HTTP to remote hosts."),
    _option("--verbose", "-v", is_flag=True, help="Log every attempt to standard error."),
    _option("--quiet", is_flag=True, help="Print no messages except errors, and no progress bar."),
)
"""The global options."""


class Command(click.Command):
    """A command that accepts the global options beside its own."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's parameters and the global options."""
        return [*super().get_params(ctx), *GLOBAL_OPTIONS]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's options, and the names of the global ones."""
        is_root = ctx.parent is None
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        listed = [option for option in options if is_root or option not in GLOBAL_OPTIONS]
        records = [record for option in listed if (record := option.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl(records)
        if not is_root:
            names = ", ".join(option.opts[0] for option in GLOBAL_OPTIONS)
            with formatter.section("Global options"):
                formatter.write_text(f"{names}: see `imagehost-client --help`.")


class Group(Command, click.Group):
    """A group of commands that accepts the global options too."""

    command_class = Command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the group's options, the names of the global ones, and the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


class RootGroup(Group):
    """The whole command line, which reports errors and sets the exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; errors become a message, a hint and an exit status."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except BrokenPipeError:
            if hasattr(signal, "SIGPIPE"):  # end as other programs do whose output is closed
                signal.signal(signal.SIGPIPE, signal.SIG_DFL)
                signal.raise_signal(signal.SIGPIPE)
            raise
        except click.Abort as error:
            interrupted = isinstance(error.__context__, KeyboardInterrupt)
            ctx.exit(ExitStatus.INTERRUPTED if interrupted else ExitStatus.FAILURE)
        except (Exception, KeyboardInterrupt) as error:
            ctx.exit(report_error(error, ctx.ensure_object(CommandContext)))


POSITIVE = click.IntRange(1)
"""A whole number above 0."""
QUALITY = click.IntRange(1, 100)
"""A quality of an encoder."""


def parse_limit(value: str | Unset) -> int | Unset | None:
    """Return a limit of an account: a whole number, or `None` for `default`, which means the host's."""
    if isinstance(value, Unset):
        return value
    if value == "default":
        return None
    if not (value.isascii() and value.isdecimal()):
        raise click.BadParameter(f"expected a whole number or `default` but received {value!r}")
    return int(value)


def parse_time(value: str, *, direction: int = -1) -> datetime:
    """Return a time: a duration (`90d`, `12h`, `5m`, `30s`) ago, or in ISO 8601, local without an offset.

    Args:
        value: The text.
        direction: 1 for a duration from now.
    """
    unit = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}.get(value[-1:])
    try:
        if unit is not None and value[:-1].isdecimal() and int(value[:-1]) > 0:
            return datetime.now(UTC) + direction * timedelta(**{unit: int(value[:-1])})
        return datetime.fromisoformat(value).astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"expected a duration (90d, 12h, 5m, 30s), a date or a time but received {value!r}"
        ) from None


def parse_expiry(value: str) -> datetime:
    """Return a time as `parse_time` does, with durations from now."""
    return parse_time(value, direction=1)


def parse_widths(value: str) -> Sequence[int]:
    """Return widths in pixels, separated by commas."""
    widths = value.split(",")
    if not all(width.isascii() and width.isdecimal() and int(width) for width in widths):
        raise click.BadParameter(f"expected widths in pixels, such as 320,640, but received {value!r}")
    return [int(width) for width in widths]


def choices(names: Sequence[str]) -> click.Choice[str]:
    """Return a type for one of several names, in any case."""
    return click.Choice(names, case_sensitive=False)


def lists(columns: tuple[Column[T], ...]) -> Callable[[Callable[..., Iterable[T]]], Callable[..., None]]:
    """Return a decorator of a function that returns the records of a list, which are printed.

    The function has the parameters `client` and `per_page` besides those of its own options.

    Args:
        columns: The columns of the table.
    """

    def add(function: Callable[..., Iterable[T]]) -> Callable[..., None]:
        @click.option("--limit", type=POSITIVE, metavar="N", help="Maximum number of records.")
        @click.option("--json", "as_json", is_flag=True, help="Print one JSON record per line.")
        @pass_context
        @wraps(function)
        def print_list(
            context: CommandContext, /, *, limit: int | None, as_json: bool, **options: object
        ) -> None:
            records = function(context.connect(), per_page=min(limit or 100, 100), **options)
            context.console.print_list(records, columns, limit=limit, as_json=as_json)

        return print_list

    return add


def prints_record(command: F) -> F:
    """Add the option of lists to a command that prints a record, which is JSON in any case."""
    text = "Print JSON, as without it."
    return click.option("--json", is_flag=True, expose_value=False, help=text)(command)


def confirm_option(command: F) -> F:
    """Add the option that confirms a deletion."""
    return click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")(command)


def visibility_options(command: F) -> F:
    """Add the options for public or private records."""
    return switch_options(
        "is_public", ("--public", "In the public gallery."), ("--private", "Only in your lists.")
    )(command)


def keeps_public(command: F) -> F:
    """Add the option for images that leave a private album."""
    text = "Keep public images public that leave a private album, so that the gallery lists them."
    return click.option("--images-public", is_flag=True, help=text)(command)


def switch_options(name: str, on: tuple[str, str], off: tuple[str, str]) -> Callable[[F], F]:
    """Return a decorator that adds two options for one parameter, which is `None` without both.

    Args:
        name: The parameter.
        on: The option that sets it to True, and its help.
        off: The option that sets it to False, and its help.
    """

    def add(command: F) -> F:
        return flag(on[0], name, True, on[1])(flag(off[0], name, False, off[1])(command))

    return add


def flag(option: str, name: str, value: bool, text: str | None = None) -> Callable[[F], F]:
    """Return a decorator that adds an option for one value of a parameter, which is `None` without it."""
    return click.option(option, name, type=bool, flag_value=value, default=None, help=text)


def transform_options(command: F) -> F:
    """Add the transform parameters of image URLs."""
    for option in reversed(
        (
            click.option("--width", "--w", "-W", "w", type=POSITIVE, metavar="PIXELS"),
            click.option("--height", "--h", "-H", "h", type=POSITIVE, metavar="PIXELS"),
            click.option("--quality", "--q", "-q", "q", type=QUALITY, metavar="N", help="1 to 100."),
            click.option("--fit", type=choices(get_args(Fit))),
            click.option("--format", "--fm", "fm", type=choices(OUTPUT_FORMATS)),
        )
    ):
        command = option(command)
    return command


def or_unset(value: T | None) -> T | Unset:
    """Return the value of an option, or `UNSET` where the option is absent."""
    return UNSET if value is None else value
