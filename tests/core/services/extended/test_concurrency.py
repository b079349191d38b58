"""Threads and processes on one data directory: no quota is exceeded and nothing is lost or left."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from imagehost_core import ImageHost, InsufficientStorageError, Settings
from imagehost_core.settings import LimitSettings, RenderingSettings
from imagehost_core.testing import make_image

if TYPE_CHECKING:
    from tests.programs import Program

PNG = make_image(40, 30)
ONE_WORKER = Settings(rendering=RenderingSettings(processes=1))

UPLOAD = """
    import sys
    from concurrent.futures import ThreadPoolExecutor
    from imagehost_core import ImageHost, InsufficientStorageError, Settings
    from imagehost_core.settings import LimitSettings, RenderingSettings
    from imagehost_core.testing import make_image

    data = make_image(40, 30)
    limits = LimitSettings(quota_bytes=int(sys.argv[2]))
    settings = Settings(rendering=RenderingSettings(processes=1), limits=limits)

    def upload(_turn):
        try:
            return host.upload(data, owner="admin", convert_to_webp=False).id
        except InsufficientStorageError:
            return "refused"

    with ImageHost.open(sys.argv[1], settings=settings) as host, ThreadPoolExecutor(16) as executor:
        upload(0)
        print("ready")
        sys.stdin.readline()
        print(*executor.map(upload, range(16)))
"""

RANDOM_CHANGES = """
    import random, sys
    from concurrent.futures import ThreadPoolExecutor
    from imagehost_core import ImageHost, NotFoundError, Settings
    from imagehost_core.settings import RenderingSettings
    from imagehost_core.testing import make_image

    data = make_image(40, 30)

    def change_at_random(seed):
        choose, stored = random.Random(seed), []
        for turn in range(8):
            stored.append(host.upload(data, owner="admin", convert_to_webp=False).id)
            page = list(host.images.list(owner="admin", per_page=100))
            assert {image.id for image in page} >= set(stored)
            found = choose.choice(page)
            try:
                assert host.render(found.id).data == data
                assert host.render(found.id, f"w={5 + turn % 3}&fm=png").width == 5 + turn % 3
                host.images.update(found.id, description=f"{seed}/{turn}")
            except NotFoundError:
                pass
            if turn % 3:
                host.images.delete(stored.pop(choose.randrange(len(stored))), owner="admin")
        return stored

    settings = Settings(rendering=RenderingSettings(processes=1))
    with ImageHost.open(sys.argv[1], settings=settings) as host, ThreadPoolExecutor(4) as executor:
        print("ready")
        sys.stdin.readline()
        print(*sum(executor.map(change_at_random, range(4)), []))
"""


def test_concurrent_uploads_of_two_processes_never_exceed_the_quota(
    opened: Callable[..., ImageHost],
    tmp_path: Path,
    program: Callable[..., Program],
    stored_files: Callable[[Path], list[str]],
) -> None:
    folder, quota = tmp_path / "data", 10 * len(PNG) + len(PNG) // 2
    host = opened()
    both = [program(UPLOAD, folder, quota) for _ in range(2)]
    assert [each.read_line() for each in both] == ["ready", "ready"]
    for each in both:
        each.write_line()
    stored = [word for each in both for word in each.read_line().split() if word != "refused"]
    assert len(stored) == 10 - 2
    assert host.accounts.usage("admin").bytes == 10 * len(PNG)
    assert host.images.list(owner="admin").total == len(stored_files(folder)) == 10
    assert [each.end() for each in both] == [0, 0]


def test_concurrent_uploads_of_threads_never_exceed_the_quota(
    opened: Callable[..., ImageHost], tmp_path: Path, stored_files: Callable[[Path], list[str]]
) -> None:
    host = opened(settings=attrs.evolve(ONE_WORKER, limits=LimitSettings(quota_bytes=7 * len(PNG))))

    def upload(_turn: int) -> bool:
        try:
            return bool(host.upload(PNG, owner="admin", convert_to_webp=False))
        except InsufficientStorageError:
            return False

    with ThreadPoolExecutor(16) as executor:
        assert sum(executor.map(upload, range(32))) == 7
    assert host.accounts.usage("admin").bytes == 7 * len(PNG)
    assert len(stored_files(tmp_path / "data")) == 7


def test_two_processes_with_many_threads_end_with_consistent_stores(
    opened: Callable[..., ImageHost],
    tmp_path: Path,
    program: Callable[..., Program],
    stored_files: Callable[[Path], list[str]],
) -> None:
    folder = tmp_path / "data"
    both = [program(RANDOM_CHANGES, folder) for _ in range(2)]
    assert [each.read_line() for each in both] == ["ready", "ready"]
    for each in both:
        each.write_line()
    stored = {word for each in both for word in each.read_line().split()}
    assert [each.end() for each in both] == [0, 0]
    host = opened()
    assert {image.id for image in host.images.list(owner="admin", per_page=100)} == stored
    assert host.accounts.usage("admin").bytes == len(stored) * len(PNG)
    assert {path.split("/")[2] for path in stored_files(folder)} == stored
    assert host.maintenance.collect_garbage().orphans == ()
