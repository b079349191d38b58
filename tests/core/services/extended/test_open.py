"""Opening and closing a host: data directories, temporary hosts, several processes, failures."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.core.services.conftest import Stores

from imagehost_core import ImageHost, InternalError, NotFoundError, Settings, UnavailableError
from imagehost_core.pixels import codecs
from imagehost_core.settings import RenderingSettings
from imagehost_core.testing import make_image

if TYPE_CHECKING:
    from tests.programs import Program

ONE_WORKER = Settings(rendering=RenderingSettings(processes=1))
PNG = make_image(40, 30)


def test_a_new_data_directory_has_the_account_admin_and_nothing_else(tmp_path: Path) -> None:
    with ImageHost.open(tmp_path / "deep" / "data", settings=ONE_WORKER) as host:
        assert [account.name for account in host.accounts.list()] == ["admin"]
        assert host.images.list(owner="admin").total == 0
        host.maintenance.check_ready()
        assert host.settings is ONE_WORKER


def test_stored_images_are_there_when_the_directory_is_opened_again(tmp_path: Path) -> None:
    with ImageHost.open(str(tmp_path), settings=ONE_WORKER) as host:
        image = host.upload(PNG, owner="admin", convert_to_webp=False)
        host.accounts.create("second")
    with ImageHost.open(tmp_path, settings=ONE_WORKER) as host:
        assert host.images.get(image.id) == image
        assert host.render(image.id).data == PNG
        assert [account.name for account in host.accounts.list()] == ["second", "admin"]


def test_a_temporary_host_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with ImageHost.open(":memory:", settings=ONE_WORKER) as host:
        image = host.upload(PNG, owner="admin")
        assert host.render(image.id, "w=10").width == 10
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []
    assert not Path(":memory:").exists()


def test_close_ends_all_processes_and_files_and_can_be_called_twice(tmp_path: Path) -> None:
    def held() -> set[str]:
        return {str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.exists()}

    with ImageHost.open(tmp_path, settings=ONE_WORKER) as host:
        host.upload(PNG, owner="admin")
        assert any(str(tmp_path) in path for path in held())
        host.close()
        with (tmp_path / "another").open("wb") as file:
            host.close()
            file.write(b"still open")
    assert not any(str(tmp_path) in path for path in held())
    assert list((tmp_path / "staging").iterdir()) == []


def test_a_failed_open_leaves_no_file_or_process_open(tmp_path: Path) -> None:
    (tmp_path / "imagehost.sqlite3").write_bytes(b"this is not a database, but it is long enough" * 100)
    with pytest.raises(
        InternalError, match=r"expected a database at .* but received: file is not a database"
    ):
        ImageHost.open(tmp_path, settings=ONE_WORKER)
    assert list((tmp_path / "staging").iterdir()) == []
    (tmp_path / "imagehost.sqlite3").unlink()
    with ImageHost.open(tmp_path, settings=ONE_WORKER) as host:
        host.maintenance.check_ready()


def test_each_open_syncs_the_data_directory_as_an_earlier_one_may_have_failed_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    ImageHost.open(tmp_path, settings=ONE_WORKER).close()
    monkeypatch.setattr(os, "fsync", record)
    ImageHost.open(tmp_path, settings=ONE_WORKER).close()
    assert tmp_path.stat().st_ino in synced


def test_the_signing_secret_is_synced_before_and_after_its_rename(
    tmp_path: Path, system_calls: list[str]
) -> None:
    """With one that a crash has left empty, anyone could sign."""
    ImageHost.open(tmp_path / "data", settings=ONE_WORKER).close()
    renamed = system_calls.index("rename secret.part secret")
    assert "sync secret.part" in system_calls[:renamed]
    assert "sync data" in system_calls[renamed:]


def test_a_file_in_place_of_the_data_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="file"):
        ImageHost.open(tmp_path / "file", settings=ONE_WORKER)


def test_check_ready_is_503_when_a_store_does_not_respond(
    opened: Callable[..., ImageHost], tmp_path: Path
) -> None:
    host = opened()
    (tmp_path / "data" / "staging").rename(tmp_path / "data" / "away")
    with pytest.raises(UnavailableError, match=r"no response from data directory$"):
        host.maintenance.check_ready()
    (tmp_path / "data" / "away").rename(tmp_path / "data" / "staging")
    host.maintenance.check_ready()


def test_two_hosts_of_one_process_share_a_data_directory(opened: Callable[..., ImageHost]) -> None:
    first, second = opened(), opened()
    image = first.upload(PNG, owner="admin")
    assert second.images.get(image.id) == image
    assert second.render(image.id, "w=10") == first.render(image.id, "w=10")
    second.images.delete(image.id)
    with pytest.raises(NotFoundError):
        first.render(image.id, "w=10")


def test_two_processes_can_open_a_new_directory_at_the_same_time(
    tmp_path: Path, program: Callable[..., Program]
) -> None:
    text = """
        import sys
        from imagehost_core import ImageHost
        print("ready")
        sys.stdin.readline()
        with ImageHost.open(sys.argv[1]) as host:
            print(*[account.name for account in host.accounts.list()])
    """
    both = [program(text, tmp_path / "data") for _ in range(2)]
    assert [each.read_line() for each in both] == ["ready", "ready"]
    for each in both:
        each.write_line()
    first, second = (each.read_line() for each in both)
    assert first == second
    assert first == "admin"
    assert [each.end() for each in both] == [0, 0]


def test_staged_files_of_a_killed_process_are_removed_at_the_next_open(
    tmp_path: Path, program: Callable[..., Program], stored_files: Callable[[Path], list[str]]
) -> None:
    receiving = program(
        """
        import sys
        from imagehost_core import ImageHost
        with ImageHost.open(sys.argv[1]) as host, host.uploads.stage() as staged:
            staged.write(bytes(1000))
            print("received")
            sys.stdin.readline()
        """,
        tmp_path,
    )
    assert receiving.read_line() == "received"
    with ImageHost.open(tmp_path, settings=ONE_WORKER):
        assert len(stored_files(tmp_path)) == 1
    receiving.kill()
    with ImageHost.open(tmp_path, settings=ONE_WORKER):
        assert stored_files(tmp_path) == []


def test_a_generation_that_a_crash_left_odd_is_repaired_at_the_next_open(
    opened: Callable[..., ImageHost],
    stores: Stores,
) -> None:
    host = opened()
    image = host.upload(PNG, owner="admin")
    change = stores(host).files.generations.bump(image.id)
    change.__enter__()
    host.delivery.resolve(image.id)
    assert host.delivery.resolve_cached(image.id) is None
    opened()
    host.delivery.resolve(image.id)
    assert host.delivery.resolve_cached(image.id) is not None
    change.__exit__(None, None, None)


def test_five_lines_embed_the_core_without_a_main_guard(tmp_path: Path) -> None:
    script = tmp_path / "five.py"
    script.write_text(
        "from imagehost_core import ImageHost\n"
        "from imagehost_core.testing import make_image\n"
        'with ImageHost.open("data") as host:\n'
        '    image = host.upload(make_image(), owner="admin")\n'
        '    print(host.render(image.id, "w=80&fm=avif").media_type)\n'
    )
    reported = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (reported.stdout, reported.stderr) == ("image/avif\n", "")


@pytest.mark.parametrize(
    ("resampler", "chroma", "lines", "fallbacks"),
    [
        ("native", "sharp", 0, 0),
        ("pillow", "sharp", 1, 1),
        ("native", "encoder", 1, 1),
        ("pillow", "encoder", 1, 2),
    ],
)
def test_missing_native_modules_are_logged_in_one_line(
    resampler: str,
    chroma: str,
    lines: int,
    fallbacks: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(codecs, "RESAMPLER", resampler)
    monkeypatch.setattr(codecs, "CHROMA_SUBSAMPLING", chroma)
    caplog.set_level("INFO")
    with ImageHost.open(":memory:", settings=ONE_WORKER):
        assert caplog.text.count("C extensions of imagehost-core not built") == lines
        assert caplog.text.count("falls back") == fallbacks
