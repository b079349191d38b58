"""Completion for shells, written from the parser itself, so it knows every command and flag."""

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


def completion(args: Namespace, out: Console) -> None:
    """Print the completion of one shell."""
    from imagehost_client._cli.arguments import build_parser

    tree = dict(command_tree(build_parser()))
    if args.shell == "fish":
        for path, known in tree.items():
            seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in path.split("/") if word)
            test = seen or "__fish_use_subcommand"
            out.print(f"complete -c imagehost-client -n '{test}' -a '{' '.join(known)}'")
        return
    cases = "\n".join(f"        '{path}') words='{' '.join(known)}';;" for path, known in tree.items())
    script = _BASH.format(groups=" ".join(path for path in tree if path), cases=cases)
    out.print((_ZSH if args.shell == "zsh" else "") + script.rstrip())


def command_tree(parser: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Return what may follow each command: its commands and flags, by the command's path."""
    known: list[str] = []
    below: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to read a parser
        known += [flag for flag in action.option_strings if flag.startswith("--")]
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            below += action.choices.items()
    yield path, sorted([name for name, _ in below] + known)
    for name, child in below:
        yield from command_tree(child, f"{path}/{name}" if path else name)
