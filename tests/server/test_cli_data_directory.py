"""The data directory of all commands: `--data`, or the variable `IMAGEHOST_DATA`."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.subcommands import subcommands

from imagehost_core import ImageHost
from imagehost_server.cli.main import COMMANDS as LISTED
from imagehost_server.cli.main import main
from imagehost_server.pending_log import ACCOUNTS, log_pending, logging_to_server

CREATES = {"serve", "restore"}
"""The commands that create a data directory."""


def commands(
    group: click.Group, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command with its path."""
    for name, command in subcommands(group).items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands(main))
ARGUMENTS = {"name": "anna", "limits": "quota_bytes=1", "key_id": "0123456789abcdef", "role": "user"}


def arguments_of(command: click.Command) -> list[str]:
    """Return a value for each required parameter except `--data`."""
    values: list[str] = []
    for parameter in command.params:
        if parameter.required and parameter.name != "data":
            options = [parameter.opts[0]] if isinstance(parameter, click.Option) else []
            value = ARGUMENTS.get(parameter.name or "", "anna")
            if isinstance(parameter.type, click.Choice):
                value = str(parameter.type.choices[0])
            values += [*options, value]
    return values


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_has_an_example(path: tuple[str, ...]) -> None:
    text = CliRunner().invoke(main, [*path, "--help"], terminal_width=80).output
    _, found, examples = text.partition("Example")
    assert found
    assert f"imagehost {' '.join(path)} " in examples.partition("Options:")[0]


def test_the_first_commands_are_known() -> None:
    assert {("serve",), ("config",), ("users", "create"), ("keys", "create")} <= set(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_all_commands_take_the_data_directory_from_the_environment(
    path: tuple[str, ...],
) -> None:
    [option] = [option for option in COMMANDS[path].params if option.name == "data"]
    assert option.envvar == "IMAGEHOST_DATA"
    assert "IMAGEHOST_DATA" in CliRunner().invoke(main, [*path, "--help"]).output


@pytest.mark.parametrize("path", [path for path in COMMANDS if path[0] not in CREATES], ids=" ".join)
@pytest.mark.parametrize("by_variable", [False, True], ids=["flag", "variable"])
def test_a_mistyped_data_directory_is_an_error_and_creates_nothing(
    path: tuple[str, ...], by_variable: bool, tmp_path: Path
) -> None:
    data = tmp_path / "mistyped"
    flags = [] if by_variable else ["--data", str(data)]
    environment = {"IMAGEHOST_DATA": str(data) if by_variable else None}
    result = CliRunner().invoke(main, [*path, *flags, *arguments_of(COMMANDS[path])], env=environment)
    assert result.exit_code != 0
    assert "mistyped" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="NOT TESTED: Windows has no owners by number")
@pytest.mark.parametrize("is_new", [True, False])
def test_serve_refuses_data_of_another_user_unless_any_owner_is_allowed(
    tmp_path: Path, is_new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    if not is_new:
        ImageHost.open(data).close()
    before = sorted(tmp_path.rglob("*"))
    if os.geteuid() == 0:
        os.chown(data if is_new else data / "imagehost.sqlite3", 12_345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
    # The next step of a start.
    flags = ["--data", str(data), "--port", "0", "--tls-cert", "missing.pem", "--tls-key", "missing.pem"]
    result = CliRunner().invoke(main, ["serve", *flags])
    assert result.exit_code == 1
    assert "expected the user that owns" in result.output
    assert "sudo -u" in result.output
    assert sorted(tmp_path.rglob("*")) == before
    allowed = CliRunner().invoke(main, ["serve", *flags, "--any-owner"])
    assert "expected the user" not in allowed.output
    assert "missing.pem" in allowed.output


def test_the_flag_takes_precedence_over_the_variable(tmp_path: Path) -> None:
    for name in ("flag", "variable"):
        with ImageHost.open(tmp_path / name) as host:
            host.accounts.create(f"account-of-{name}")
    environment = {"IMAGEHOST_DATA": str(tmp_path / "variable")}
    assert "account-of-variable" in CliRunner().invoke(main, ["users", "list"], env=environment).output
    flags = ["--data", str(tmp_path / "flag")]
    assert "account-of-flag" in CliRunner().invoke(main, ["users", "list", *flags], env=environment).output


def test_a_command_without_a_data_directory_names_both_ways_to_give_it() -> None:
    result = CliRunner().invoke(main, ["users", "list"], env={"IMAGEHOST_DATA": None})
    assert result.exit_code == 2
    assert "--data" in result.output
    assert "IMAGEHOST_DATA" in result.output


def test_commands_do_not_load_the_web_framework_and_the_help_no_core() -> None:
    code = """
import sys
from imagehost_server.cli.main import COMMANDS as LISTED
from imagehost_server.cli.main import main
main(["--help"], standalone_mode=False)
loaded = {name.partition(".")[0] for name in sys.modules} & {"imagehost_core", "attr", "litestar", "uvicorn"}
import imagehost_server.cli.accounts, imagehost_server.cli.serving
print(loaded | {"litestar", "uvicorn"} & set(sys.modules))
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert output.splitlines()[-1] == "set()"


@pytest.mark.parametrize(("name", "command"), subcommands(main).items(), ids=str)
def test_the_list_of_commands_begins_each_line_as_the_help_of_the_command(
    name: str, command: click.Command
) -> None:
    assert command.name == name
    _, line = LISTED[name]
    assert line.split()[0] == (command.help or "").split()[0]


def test_an_error_of_the_system_names_the_file_and_no_number(tmp_path: Path) -> None:
    missing = tmp_path / "missing.tar.zst"
    result = CliRunner().invoke(main, ["restore", str(missing), "--data", str(tmp_path / "data")])
    assert (result.exit_code, result.stderr) == (1, f"Error: No such file or directory: {missing}\n")


def test_changes_by_commands_are_logged_by_the_server_once_with_the_command_and_its_user(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ImageHost.open(tmp_path).close()
    runner, flags = CliRunner(env={"SUDO_USER": "olga"}), ["--data", str(tmp_path)]
    assert runner.invoke(main, ["users", "create", "anna", *flags]).exit_code == 0
    assert runner.invoke(main, ["users", "create", "anna", *flags]).exit_code == 1
    assert runner.invoke(main, ["users", "update", "anna", "--suspend", *flags]).exit_code == 0
    caplog.set_level("INFO", "imagehost.accounts")
    caplog.clear()
    before = time.time()
    for _ in range(2):
        log_pending(tmp_path)
    by = {"os_user": "olga"}
    assert [(record.message, vars(record)["fields"]) for record in caplog.records] == [
        ("account created", {"account": "anna", "role": "user", "command": "users create", **by}),
        ("account changed", {"account": "anna", "suspended": True, "command": "users update", **by}),
    ]
    assert all(record.created < before for record in caplog.records)


def test_a_message_of_a_command_that_is_torn_is_reported_once_and_stops_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ImageHost.open(tmp_path).close()
    path = tmp_path / "log.pending"
    for name in ("anna", "berta", "clara"):
        with logging_to_server(tmp_path, "users create"):
            logging.getLogger(ACCOUNTS).info(name)
        if name == "berta":
            path.write_bytes(path.read_bytes()[:-20])
    caplog.clear()
    for _ in range(2):
        log_pending(tmp_path)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "INFO"]
    assert [record.message for record in caplog.records][::2] == ["anna", "clara"]
    assert path.read_bytes() == b""
