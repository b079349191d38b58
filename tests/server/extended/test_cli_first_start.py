"""The first start with a password that the operator has chosen."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from imagehost_core import ImageHost, Settings
from imagehost_core.settings import SettingsError
from imagehost_server.auth.passwords import verify_password
from imagehost_server.cli.bootstrap import create_initial_credentials
from imagehost_server.settings import load
from imagehost_server.testing import environment, running, start

PASSWORD = "correct horse battery"


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_password_file_sets_the_password_of_admin(tmp_path: Path, end: str) -> None:
    (tmp_path / "secret").write_text(PASSWORD + end, encoding="utf-8", newline="")
    data = tmp_path / "data"
    with ImageHost.open(data, settings=load(data, {}, {})[0]) as host:
        credentials = create_initial_credentials(host, tmp_path / "data", str(tmp_path / "secret"))
        assert verify_password(host.accounts.password_hash("admin"), PASSWORD)
    assert credentials is not None
    assert credentials.token in credentials.text()
    assert "\n  password" not in credentials.text()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        (b"short7!", "at least 8 characters"),
        (b"\n", "at least 8 characters"),
        (b"a" * 1_025, "at most 1024 bytes"),
        (b"\xff" * 12, "not UTF-8"),
    ],
)
def test_an_unusable_password_file_creates_no_credentials_and_is_not_shown(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    with ImageHost.open(tmp_path / "data") as host:
        with pytest.raises(SettingsError) as caught:
            create_initial_credentials(host, tmp_path / "data", str(path))
        assert host.keys.list(owner="admin").total == 0
        assert host.accounts.password_hash("admin") is None
    assert reason in str(caught.value)
    assert "short7" not in str(caught.value)
    assert "IMAGEHOST_ADMIN_PASSWORD_FILE" in str(caught.value)


def test_the_server_reads_the_password_file_at_its_first_start_only(tmp_path: Path) -> None:
    secret, data = tmp_path / "secret", tmp_path / "data"
    variables = {"IMAGEHOST_ADMIN_PASSWORD_FILE": str(secret)}
    with pytest.raises(RuntimeError, match="No such file"):
        start(data, variables=variables)
    secret.write_text(PASSWORD, encoding="utf-8")
    with running(data, variables=variables) as server:
        assert PASSWORD not in server.output + server.log.read_text(encoding="utf-8")
        assert server.token.startswith("ihk_")
    secret.unlink()
    with running(data, variables=variables):
        pass
    with ImageHost.open(data) as host:
        assert verify_password(host.accounts.password_hash("admin"), PASSWORD)
    settings, _ = load(data, {}, environment(variables) | {"HOME": os.devnull})
    assert settings.admin.password_file == str(secret)


@pytest.mark.external
def test_of_two_hosts_that_start_at_once_on_one_database_one_creates_the_credentials(
    tmp_path: Path, postgres_url: str
) -> None:
    barrier = Barrier(2)
    (tmp_path / "images").mkdir()

    def start_host(name: str) -> str | None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "images").symlink_to(tmp_path / "images")
        with ImageHost.open(
            tmp_path / name, settings=Settings(database=postgres_url, base_url="http://localhost/v1")
        ) as host:
            barrier.wait(30)
            credentials = create_initial_credentials(host, tmp_path / name)
            barrier.wait(30)
            assert [account.name for account in host.accounts.list()] == ["admin"]
            assert host.keys.list(owner="admin").total == 1
            if credentials is not None:
                host.authenticate(credentials.token)
                assert verify_password(host.accounts.password_hash("admin"), credentials.password)
        return None if credentials is None else credentials.token

    with ThreadPoolExecutor(2) as threads:
        tokens = list(threads.map(start_host, ("one", "other")))
    assert tokens.count(None) == 1
