"""The command line: all commands with the global options, and shell completion."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from imagehost_client._cli.accounts import (
    accounts,
    change_password,
    keys,
    register,
    sessions,
    show_own_account,
)
from imagehost_client._cli.albums import albums
from imagehost_client._cli.connection import CommandContext, pass_context
from imagehost_client._cli.errors import DESCRIPTIONS
from imagehost_client._cli.images import (
    delete_images,
    get_images,
    image_urls,
    list_gallery,
    list_images,
    show_images,
    update_images,
)
from imagehost_client._cli.options import Command, RootGroup
from imagehost_client._cli.sign_in import login, logout, profiles, show_config, whoami
from imagehost_client._cli.sync import sync
from imagehost_client._cli.uploads import upload
from imagehost_client._cli.webhooks import webhooks
from imagehost_client._config import __version__

PROGRAM = "imagehost-client"
VARIABLE = "_IMAGEHOST_CLIENT_COMPLETE"
"""The environment variable by which a completion script asks the program."""

SHELLS = ("bash", "zsh", "fish")

ZSH_SETUP = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n"
"""The lines that load zsh's completion, where the user's settings do not."""


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(SHELLS))
@pass_context
def print_completion(context: CommandContext, *, shell: str) -> None:
    """Print a completion script.

    \b
    Examples:
      eval "$(imagehost-client completion bash)"        # in ~/.bashrc
      eval "$(imagehost-client completion zsh)"         # in ~/.zshrc
      imagehost-client completion fish | source         # in ~/.config/fish/config.fish
    """  # noqa: D301 - the escape sequence is click's
    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(root, {}, PROGRAM, VARIABLE).source().rstrip()
    if shell == "zsh":
        first, _, rest = script.partition("\n")
        script = f"{first}\n{ZSH_SETUP}{rest}"
    context.console.print(script)


EPILOG = "\n\n".join(
    (
        "\b\nEnvironment:\n"
        "  IMAGEHOST_BASE_URL  base URL of the API\n"
        "  IMAGEHOST_TOKEN     API token (no option has it: other users can read the process list)\n"
        "  IMAGEHOST_CDN_URL   base URL of image delivery; default: /img beside /v1\n"
        "  IMAGEHOST_PROFILE   name of the profile, as --profile",
        "\b\nExamples:\n"
        "  imagehost-client login admin --base-url https://images.example.com\n"
        "  imagehost-client upload photos/ cat.jpg --album Cats\n"
        '  imagehost-client ls --q "red cat" --sort=-size\n'
        "  imagehost-client get ID -W 300 -o small.avif",
        "\b\nExit status:\n" + "\n".join(f"  {status:<4}{text}" for status, text in DESCRIPTIONS.items()),
    )
)


@click.group(
    cls=RootGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="%(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Upload and manage images on an image host."""
    ctx.ensure_object(CommandContext)


def alias(command: click.Command, name: str) -> click.Command:
    """Return a command that does the same under another name, and is not listed by `--help`."""
    return Command(name, hidden=True, params=command.params, callback=command.callback, help=command.help)


for _command in (
    *(
        upload,
        sync,
        list_images,
        show_images,
        update_images,
        delete_images,
        list_gallery,
        get_images,
        image_urls,
    ),
    *(albums, keys, webhooks, sessions, accounts, profiles),
    *(login, logout, whoami, register, change_password, show_own_account, show_config, print_completion),
    alias(get_images, "render"),
):
    cli.add_command(_command)
