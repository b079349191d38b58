"""The command `imagehost migrate`."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result
from psycopg.conninfo import conninfo_to_dict
from tests.object_store import S3Server, shared_s3_server
from tests.postgres import PostgresServer

from imagehost_core import ImageHost, Settings
from imagehost_core.settings import RenderingSettings
from imagehost_core.testing import make_image
from imagehost_server.cli.main import main

COMMAND = [sys.executable, "-m", "imagehost_server"]
SETTINGS = Settings(rendering=RenderingSettings(processes=1))
PASSWORD = "correct-horse"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a host with three images, open nowhere."""
    with ImageHost.open(tmp_path / "data", settings=SETTINGS) as host:
        for seed in range(3):
            host.upload(make_image(40, 30, seed=seed), owner="admin")
    return tmp_path / "data"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["migrate", *map(str, arguments)])


def images_of(data: Path) -> list[object]:
    with ImageHost.open(data, settings=SETTINGS) as host:
        return [(image, host.render(image.id).data) for image in host.images.iter(owner="admin")]


def test_a_host_is_migrated_to_another_directory_and_named_there(data: Path, tmp_path: Path) -> None:
    expected, target = images_of(data), tmp_path / "target"
    result = run("--from", data, "--to", target)
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"Migrated to {target}: 3 images, " in result.stderr
    assert f"imagehost serve --data {target}" in result.stderr
    assert images_of(target) == expected
    again = run("--to", target, "--from", data)
    assert (again.exit_code, again.stdout) == (0, "")
    assert f"was migrated to {target} before: 3 images" in again.stderr


def test_the_result_is_one_json_object(data: Path, tmp_path: Path) -> None:
    result = run("--from", data, "--to", tmp_path / "target", "--json")
    assert result.stderr == ""
    values = json.loads(result.stdout)
    assert values.pop("row_count") > 10
    assert values == {
        "from": str(data),
        "to": str(tmp_path / "target"),
        "image_count": 3,
        "copied": 3,
        "present": 0,
        "damaged": [],
        "incomplete": [],
    }


def test_the_exit_status_is_3_if_files_are_damaged(data: Path, tmp_path: Path) -> None:
    master = next((data / "images").rglob("master"))
    master.write_bytes(b"other")
    result = run("--from", data, "--to", tmp_path / "target")
    assert result.exit_code == 3
    assert f"missing or damaged: 1 image: {master.parent.name}" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "{data}", "--to", "{data}"], "expected another database"),
        (["--from", "{data}", "--to", "a", "b"], "expected one data directory for --to"),
        (["--from", "{data}/missing", "--to", "a"], "has no database"),
        (["--from", "{data}", "--to", "s3://bucket/x"], "expected a data directory or postgresql"),
        (["--from", "{data}", "--to", "file:///x"], "received a URL with file://"),
    ],
)
def test_a_mistyped_command_is_an_error_and_creates_nothing(
    data: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    before = sorted(data.rglob("*"))
    result = run(*(argument.format(data=data) for argument in arguments))
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr
    assert list(empty.iterdir()) == []
    assert sorted(path for path in data.rglob("*") if "migrate-" not in path.name) == [
        path for path in before if "migrate-" not in path.name
    ]


def test_progress_is_shown_on_a_terminal(data: Path, tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "migrate", "--from", str(data), "--to", str(tmp_path / "target")], stderr=terminal
    )
    os.close(terminal)
    shown = b""
    try:
        while chunk := os.read(controller, 4096):
            shown += chunk
    except OSError:
        # Linux reports the end of the other side so.
        pass
    assert process.wait() == 0
    assert b"Copying files" in shown
    assert b"3/3 images" in shown
    assert b"Copying records" in shown


def test_an_interrupted_command_can_be_repeated(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    expected = images_of(data)
    program = (
        "import os, signal, sys\n"
        "from imagehost_server.cli.main import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def interrupt(event, arguments):\n"
        "    if event == 'os.rename' and '/images/' in str(arguments[1]):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.addaudithook(interrupt)\n"
        "main()\n"
    )
    arguments = ["migrate", "--from", str(data), "--to", str(target), "--threads", "1"]
    process = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, check=False)
    assert (process.returncode, process.stdout) == (128 + signal.SIGINT, b"")
    assert process.stderr == b"Interrupted: repeat the command to continue\n"
    assert images_of(data) == expected
    result = run("--from", data, "--to", target, "--json")
    assert json.loads(result.stdout)["present"] >= 1
    assert images_of(target) == expected


@pytest.fixture(scope="module")
def s3_server() -> Iterator[S3Server]:
    with shared_s3_server() as server:
        yield server


@pytest.mark.external
def test_passwords_are_in_no_output_and_no_file_of_a_migration(
    data: Path, tmp_path: Path, postgres_server: PostgresServer, s3_server: S3Server
) -> None:
    expected = images_of(data)
    with postgres_server.empty_database() as url:
        secret_url = url.replace("postgres@", f"postgres:{PASSWORD}@")
        bucket = s3_server.url()
        results = [
            run("--from", data, "--to", secret_url, bucket),
            run("--from", data, "--to", secret_url, bucket, "--json"),
            run("--from", data, "--to", tmp_path / "other"),
            run("--from", secret_url, bucket, "--to", tmp_path / "back"),
            run("--from", secret_url, bucket, "--to", tmp_path / "other"),
        ]
    assert [result.exit_code for result in results] == [0, 0, 1, 0, 1]
    assert "postgres:***@" in results[0].stderr
    assert all(PASSWORD not in result.output for result in results)
    assert images_of(tmp_path / "back") == expected
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all(PASSWORD.encode() not in path.read_bytes() for path in files)


@pytest.mark.external
def test_the_variables_of_psycopg_complete_the_url_of_the_database(
    data: Path, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres_server.empty_database() as url:
        parts = conninfo_to_dict(url)
        for name, part in (("PGHOST", "host"), ("PGPORT", "port"), ("PGUSER", "user")):
            monkeypatch.setenv(name, str(parts[part]))
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        result = run("--from", data, "--to", f"postgresql:///{parts['dbname']}")
        assert result.exit_code == 0, result.output
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT count(*) FROM images").fetchone() == (3,)
