"""SIGKILL at every step of an upload, an update and a deletion."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.core.services.conftest import Stores

from imagehost_core import ImageHost, NotFoundError
from imagehost_core.testing import make_image

if TYPE_CHECKING:
    from types import FrameType

    from tests.core.conftest import Program

PNG = make_image(40, 30)

DIE = """
    import os, signal, sys
    from imagehost_core import ImageHost, Settings
    from imagehost_core.settings import RenderingSettings
    from imagehost_core.testing import make_image

    folder, act = sys.argv[1:3]
    settings = Settings(rendering=RenderingSettings(processes=1))
    steps = {"open", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}
    left = 0

    def die(event, arguments):
        # What an upload does in staging before it has pixels is another test's.
        global left
        path = str(arguments[0]) if event in steps else ""
        if path.startswith(folder) and (act == "delete" or event != "open" or "/images" in path):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def run_forever():
        with ImageHost.open(folder, settings=settings) as host:
            if act == "upload":
                sys.addaudithook(die)
                return host.upload(make_image(40, 30), owner="admin", convert_to_webp=False).id
            image = next(iter(host.images.list(owner="admin")))
            sys.addaudithook(die)
            return host.images.delete(image.id).id

    number, died = 0, 1
    while died:
        number += 1
        print("step", number, flush=True)
        sys.stdin.readline()
        child = os.fork()
        if child == 0:
            left = number
            print("answered", run_forever(), flush=True)
            os._exit(0)
        died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print("died" if died else "lived", flush=True)
"""


def ids(host: ImageHost) -> set[str]:
    return {image.id for image in host.images.list(owner="admin")}


def check_whole(host: ImageHost, folder: Path) -> None:
    """Assert that every record has files, all files have a record, and the usage is their sum."""
    images = list(host.images.list(owner="admin"))
    for image in images:
        assert host.render(image.id).data == PNG
    stored = {path.parent.name for path in (folder / "images").rglob("master")}
    assert stored == {image.id for image in images}
    assert host.accounts.usage("admin").bytes == len(PNG) * len(images)


def test_a_killed_upload_is_complete_or_an_orphan_that_is_collected(
    opened: Callable[..., ImageHost], tmp_path: Path, program: Callable[..., Program]
) -> None:
    folder = tmp_path / "data"
    host = opened()
    uploads = program(DIE, folder, "upload")
    orphans = 0
    while True:
        assert uploads.read_line().startswith("step")
        before = ids(host)
        uploads.write_line()
        outcome = uploads.read_line()
        collected = host.maintenance.collect_garbage().orphans
        assert not set(collected) & ids(host)
        orphans += len(collected)
        check_whole(host, folder)
        if outcome.startswith("answered"):
            assert outcome.split()[1] in ids(host) - before
            break
        assert outcome == "died"
    assert uploads.read_line() == "lived"
    assert orphans > 0, "no kill came between the blob and its record"


def test_a_killed_deletion_has_not_begun_or_is_finished_at_the_next_open(
    opened: Callable[..., ImageHost],
    tmp_path: Path,
    program: Callable[..., Program],
    stored_files: Callable[[Path], list[str]],
    stores: Stores,
) -> None:
    folder = tmp_path / "data"
    host = opened()
    deletions = program(DIE, folder, "delete")
    finished = 0
    while True:
        assert deletions.read_line().startswith("step")
        image = host.upload(PNG, owner="admin", convert_to_webp=False)
        host.render(image.id, "w=10&fm=png")
        deletions.write_line()
        outcome = deletions.read_line()
        with ImageHost.open(folder, settings=host.settings) as again:
            gone = image.id not in ids(again)
            check_whole(again, folder)
            assert bool(stored_files(folder)) is not gone
            if gone:
                finished += outcome == "died"
                with pytest.raises(NotFoundError):
                    host.delivery.resolve(image.id)
            else:
                assert again.render(image.id, "w=10&fm=png").width == 10
                again.images.delete(image.id)
        if outcome != "died":
            assert outcome == f"answered {image.id}"
            break
    assert deletions.read_line() == "lived"
    assert finished > 0, "no kill came between the commit and the last byte"
    assert stores(host).images.tombstones() == ()


@pytest.mark.parametrize("function", ["_record", "put"])
def test_an_interrupt_at_any_line_of_the_last_steps_leaves_no_record_without_bytes_and_no_orphan(
    opened: Callable[..., ImageHost],
    tmp_path: Path,
    stored_files: Callable[[Path], list[str]],
    function: str,
) -> None:
    """Also when it comes after the commit: then the image stays."""
    host = opened()
    host.upload(PNG, owner="admin", convert_to_webp=False)
    left = 0

    def interrupt(frame: FrameType, event: str, _argument: object) -> object:
        nonlocal left
        if frame.f_code.co_name != function:
            return None
        left -= event in ("line", "return")
        if left == 0:
            raise KeyboardInterrupt
        return interrupt

    line, interrupted, tracer = 0, True, sys.gettrace()
    while interrupted:
        line += 1
        left = line
        sys.settrace(interrupt)  # type: ignore[arg-type]
        try:
            host.upload(PNG, owner="admin", convert_to_webp=False)
            interrupted = False
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(tracer)
        assert len(stored_files(tmp_path / "data")) == host.images.list(owner="admin").total
        check_whole(host, tmp_path / "data")
    assert line > 3


def test_a_directory_half_created_by_a_crash_can_be_opened(
    opened: Callable[..., ImageHost], tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "secret.part").write_bytes(b"")
    host = opened()
    assert len((tmp_path / "data" / "secret").read_bytes()) == 32
    assert not (tmp_path / "data" / "secret.part").exists()
    image = host.upload(PNG, owner="admin")
    assert host.images.get(image.id) == image
