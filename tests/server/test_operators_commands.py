"""The commands for accounts and keys, each run as an operator runs it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from imagehost_core import ImageHost, NotFoundError, UnauthorizedError
from imagehost_core.models import LimitOverrides
from imagehost_core.testing import make_image
from imagehost_server.auth.passwords import verify_password
from imagehost_server.cli.main import main

Cli = Callable[..., subprocess.CompletedProcess[str]]


def run(data: Path, *words: str, given: str = "", status: int = 0) -> str:
    """Run a command in this process; return what it printed on standard output."""
    done = CliRunner().invoke(main, [*words, "--data", str(data)], input=given)
    assert done.exit_code == status, done.output
    return done.stdout if status == 0 else done.stderr


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_users_are_made_and_listed(data: Path, imagehost: Cli) -> None:
    made = imagehost("users", "create", "ada", "--data", data)
    assert re.fullmatch(r"[0-9A-Za-z]{20}\n", made.stdout)
    rows = [line.split("\t") for line in imagehost("users", "list", "--data", data).stdout.splitlines()]
    assert [(row[0], *row[2:]) for row in rows] == [
        ("ada", "0", "0", "active"),
        ("admin", "0", "0", "active"),
    ]
    again = imagehost("users", "create", "ada", "--data", data, check=False)
    assert (again.returncode, again.stdout) == (1, "")
    assert "ada" in again.stderr
    assert "Traceback" not in again.stderr


def test_a_password_is_made_or_asked_for_and_never_taken_from_the_words_of_the_command(data: Path) -> None:
    made = run(data, "users", "create", "ada").splitlines()[-1]
    with ImageHost.open(data) as host:
        assert verify_password(host.accounts.password_hash("ada"), made)
        session = host.sessions.create(host.accounts.get("ada"))
    asked = "correct horse"
    assert asked not in run(data, "users", "set-password", "ada", given=f"{asked}\n{asked}\n")
    with ImageHost.open(data) as host:
        assert verify_password(host.accounts.password_hash("ada"), asked)
        assert not verify_password(host.accounts.password_hash("ada"), made)
        with pytest.raises(UnauthorizedError):
            host.authenticate(session.token)
    other = run(data, "users", "set-password", "ada", "--generate").splitlines()[-1]
    with ImageHost.open(data) as host:
        assert verify_password(host.accounts.password_hash("ada"), other)


def test_a_password_that_is_too_short_is_refused_and_not_shown(data: Path) -> None:
    told = run(data, "users", "create", "ada", "--prompt", given="hunter2\nhunter2\n", status=1)
    assert "at least 8 characters" in told
    assert "hunter2" not in told
    with ImageHost.open(data) as host, pytest.raises(NotFoundError):
        host.accounts.get("ada")


def test_an_account_is_suspended_and_resumed(data: Path) -> None:
    run(data, "users", "create", "ada")
    token = run(data, "keys", "create", "--user", "ada").strip()
    run(data, "users", "suspend", "ada")
    assert "suspended" in run(data, "users", "list")
    with ImageHost.open(data) as host, pytest.raises(UnauthorizedError):
        host.authenticate(token)
    run(data, "users", "resume", "ada")
    with ImageHost.open(data) as host:
        assert host.authenticate(token).account.name == "ada"


def test_limits_of_an_account_are_set_one_by_one(data: Path) -> None:
    run(data, "users", "create", "ada")
    run(data, "users", "set-limits", "ada", "api_per_minute=5", "quota_bytes=0")
    told = run(data, "users", "set-limits", "ada", "api_per_hour=7", "quota_bytes=default")
    assert told.split() == [
        "api_per_minute=5",
        "api_per_hour=7",
        "api_per_day=default",
        "uploads_per_minute=default",
        "quota_bytes=default",
    ]
    with ImageHost.open(data) as host:
        assert host.accounts.get("ada").limits == LimitOverrides(api_per_minute=5, api_per_hour=7)


@pytest.mark.parametrize(
    "wrong", ["api_per_minute", "api_per_minute=", "api_per_minute=-1", "speed=1", "=", "²"]
)
def test_a_limit_that_makes_no_sense_is_refused(data: Path, wrong: str) -> None:
    assert "expected one of api_per_minute" in run(data, "users", "set-limits", "admin", wrong, status=1)


def test_an_account_is_deleted_with_all_it_has_when_that_is_meant(data: Path) -> None:
    with ImageHost.open(data) as host:
        image = host.upload(make_image(8, 8), owner=host.accounts.get_or_create("ada"))
    told = CliRunner().invoke(main, ["users", "delete", "ada", "--data", str(data)], input="n\n")
    assert (told.exit_code, "1 images" in told.stderr) == (1, True)
    run(data, "users", "delete", "ada", given="y\n")
    with ImageHost.open(data) as host, pytest.raises(NotFoundError):
        host.images.get(image.id)
    assert "nobody" in run(data, "users", "delete", "nobody", "--yes", status=1)


def test_a_key_prints_its_token_alone_and_has_the_scopes_that_are_named(data: Path, imagehost: Cli) -> None:
    flags = ("--name", "phone", "--scope", "images:read", "--scope", "albums:read")
    token = imagehost("keys", "create", "--user", "admin", "--data", data, *flags).stdout
    assert re.fullmatch(r"ihk_[0-9A-Za-z]{36}\n", token)
    with ImageHost.open(data) as host:
        principal = host.authenticate(token.strip())
        (key,) = host.keys.list(owner="admin")
    assert {scope.value for scope in principal.scopes} == {"images:read", "albums:read"}
    assert key.name == "phone"
    nobody = imagehost("keys", "create", "--user", "nobody", "--data", data, check=False)
    assert (nobody.returncode, nobody.stdout) == (1, "")


@pytest.mark.parametrize(
    ("expires", "while_"),
    [("30m", timedelta(minutes=30)), ("12h", timedelta(hours=12)), ("90d", timedelta(days=90))],
)
def test_a_key_ends_after_a_while_or_at_a_time(data: Path, expires: str, while_: timedelta) -> None:
    run(data, "keys", "create", "--user", "admin", "--expires", expires)
    run(data, "keys", "create", "--user", "admin", "--expires", "2100-01-02T03:04:05Z")
    with ImageHost.open(data) as host:
        at, after = host.keys.list(owner="admin")
    assert at.expires_at == datetime(2100, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert after.expires_at is not None
    assert abs(after.expires_at - after.created_at - while_) < timedelta(seconds=10)


@pytest.mark.parametrize(
    "wrong", ["", "soon", "2000-01-01T00:00:00Z", "2100-01-01T00:00:00", "999999d", "0d", "²d"]
)
def test_an_end_that_makes_no_sense_is_refused(data: Path, wrong: str) -> None:
    assert "expires" in run(data, "keys", "create", "--user", "admin", "--expires", wrong, status=1)


def test_keys_are_listed_with_what_became_of_them_and_revoked(data: Path) -> None:
    tokens = [run(data, "keys", "create", "--user", "admin", "--name", f"key {n}").strip() for n in range(3)]
    with ImageHost.open(data) as host:
        ids = [key.id for key in host.keys.list(owner="admin")]
    run(data, "keys", "revoke", "--user", "admin", ids[0])
    rows = [line.split("\t") for line in run(data, "keys", "list", "--user", "admin").splitlines()]
    assert [row[0] for row in rows] == ids
    assert [row[2] for row in rows] == ["revoked", "active", "active"]
    assert [row[-1] for row in rows] == ["key 2", "key 1", "key 0"]
    assert all(row[3:5] == ["never", "never"] for row in rows)
    assert not any(token in row for token in tokens for row in rows)
    with ImageHost.open(data) as host, pytest.raises(UnauthorizedError):
        host.authenticate(tokens[2])
    run(data, "users", "create", "ada")
    assert "expected the id of a key" in run(data, "keys", "revoke", "--user", "ada", ids[1], status=1)


def test_a_hundred_keys_and_one_are_all_listed(data: Path) -> None:
    with ImageHost.open(data) as host:
        for _ in range(101):
            host.keys.create(owner="admin")
    assert len(run(data, "keys", "list", "--user", "admin").splitlines()) == 101
