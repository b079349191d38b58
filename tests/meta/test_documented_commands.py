"""The commands that pages show: each can be parsed, and is run here, by a named test, or not for a reason."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest
from tests.subcommands import subcommands

from imagehost_client._cli.app import cli as client_command
from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.cli.main import main as server_command

COMMANDS = {"imagehost": server_command, "imagehost-client": client_command}
ENDS = {"|", ";", "&", "&&", ">", "<", ")"}
"""Tokens of a shell behind the arguments of a command."""
RUN_HERE = {"accounts.md": slice(5), "backup.md": slice(2), "limits.md": slice(1), "maintenance.md": slice(1)}
"""The blocks that one test runs one after the other, on one data directory."""
RUN_BY = {
    "index.md": "test_the_commands_of_the_first_page_work_one_after_the_other",
    "README.md": "test_the_commands_of_the_first_page_work_one_after_the_other",
    "import.md": "tests/server/test_cli_import.py",
    "privacy.md": "tests/server/test_cli_exports.py",
    "accounts.md": "tests/outside/deploy/test_first_month.py",
    "backup.md": "tests/outside/deploy/test_first_month.py",
    "deploy.md": "tests/outside/deploy/test_first_month.py",
    "scaling.md": "tests/outside/deploy/test_first_month.py",
    "serve.md": "tests/outside/deploy/test_first_month.py",
    "operate.md": "tests/outside/test_log_questions.py",
    "cli.md": "tests/client/test_client_cli.py",
    "integrations/": "tests/outside",
}
"""The blocks that a test of the same commands runs with data and names of its own."""
REASONS = {
    "client.md": "installs the packages; nox -s wheels installs the same",
    "embed.md": "installs the packages; nox -s wheels installs the same",
    "operate.md": "installs the packages; tests/server/test_server_tracing.py starts the same server",
    "deploy.md": "needs Docker; tests/outside/deploy runs what the files contain",
    "move.md": "needs two host names with certificates; tests/outside has both proxies on loopback",
    "upgrade.md": "needs two releases; tests/core/services/test_upgrades.py has two versions",
    "cdn.md": "requests the list of networks of a CDN",
    "proxy.md": "needs a host name with a certificate; tests/outside has the same proxies on loopback",
    "scaling.md": "installs PostgreSQL; tests/outside/deploy has the same two hosts",
    "performance.md": "measures for minutes",
    "http.md": "an upload as tests/contract sends it",
    "webhooks.md": "a request as tests/contract sends it",
}
"""Pages of which all blocks, or those that `RUN_BY` has not, are not run as they stand, and why."""


def pages(workspace: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each page with commands, and the blocks."""
    docs = workspace / "docs"
    for path in (workspace / "README.md", *sorted(docs.rglob("*.md"))):
        text = path.read_text(encoding="utf-8")
        blocks = re.findall(r"(?ms)^ *```(?:sh|bash)[^\n]*\n(.*?)^ *```$", text)
        if blocks:
            yield path.relative_to(docs).as_posix() if path.is_relative_to(docs) else path.name, blocks


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the arguments of each of our commands in a block."""
    for line in block.replace("\\\n", " ").splitlines():
        if "imagehost" not in line or line.lstrip().startswith("--8<--"):
            continue
        lexer = shlex.shlex(line.replace("$(", " ; "), posix=True, punctuation_chars="|;&<>()")
        lexer.commenters, lexer.whitespace_split = "#", True
        tokens = list(lexer)
        for number, token in enumerate(tokens[:-1]):
            name, following = token.rpartition("/")[2], tokens[number + 1]
            is_value = number > 0 and tokens[number - 1].startswith("-")
            if name in COMMANDS and not is_value and following not in COMMANDS and "/" not in following:
                rest = tokens[number + 1 :]
                end = next((place for place, each in enumerate(rest) if each in ENDS), len(rest))
                yield name, rest[:end]


def parse(name: str, arguments: list[str]) -> None:
    """Fail unless a command exists and takes the options."""
    command: click.Command = COMMANDS[name]
    rest = list(arguments)
    while isinstance(command, click.Group):
        while rest and rest[0].startswith("-"):
            rest.pop(0)
        if not rest:
            return  # It prints its help.
        assert rest[0] in subcommands(command), (name, arguments)
        command = subcommands(command)[rest.pop(0)]
    command.make_parser(click.Context(command)).parse_args(rest)


def test_every_command_that_a_page_shows_exists_with_its_options(workspace: Path) -> None:
    shown = [
        (page, *each) for page, blocks in pages(workspace) for block in blocks for each in commands(block)
    ]
    assert len(shown) > 50
    for page, name, arguments in shown:
        try:
            parse(name, arguments)
        except click.UsageError as error:
            pytest.fail(f"{page}: {name} {shlex.join(arguments)}: {error.message}")


def test_every_command_in_the_text_of_a_page_exists(workspace: Path) -> None:
    for path in (workspace / "docs").rglob("*.md"):
        for span in re.findall(
            r"(?<!`)`(imagehost(?:-client)? [^`…]+)`(?!`)", path.read_text(encoding="utf-8")
        ):
            for name, arguments in commands(span):
                with suppress(click.BadOptionUsage):  # The text leaves out the value of an option.
                    parse(name, arguments)


def test_scheduled_commands_have_absolute_paths_as_cron_and_systemd_search_no_environment(
    workspace: Path,
) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (workspace / "docs").rglob("*.md"))
    programs = re.findall(r"(?m)^(?:ExecStart=|\d+ \d+ \* \* \S+ +imagehost +)(\S+)", text)
    assert len(programs) > 4
    assert set(programs) == {"/opt/imagehost/bin/imagehost"}


def test_packages_are_installed_from_a_clone_as_none_is_published(workspace: Path) -> None:
    paths = [
        workspace / "README.md",
        *(workspace / "docs").rglob("*.md"),
        *workspace.glob("packages/*/src/**/*.py"),
    ]
    for path in paths:
        for command in re.findall(r"pip install [^\n]*", path.read_text(encoding="utf-8")):
            names = re.findall(r"(?<!/packages/)\bimagehost-(?:core|server|client)\b", command)
            assert names == [], f"{path}: {command}"


def test_every_page_with_commands_is_run_or_says_why_not(workspace: Path) -> None:
    listed = {*RUN_HERE, *RUN_BY, *REASONS}
    names = {f"{page.split('/')[0]}/" if "/" in page else page for page, _ in pages(workspace)}
    assert names == listed


@pytest.mark.slow
def test_the_commands_of_the_pages_of_an_operator_work_one_after_the_other(
    workspace: Path, tmp_path: Path
) -> None:
    with ImageHost.open(tmp_path / "data") as host:
        host.upload(make_image(), owner=host.accounts.get_or_create("admin"))
    found = dict(pages(workspace))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for page, part in RUN_HERE.items():
        for block in found[page][part]:
            completed = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", block],
                cwd=tmp_path,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
            )
            assert completed.returncode == 0, f"{page}: {block}{completed.stdout}{completed.stderr}"
