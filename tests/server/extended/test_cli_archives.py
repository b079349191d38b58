"""The commands `imagehost backup` and `imagehost restore`."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner, Result

from imagehost_core import ImageHost, Settings, to_rfc3339
from imagehost_core.maintenance.backup import BackupInfo
from imagehost_core.settings import RenderingSettings
from imagehost_core.testing import make_image, shared_executor
from imagehost_server.cli.main import main

COMMAND = [sys.executable, "-m", "imagehost_server"]
SETTINGS = Settings(rendering=RenderingSettings(processes=1))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a host with two images, open nowhere."""
    with ImageHost.open(tmp_path / "data", settings=SETTINGS, executor=shared_executor()) as host:
        for seed in range(2):
            host.upload(make_image(40, 30, seed=seed), owner="admin")
    return tmp_path / "data"


def run(*arguments: object, data: Path, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(main, [*map(str, arguments), "--data", str(data)], input=stdin)


def images_of(data: Path) -> list[object]:
    with ImageHost.open(data, settings=SETTINGS, executor=shared_executor()) as host:
        return [(image, host.render(image.id).data) for image in host.images.iter(owner="admin")]


def test_a_backup_file_is_readable_by_its_owner_only_and_restores_the_images(
    data: Path, tmp_path: Path
) -> None:
    file = tmp_path / "backup.tar.zst"
    result = run("backup", file, data=data)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "2 images" in result.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("backup")] == [file.name]
    result = run("restore", file, data=tmp_path / "copy")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "2 images" in result.stderr
    assert images_of(tmp_path / "copy") == images_of(data)


def test_standard_output_is_the_backup_and_standard_input_restores_several(
    data: Path, tmp_path: Path
) -> None:
    base = run("backup", "-", data=data)
    with ImageHost.open(data, settings=SETTINGS, executor=shared_executor()) as host:
        host.upload(make_image(20, 20), owner="admin")
    time = base.stderr.split("--since ")[1].split()[0]
    increment = run("backup", "-", "--since", time, data=data)
    assert to_rfc3339(BackupInfo.read(io.BytesIO(base.stdout_bytes)).created_at) == time
    both = base.stdout_bytes + increment.stdout_bytes
    assert run("restore", "-", data=tmp_path / "copy", stdin=both).exit_code == 0
    assert images_of(tmp_path / "copy") == images_of(data)


def test_the_file_of_the_previous_backup_stands_for_its_time(data: Path, tmp_path: Path) -> None:
    base, increment = tmp_path / "base", tmp_path / "increment"
    assert run("backup", base, data=data).exit_code == 0
    assert run("backup", increment, "--since", base, data=data).exit_code == 0
    with base.open("rb") as first, increment.open("rb") as second:
        assert BackupInfo.read(second).since == BackupInfo.read(first).created_at
    assert run("restore", base, increment, data=tmp_path / "copy").exit_code == 0


def test_a_host_whose_disk_refuses_uploads_can_be_backed_up(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMAGEHOST_STORAGE_MIN_FREE_BYTES", str(10**17))
    result = run("backup", tmp_path / "backup", data=data)
    assert (result.exit_code, ": 2 images" in result.stderr) == (0, True)


def test_an_increment_since_the_first_of_all_times_has_all_images(data: Path, tmp_path: Path) -> None:
    result = run("backup", tmp_path / "all", "--since", "0001-01-01T00:00:00Z", data=data)
    assert (result.exit_code, ": 2 images" in result.stderr) == (0, True)


@pytest.mark.parametrize("since", ["yesterday", "2026-11-20T00:00:00", "9999-01-01T00:00:00Z", "1d", ""])
def test_an_unknown_time_is_an_error_and_writes_no_file(data: Path, tmp_path: Path, since: str) -> None:
    result = run("backup", tmp_path / "backup", "--since", since, data=data)
    assert result.exit_code == 1
    assert "since" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_failed_backup_leaves_the_previous_file(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    file.write_bytes(b"previous")
    (data / "secret").unlink()
    (data / "secret").mkdir()
    assert run("backup", file, data=data).exit_code == 1
    assert file.read_bytes() == b"previous"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "data"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has this device")
def test_a_backup_to_a_full_disk_is_an_error(data: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [*COMMAND, "backup", "-", "--data", str(data)]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 1
    assert "not enough storage space" in result.stderr
    assert "Backed up" not in result.stderr


def test_a_pipe_or_a_directory_is_not_replaced(data: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for target in (tmp_path / "pipe", tmp_path):
        assert run("backup", target, data=data).exit_code == 1
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "pipe"]


def test_a_symbolic_link_to_a_file_stays_one(data: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "target").write_bytes(b"")
    assert run("backup", tmp_path / "link", data=data).exit_code == 0
    assert (tmp_path / "link").is_symlink()
    assert run("restore", tmp_path / "target", data=tmp_path / "copy").exit_code == 0


def test_damaged_images_are_named_and_change_the_exit_status(data: Path, tmp_path: Path) -> None:
    master = next((data / "images").rglob("master"))
    master.unlink()
    result = run("backup", tmp_path / "backup", data=data)
    assert result.exit_code == 3
    assert master.parent.name in result.stderr
    result = run("restore", tmp_path / "backup", data=tmp_path / "copy")
    assert result.exit_code == 0
    assert master.parent.name in result.stderr
    assert len(images_of(tmp_path / "copy")) == 1


def test_results_can_be_printed_as_json(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    result = run("backup", file, "--json", data=data)
    with file.open("rb") as stream:
        info = BackupInfo.read(stream)
    values = json.loads(result.stdout)
    assert values.pop("bytes") > 0
    time = to_rfc3339(info.created_at)
    assert values == {"created_at": time, "since": None, "images": 2, "deleted": [], "damaged": []}
    next((data / "images").rglob("master")).unlink()
    result = run("backup", file, "--since", time, "--json", data=data)
    assert result.exit_code == 3
    [damaged] = json.loads(result.stdout)["damaged"]
    assert json.loads(result.stdout)["since"] == time
    assert run("backup", file, data=data).exit_code == 3
    values = json.loads(run("restore", file, "--json", data=tmp_path / "copy").stdout)
    assert (values["images"], values["removed"]) == (1, [damaged])
    result = run("backup", "-", "--json", data=data)
    assert (result.exit_code, result.stdout) == (1, "")


@pytest.fixture
def terminal() -> Iterator[int]:
    """A terminal."""
    controller, device = pty.openpty()
    yield device
    os.close(controller)
    os.close(device)


def test_a_terminal_is_neither_a_backup_nor_a_place_for_one(
    data: Path, tmp_path: Path, terminal: int
) -> None:
    to_terminal = [*COMMAND, "backup", "-", "--data", str(data)]
    result = subprocess.run(to_terminal, stdout=terminal, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 1
    assert "terminal" in result.stderr
    from_terminal = [*COMMAND, "restore", "-", "--data", str(tmp_path / "copy")]
    result = subprocess.run(from_terminal, stdin=terminal, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "terminal" in result.stderr
    assert not (tmp_path / "copy").exists()


def test_a_bar_shows_the_progress_on_a_terminal_only(data: Path, tmp_path: Path) -> None:
    controller, device = pty.openpty()
    subprocess.run([*COMMAND, "backup", tmp_path / "backup", "--data", data], stderr=device, check=True)
    assert b"2/2" in os.read(controller, 10_000)
    os.close(controller)
    os.close(device)
    assert "2/2" not in run("backup", tmp_path / "backup", data=data).stderr


@pytest.mark.parametrize("content", [b"", b"no backup"])
def test_a_file_that_is_no_backup_is_an_error_and_creates_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    result = run("restore", tmp_path / "file", data=tmp_path / "copy")
    assert result.exit_code == 1
    assert "Traceback" not in result.stderr
    assert run("restore", tmp_path / "missing", data=tmp_path / "copy").exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_data_directory_with_a_host_is_not_restored_to(data: Path, tmp_path: Path) -> None:
    assert run("backup", tmp_path / "backup", data=data).exit_code == 0
    result = run("restore", tmp_path / "backup", data=data)
    assert result.exit_code == 1
    assert "empty" in result.stderr
    assert len(images_of(data)) == 2


KILLED_BEFORE_RENAME = """
    import os, signal, sys
    from imagehost_server.cli.main import main

    def die(event, arguments):
        if event == "os.rename" and str(arguments[0]).endswith(".part"):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(die)
    main()
"""


def test_a_killed_backup_leaves_no_file_and_the_next_one_needs_no_cleaning(
    data: Path, tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    killed = [sys.executable, "-c", dedent(KILLED_BEFORE_RENAME), "backup", str(file), "--data", str(data)]
    assert subprocess.run(killed, check=False).returncode == -9
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.part", "data"]
    assert run("backup", file, data=data).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "data"]


def test_an_interrupted_restore_is_not_served(data: Path, tmp_path: Path) -> None:
    (tmp_path / "copy" / "restoring").mkdir(parents=True)
    result = run("serve", "--port", "0", data=tmp_path / "copy")
    assert result.exit_code == 1
    assert "restore" in result.stderr
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["restoring"]
    assert run("backup", tmp_path / "backup", data=data).exit_code == 0
    assert run("restore", tmp_path / "backup", data=tmp_path / "copy").exit_code == 0


def test_a_backup_is_synced_before_and_after_it_replaces_another(
    data: Path, tmp_path: Path, system_calls: list[str]
) -> None:
    (tmp_path / "to").mkdir()
    for _ in range(2):
        system_calls.clear()
        assert run("backup", tmp_path / "to" / "file", data=data).exit_code == 0
        renamed = system_calls.index("rename file.part file")
        assert system_calls[renamed - 1 : renamed + 2] == [
            "sync file.part",
            "rename file.part file",
            "sync to",
        ]


def test_a_restored_host_is_synced_before_and_after_its_database_is_in_place(
    data: Path, tmp_path: Path, system_calls: list[str]
) -> None:
    backup = tmp_path / "file"
    run("backup", backup, data=data)
    system_calls.clear()
    assert run("restore", backup, data=tmp_path / "restored").exit_code == 0
    published = system_calls.index("rename imagehost.sqlite3 imagehost.sqlite3")
    first = system_calls.index("rename images images")
    assert "syncfs restoring" in system_calls[:first]
    assert "sync restored" in system_calls[first:published]
    assert "sync restored" in system_calls[published:]
