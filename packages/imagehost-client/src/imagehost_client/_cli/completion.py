"""Shell completion: scripts that ask the program for commands, options, choices and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from imagehost_client._cli.context import CommandContext, pass_context
from imagehost_client._cli.global_options import Command

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
