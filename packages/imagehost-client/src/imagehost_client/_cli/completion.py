"""Shell completion scripts, generated from the argument parser."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Iterator

from imagehost_client._cli.output import Console

SHELLS = ("bash", "zsh", "fish")

_BASH = """\
_imagehost_client() {{
    local path="" word
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case " {groups} " in
        *" ${{path:+$path/}}$word "*) path="${{path:+$path/}}$word" ;;
        esac
    done
    local words=""
    case "$path" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _imagehost_client imagehost-client
"""


_ZSH = """\
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
"""


def print_completion(parser: argparse.ArgumentParser, args: Namespace, console: Console) -> None:
    """Print the completion script of `parser` for the shell `args.shell`."""
    tree = dict(command_tree(parser))
    if args.shell == "fish":
        for path, words in tree.items():
            seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in path.split("/") if word)
            test = seen or "__fish_use_subcommand"
            console.print(f"complete -c imagehost-client -n '{test}' -a '{' '.join(words)}'")
        return
    cases = "\n".join(f"        '{path}') words='{' '.join(words)}';;" for path, words in tree.items())
    script = _BASH.format(groups=" ".join(path for path in tree if path), cases=cases)
    console.print((_ZSH if args.shell == "zsh" else "") + script.rstrip())


def command_tree(parser: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Return pairs of a command's path, such as `albums/ls`, and its subcommands and flags, sorted."""
    flags: list[str] = []
    subcommands: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no public API to read a parser
        flags += [flag for flag in action.option_strings if flag.startswith("--")]
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            subcommands += action.choices.items()
    yield path, sorted([name for name, _ in subcommands] + flags)
    for name, child in subcommands:
        yield from command_tree(child, f"{path}/{name}" if path else name)
