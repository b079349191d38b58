"""The command line `imagehost`: its commands, each imported when it is used, as the core takes a second."""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = {
    "adopt": (
        "maintenance:adopt_command",
        "Make a directory, its database and its store one installation.",
    ),
    "backup": ("archives:backup", "Back up the host to a file, or to standard output."),
    "check": ("checks:check", "Print what this machine and the site can do for the host."),
    "config": ("serving:config", "Print every setting with its value and its source."),
    "fsck": ("maintenance:fsck", "Check the data directory, beside running servers."),
    "gc": ("maintenance:gc", "Remove what nothing refers to and what has expired."),
    "import": ("imports:import_images", "Import images from directories, or from other hosts."),
    "keys": ("accounts:keys", "Manage API keys."),
    "restore": ("archives:restore_command", "Restore a host from a file, or from standard input."),
    "serve": ("serving:serve", "Run the server."),
    "upgrade": ("maintenance:upgrade", "Migrate the database to this version, as its owner."),
    "users": ("accounts:users", "Manage accounts."),
    "webhook-sender": ("serving:webhook_sender", "Send webhooks in a separate process."),
    "webhooks": ("serving:webhooks", "Manage webhook deliveries."),
}
"""The commands by their names: module and function, and the line in the list of commands."""


class _Commands(click.Group):
    """The commands, whose expected errors have one line, also those of their output, such as a full disk."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        from imagehost_server.cli.common import cli_errors

        with cli_errors():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"imagehost_server.cli.{module}"), function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="imagehost-server")
def main() -> None:
    """Run and manage an image host: upload images, serve them in any size and format."""
