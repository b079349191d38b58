"""Interrupts at the last lines of an upload, and a crash while a data directory is created."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from imagehost_core import ImageHost
from imagehost_core.testing import make_image

if TYPE_CHECKING:
    from types import FrameType


PNG = make_image(40, 30)


def check_whole(host: ImageHost, folder: Path) -> None:
    """Assert that every record has files, all files have a record, and the usage is their sum."""
    images = list(host.images.list(owner="admin"))
    for image in images:
        assert host.render(image.id).data == PNG
    stored = {path.parent.name for path in (folder / "images").rglob("master")}
    assert stored == {image.id for image in images}
    assert host.accounts.usage("admin").bytes == len(PNG) * len(images)


@pytest.mark.parametrize("function", ["_commit", "put"])
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
