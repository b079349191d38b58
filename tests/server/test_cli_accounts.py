"""The commands `imagehost users` and `imagehost keys`."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.open_host import open_host

from imagehost_core import NotFoundError, RateLimitError, UnauthorizedError
from imagehost_core.models import AccountLimits
from imagehost_core.settings import settings_from_environment
from imagehost_core.testing import make_image
from imagehost_server.auth.passwords import verify_password
from imagehost_server.cli.bootstrap import create_initial_credentials
from imagehost_server.cli.main import main
from imagehost_server.settings import load


def run(data: Path, *args: str, stdin: str = "", status: int = 0) -> str:
    """Run a command in this process; return its standard output, or its standard error if it fails."""
    result = CliRunner().invoke(main, [*args, "--data", str(data)], input=stdin)
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else result.stderr


@pytest.fixture
def data(tmp_path: Path) -> Path:
    open_host(tmp_path / "data").close()
    return tmp_path / "data"


def test_users_are_created_and_listed(data: Path) -> None:
    assert re.fullmatch(r"[0-9A-Za-z]{20}\n", run(data, "users", "create", "ada"))
    rows = [line.split() for line in run(data, "users", "list").splitlines()]
    assert [(row[0], *row[2:]) for row in rows] == [
        ("name", "images", "bytes", "state", "role"),
        ("ada", "0", "0", "active", "user"),
        ("admin", "0", "0", "active", "operator"),
    ]
    error = run(data, "users", "create", "ada", status=1)
    assert error.startswith("Error: ")
    assert "ada" in error


def test_accounts_are_sorted_by_what_their_images_occupy(data: Path) -> None:
    with open_host(data) as host:
        for name, side in (("ada", 2_000), ("ben", 40), ("cid", 400)):
            image = host.upload(make_image(side, side), owner=host.accounts.get_or_create(name))
        host.render(image.id, "w=50")
    listed = json.loads(run(data, "users", "list", "--disk", "--sort", "bytes", "--json"))["accounts"]
    assert [row["name"] for row in listed] == ["ada", "cid", "ben", "admin"]
    assert listed[0]["derivative_bytes"] > 0
    assert [row["variant_bytes"] > 0 for row in listed] == [False, True, False, False]
    assert listed[1]["bytes"] == image.size
    lines = run(data, "users", "list", "--sort", "bytes").splitlines()
    assert [line.split()[0] for line in lines] == ["name", "ada", "cid", "ben", "admin"]
    assert len({line.index("active") for line in lines[1:]} | {lines[0].index("state")}) == 1


def test_a_password_is_generated_or_prompted_for(data: Path) -> None:
    generated = run(data, "users", "create", "ada").splitlines()[-1]
    with open_host(data) as host:
        assert verify_password(host.accounts.password_hash("ada"), generated)
        session = host.sessions.create(host.accounts.get("ada"))
    chosen = "correct horse"
    assert chosen not in run(data, "users", "set-password", "ada", stdin=f"{chosen}\n{chosen}\n")
    with open_host(data) as host:
        assert verify_password(host.accounts.password_hash("ada"), chosen)
        assert not verify_password(host.accounts.password_hash("ada"), generated)
        with pytest.raises(UnauthorizedError):
            host.authenticate(session.token)
    other = run(data, "users", "set-password", "ada", "--generate").splitlines()[-1]
    with open_host(data) as host:
        assert verify_password(host.accounts.password_hash("ada"), other)


def test_all_signed_urls_of_an_account_are_ended(data: Path) -> None:
    with open_host(data, settings=load(data, {}, {})[0]) as host:
        image = host.upload(make_image(8, 8), owner="admin", is_public=False)
        path, _, query = host.images.signed_url(image).url.rpartition("/")[2].partition("?")
        assert host.delivery.resolve(path, query).image == image
        assert run(data, "users", "renew-signing-secret", "Admin") == ""
        with pytest.raises(NotFoundError):
            host.delivery.resolve(path, query)
    assert "unknown" in run(data, "users", "renew-signing-secret", "unknown", status=1)


def test_a_password_that_is_too_short_is_an_error_without_the_password(data: Path) -> None:
    error = run(data, "users", "create", "ada", "--prompt", stdin="hunter2\nhunter2\n", status=1)
    assert "at least 8 characters" in error
    assert "hunter2" not in error
    with open_host(data) as host, pytest.raises(NotFoundError):
        host.accounts.get("ada")


def test_an_account_can_be_suspended_and_its_suspension_ended(data: Path) -> None:
    run(data, "users", "create", "ada")
    token = run(data, "keys", "create", "--user", "ada").strip()
    assert "suspended=true" in run(data, "users", "update", "ada", "--suspend")
    assert "suspended" in run(data, "users", "list")
    with open_host(data) as host, pytest.raises(UnauthorizedError):
        host.authenticate(token)
    assert "suspended=false" in run(data, "users", "update", "ada", "--unsuspend")
    with open_host(data) as host:
        assert host.authenticate(token).account.name == "ada"


def test_limits_of_an_account_can_be_overridden_one_by_one(data: Path) -> None:
    run(data, "users", "create", "ada", "--limit", "api_per_minute=5", "--quota", "0")
    with open_host(data) as host:
        ada = host.accounts.get("ada")
    assert (ada.limits, ada.quota_bytes) == (AccountLimits(api_per_minute=5), 0)
    output = run(data, "users", "update", "ada", "--limit", "api_per_hour=7", "--quota", "default")
    assert output.split() == [
        "role=user",
        "suspended=false",
        "api_per_minute=5",
        "api_per_hour=7",
        "api_per_day=default",
        "uploads_per_minute=default",
        "bulk_ids_per_minute=default",
        "quota_bytes=default",
    ]
    with open_host(data) as host:
        assert host.accounts.get("ada").limits == AccountLimits(api_per_minute=5, api_per_hour=7)


@pytest.mark.parametrize(
    "wrong", ["api_per_minute", "api_per_minute=", "api_per_minute=-1", "quota_bytes=1", "speed=1", "=", "²"]
)
def test_an_invalid_limit_is_an_error(data: Path, wrong: str) -> None:
    error = run(data, "users", "update", "admin", "--limit", wrong, status=1)
    assert "expected LIMIT=NUMBER or LIMIT=default for --limit, where LIMIT is one of api_per_minute" in error


def test_the_command_of_a_429_raises_the_limit_of_the_account(data: Path) -> None:
    run(data, "users", "create", "ada", "--limit", "uploads_per_minute=1")
    with open_host(data) as host:
        account = host.accounts.get("ada")
        host.rate_limiter.admit(account, upload=True)
        refused = host.rate_limiter.admit(account, upload=True)
        with pytest.raises(RateLimitError) as caught:
            refused.raise_if_refused(host.now(), account.name)
    command = re.search("`imagehost (.+) --data DIR`", caught.value.details)
    assert command is not None
    assert "uploads_per_minute=10" in run(data, *command[1].split())
    setting = re.search("the setting (IMAGEHOST_[A-Z_]+)", caught.value.details)
    assert setting is not None
    limits = settings_from_environment({setting[1]: "7"}).limits
    assert limits.uploads_per_minute == 7


def test_the_first_start_prints_the_command_that_raises_the_limit_of_uploads(tmp_path: Path) -> None:
    data = tmp_path / "my data"
    with open_host(data, settings=load(data, {}, {})[0]) as host:
        credentials = create_initial_credentials(host, data)
    assert credentials is not None
    *_, line = credentials.text().splitlines()
    name, *arguments = shlex.split(line)
    assert (name, arguments[-1]) == ("imagehost", str(data))
    assert "uploads_per_minute=100" in run(data, *arguments[:-2])


@pytest.mark.parametrize(
    ("text", "quota"),
    [
        ("7", 7),
        ("10GiB", 10 * 2**30),
        ("3KiB", 3_072),
        ("1MB", 1_000_000),
        ("1.5GiB", 3 * 2**29),
        ("0", 0),
        ("default", None),
    ],
)
def test_a_quota_is_a_size(data: Path, text: str, quota: int | None) -> None:
    run(data, "users", "update", "admin", "--quota", text)
    with open_host(data) as host:
        assert host.accounts.get("admin").quota_bytes == quota


@pytest.mark.parametrize("wrong", ["", "-1", "1.0001kiB", "1.00001kB", "10G", "GiB", "²", "9999999999TiB"])
def test_an_invalid_quota_is_an_error(data: Path, wrong: str) -> None:
    error = run(data, "users", "update", "admin", f"--quota={wrong}", status=1)
    assert "quota" in error


def test_roles_are_given_and_taken_and_the_last_operator_stays(data: Path) -> None:
    assert "expected another operator" in run(data, "users", "update", "admin", "--role", "user", status=1)
    run(data, "users", "create", "ada", "--role", "operator")
    assert "role=user" in run(data, "users", "update", "admin", "--role", "user")
    for change in (("update", "ada", "--suspend"), ("delete", "ada", "--yes")):
        assert "expected another operator" in run(data, "users", *change, status=1)


def test_an_account_is_deleted_with_all_its_images_after_confirmation(data: Path) -> None:
    with open_host(data) as host:
        image = host.upload(make_image(8, 8), owner=host.accounts.get_or_create("ada"))
    declined = CliRunner().invoke(main, ["users", "delete", "ada", "--data", str(data)], input="n\n")
    assert (declined.exit_code, "1 image (" in declined.stderr) == (1, True)
    output = run(data, "users", "delete", "ada", stdin="y\n")
    assert output == f"Deleted ada with 1 image ({image.size} bytes), 0 albums, 0 API keys and 0 webhooks\n"
    with open_host(data) as host, pytest.raises(NotFoundError):
        host.images.get(image.id)
    assert "unknown" in run(data, "users", "delete", "unknown", "--yes", status=1)


def test_keys_create_prints_only_the_token_of_a_key_with_the_named_scopes(data: Path) -> None:
    flags = ("--name", "phone", "--scope", "images:read", "--scope", "albums:read")
    token = run(data, "keys", "create", "--user", "admin", *flags)
    assert re.fullmatch(r"ihk_[0-9A-Za-z]{36}\n", token)
    with open_host(data) as host:
        principal = host.authenticate(token.strip())
        (key,) = host.keys.list(owner="admin")
    assert {scope.value for scope in principal.scopes} == {"images:read", "albums:read"}
    assert key.name == "phone"
    unknown = CliRunner().invoke(main, ["keys", "create", "--user", "unknown", "--data", str(data)])
    assert (unknown.exit_code, unknown.stdout) == (1, "")


@pytest.mark.parametrize(
    ("expires", "duration"),
    [
        ("40s", timedelta(seconds=40)),
        ("30m", timedelta(minutes=30)),
        ("12h", timedelta(hours=12)),
        ("90d", timedelta(days=90)),
    ],
)
def test_a_key_expires_after_a_duration_or_at_a_timestamp(
    data: Path, expires: str, duration: timedelta
) -> None:
    run(data, "keys", "create", "--user", "admin", "--expires", expires)
    run(data, "keys", "create", "--user", "admin", "--expires", "2100-01-02T03:04:05Z")
    with open_host(data) as host:
        at_timestamp, after_duration = host.keys.list(owner="admin")
    assert at_timestamp.expires_at == datetime(2100, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert after_duration.expires_at is not None
    assert abs(after_duration.expires_at - after_duration.created_at - duration) < timedelta(seconds=10)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "soon",
        "2000-01-01T00:00:00Z",
        "2100-01-01T00:00:00",
        "999999999d",
        "99999999999999999d",
        "0d",
        "²d",
        "30",
    ],
)
def test_an_invalid_expiry_is_an_error(data: Path, wrong: str) -> None:
    assert "expires" in run(data, "keys", "create", "--user", "admin", "--expires", wrong, status=1)


def test_the_error_of_an_invalid_expiry_names_both_forms(data: Path) -> None:
    error = run(data, "keys", "create", "--user", "admin", "--expires", "soon", status=1)
    assert "a duration like 30m, 12h or 90d, or a timestamp like " in error


def test_keys_are_listed_with_their_state_and_can_be_revoked(data: Path) -> None:
    tokens = [run(data, "keys", "create", "--user", "admin", "--name", f"key\t{n}").strip() for n in range(3)]
    with open_host(data) as host:
        ids = [key.id for key in host.keys.list(owner="admin")]
    run(data, "keys", "delete", "--user", "admin", ids[0])
    rows = [line.split("\t") for line in run(data, "keys", "list", "--user", "admin").splitlines()]
    assert [row[0] for row in rows] == ids
    assert [row[2] for row in rows] == ["revoked", "active", "active"]
    assert [row[-1] for row in rows] == ["key?2", "key?1", "key?0"]
    assert all(row[3:5] == ["never", "never"] for row in rows)
    assert not any(token in row for token in tokens for row in rows)
    with open_host(data) as host, pytest.raises(UnauthorizedError):
        host.authenticate(tokens[2])
    run(data, "users", "create", "ada")
    assert "expected the id of one of your API keys" in run(
        data, "keys", "delete", "--user", "ada", ids[1], status=1
    )


def test_more_keys_than_one_page_are_all_listed(data: Path) -> None:
    with open_host(data) as host:
        for _ in range(101):
            host.keys.create(owner="admin")
    assert len(run(data, "keys", "list", "--user", "admin").splitlines()) == 101
