"""The global options, which every command accepts at any place of the line, and their command classes."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from imagehost_client._cli.context import CommandContext
from imagehost_client._cli.errors import report_error
from imagehost_client._cli.statuses import ExitStatus


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
        _format_options(self, ctx, formatter)


class Group(click.Group):
    """A group of commands that accepts the global options too."""

    command_class = Command

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the group's parameters and the global options."""
        return [*super().get_params(ctx), *GLOBAL_OPTIONS]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the group's options, the names of the global ones, and the commands."""
        _format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


class RootGroup(Group):
    """The whole command line, which reports errors and sets the exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; errors become a message, a hint and an exit status."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise
        except click.Abort as error:
            interrupted = isinstance(error.__context__, KeyboardInterrupt)
            ctx.exit(ExitStatus.INTERRUPTED if interrupted else ExitStatus.FAILURE)
        except (Exception, KeyboardInterrupt) as error:
            ctx.exit(report_error(error, ctx.ensure_object(CommandContext)))


def _format_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    is_root = ctx.parent is None
    options = [option for option in command.get_params(ctx) if isinstance(option, click.Option)]
    listed = [option for option in options if is_root or option not in GLOBAL_OPTIONS]
    records = [record for option in listed if (record := option.get_help_record(ctx)) is not None]
    with formatter.section("Options"):
        formatter.write_dl(records)
    if not is_root:
        names = ", ".join(option.opts[0] for option in GLOBAL_OPTIONS)
        with formatter.section("Global options"):
            formatter.write_text(f"{names}: see `imagehost-client --help`.")
