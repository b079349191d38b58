"""The cache of variants: made once, bounded, never believed when torn or stale."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from imagehost_core.errors import NotFoundError, UnavailableError
from imagehost_core.ids import ImageId, new_image_id
from imagehost_core.settings import DeliverySettings
from imagehost_core.storage import DataLayout, GenerationTable, LockManager, StagingArea
from imagehost_core.storage.locks import stripe
from imagehost_core.storage.variant_cache import VariantCache
from imagehost_core.workers import JobClass

if TYPE_CHECKING:
    from tests.core.conftest import Program

ID = ImageId("abCD0123456789xy")
PATIENCE = 30

OBTAIN = """
    import sys
    from pathlib import Path
    from imagehost_core.settings import DeliverySettings
    from imagehost_core.storage import DataLayout, LockManager, StagingArea, GenerationTable
    from imagehost_core.storage.variant_cache import VariantCache

    folders = DataLayout(Path(sys.argv[1]))
    locks, stamps = LockManager(folders.locks), GenerationTable(folders.generations)
    staging = StagingArea(folders.staging, 0)
    variants = VariantCache(folders, staging, locks, stamps, DeliverySettings(), lambda _image: True)

    def make():
        print("making")
        sys.stdin.readline()
        return b"made by " + sys.argv[2].encode()

    print("ready")
    sys.stdin.readline()
    print(variants.get_or_create(sys.argv[3], "key", make).decode())
"""


class Room:
    """A data folder, and caches over it; an image stands until it is taken away."""

    def __init__(self, root: Path, floor: int = 0) -> None:
        self.folders = DataLayout(root)
        self.locks = LockManager(self.folders.locks)
        self.stamps = GenerationTable(self.folders.generations)
        self.staging = StagingArea(self.folders.staging, floor)
        self.gone: set[ImageId] = set()

    def cache(self, **bounds: Any) -> VariantCache:
        """Return a cache with a memory of its own, as each process has one."""
        return VariantCache(
            self.folders,
            self.staging,
            self.locks,
            self.stamps,
            DeliverySettings(**bounds),
            lambda image_id: image_id not in self.gone,
        )

    def on_disk(self, image_id: ImageId = ID) -> list[str]:
        """Return the keys of an image's variants on disk."""
        home = self.folders.variants_of(image_id)
        return sorted(path.name for path in home.iterdir()) if home.is_dir() else []

    def close(self) -> None:
        self.staging.close()
        self.stamps.close()


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    yield made
    made.close()


def never() -> bytes:
    raise AssertionError("it was made again")


def test_what_was_made_is_had_from_memory_and_by_another_process_from_disk(room: Room) -> None:
    cache = room.cache()
    assert cache.get_memory(ID, "key") is None
    assert cache.get_or_create(ID, "key", lambda: b"data") == b"data"
    assert cache.get_memory(ID, "key") == b"data"
    assert cache.get_or_create(ID, "key", never) == b"data"
    other = room.cache()
    assert other.get_memory(ID, "key") is None
    assert other.get_or_create(ID, "key", never) == b"data"
    assert other.get_memory(ID, "key") == b"data"


def test_equal_requests_that_arrive_together_render_once(room: Room) -> None:
    caches, made = [room.cache(), room.cache()], []
    begun, go_on = threading.Event(), threading.Event()

    def make() -> bytes:
        made.append(1)
        begun.set()
        assert go_on.wait(PATIENCE)
        return b"data"

    with ThreadPoolExecutor(12) as crew:
        asked = [crew.submit(caches[turn % 2].get_or_create, ID, "key", make) for turn in range(12)]
        assert begun.wait(PATIENCE)
        go_on.set()
        assert {each.result(PATIENCE) for each in asked} == {b"data"}
    assert len(made) == 1


def test_equal_requests_in_two_processes_render_once(tmp_path: Path, program: Callable[..., Program]) -> None:
    first, second = (program(OBTAIN, tmp_path, name, ID) for name in ("first", "second"))
    assert first.hear() == second.hear() == "ready"
    first.tell()
    assert first.hear() == "making"
    second.tell()
    first.tell()
    assert first.hear() == second.hear() == "made by first"


def test_when_the_process_that_renders_is_killed_another_renders(
    tmp_path: Path, program: Callable[..., Program]
) -> None:
    first, second = (program(OBTAIN, tmp_path, name, ID) for name in ("first", "second"))
    assert first.hear() == second.hear() == "ready"
    first.tell()
    assert first.hear() == "making"
    second.tell()
    first.kill()
    assert second.hear() == "making"
    second.tell()
    assert second.hear() == "made by second"


def test_work_that_fails_is_told_and_keeps_nothing(room: Room) -> None:
    cache = room.cache()

    def fail() -> bytes:
        raise UnavailableError("busy")

    with pytest.raises(UnavailableError):
        cache.get_or_create(ID, "key", fail)
    assert room.on_disk() == []
    assert cache.get_or_create(ID, "key", lambda: b"data") == b"data"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.binary(min_size=1, max_size=60), where=st.data())
def test_a_file_that_a_power_cut_has_torn_is_made_again(
    room: Room, data: bytes, where: st.DataObject
) -> None:
    image_id = new_image_id()
    room.cache().get_or_create(image_id, "key", lambda: data)
    path = room.folders.variants_of(image_id) / "key"
    whole = path.read_bytes()
    cut = where.draw(st.integers(0, len(whole) - 1))
    torn = where.draw(
        st.sampled_from(
            [
                whole[:cut],
                whole[:cut] + bytes([whole[cut] ^ 1]) + whole[cut + 1 :],
                whole + b"x",
                bytes(len(whole)),
            ]
        )
    )
    path.write_bytes(torn)
    assert room.cache().get_or_create(image_id, "key", lambda: b"anew") == b"anew"
    assert room.cache().get_or_create(image_id, "key", never) == b"anew"


def test_an_image_keeps_its_most_recently_used_variants_up_to_its_budget(room: Room) -> None:
    cache = room.cache(variants_per_image=3, memory_cache_bytes=0)
    home = room.folders.variants_of(ID)
    for turn, key in enumerate("abc"):
        cache.get_or_create(ID, key, lambda: b"data")
        os.utime(home / key, (turn, turn))
    cache.get_or_create(ID, "a", never)
    cache.get_or_create(ID, "d", lambda: b"data")
    assert room.on_disk() == ["a", "c", "d"]
    other = new_image_id()
    cache.get_or_create(other, "x", lambda: b"data")
    assert room.on_disk() == ["a", "c", "d"], "each image has a budget of its own"


def test_an_image_over_its_budget_makes_room_for_more_than_one_variant(room: Room) -> None:
    """Whoever has as many as are kept does not look at all of them for each further one."""
    cache = room.cache(variants_per_image=16, memory_cache_bytes=0)
    home = room.folders.variants_of(ID)
    counts = []
    for turn in range(40):
        cache.get_or_create(ID, f"{turn}", lambda: b"data")
        os.utime(home / f"{turn}", (turn, turn))
        kept = sorted(map(int, room.on_disk()))
        counts.append(len(kept))
        assert kept == list(range(turn + 1 - len(kept), turn + 1)), "the least recently used go first"
    assert counts == [*range(1, 17), *[14, 15, 16] * 8]


def test_a_file_that_vanishes_while_the_budget_is_counted_is_no_error(room: Room) -> None:
    """A sweep takes files away at any time; a link to nothing stands for one that has just gone."""
    cache = room.cache(variants_per_image=1)
    cache.get_or_create(ID, "a", lambda: b"data")
    (room.folders.variants_of(ID) / "gone").symlink_to("nowhere")
    cache.get_or_create(ID, "b", lambda: b"data")
    assert room.on_disk() == ["b"]
    (room.folders.variants_of(ID) / "gone").symlink_to("nowhere")
    cache.sweep()


def test_a_sweep_brings_the_disk_below_the_bound_the_least_recently_used_first(room: Room) -> None:
    cache = room.cache(disk_cache_bytes=400)
    images = [new_image_id() for _ in range(6)]
    for turn, image_id in enumerate(images):
        room.cache().get_or_create(image_id, "key", lambda: bytes(100))
        os.utime(room.folders.variants_of(image_id) / "key", (turn, turn))
    room.cache().get_or_create(images[0], "key", never)
    cache.sweep()
    size = (room.folders.variants_of(images[0]) / "key").stat().st_size
    kept = [image_id for image_id in images if room.on_disk(image_id)]
    assert kept == [images[0], *images[-(400 // size - 1) :]]


def test_sweeps_come_by_themselves_and_keep_the_bound(room: Room) -> None:
    cache = room.cache(disk_cache_bytes=2_000, memory_cache_bytes=0)
    for _ in range(100):
        cache.get_or_create(new_image_id(), "key", lambda: bytes(90))
    total = sum(path.stat().st_size for path in room.folders.variants.rglob("key"))
    assert 1_500 < total <= 2_000 + 2_000 // 20 + 2 * 110


def test_one_sweep_at_a_time_is_enough(room: Room) -> None:
    cache = room.cache(disk_cache_bytes=0)
    room.cache().get_or_create(ID, "key", lambda: b"data")
    with room.locks.try_acquire("sweep"):
        cache.sweep()
        assert room.on_disk() == ["key"]
    cache.sweep()
    assert room.on_disk() == []


def test_a_deleted_image_gets_no_variant_though_its_render_was_under_way(room: Room) -> None:
    cache = room.cache()

    def make() -> bytes:
        with room.locks.acquire("image", ID), room.stamps.bump(ID):
            room.gone.add(ID)
            cache.purge(ID)
        return b"too late"

    cache.get_or_create(ID, "other", lambda: b"data")
    with pytest.raises(NotFoundError):
        cache.get_or_create(ID, "key", make)
    assert room.on_disk() == []
    assert cache.get_memory(ID, "key") is None
    assert cache.get_memory(ID, "other") is None
    with pytest.raises(NotFoundError):
        cache.get_or_create(ID, "other", lambda: b"data")


def test_what_is_read_while_a_change_is_under_way_is_not_remembered(room: Room) -> None:
    cache = room.cache()
    room.cache().get_or_create(ID, "key", lambda: b"data")
    with room.stamps.bump(ID):
        assert cache.get_or_create(ID, "key", never) == b"data"
        assert cache.get_memory(ID, "key") is None
    assert cache.get_memory(ID, "key") is None
    assert cache.get_or_create(ID, "key", never) == b"data"
    assert cache.get_memory(ID, "key") == b"data"


def test_what_was_remembered_before_a_change_is_read_again(room: Room) -> None:
    cache = room.cache()
    cache.get_or_create(ID, "key", lambda: b"data")
    with room.stamps.bump(ID):
        assert cache.get_memory(ID, "key") is None
    assert cache.get_memory(ID, "key") is None
    assert cache.get_or_create(ID, "key", never) == b"data"


def test_the_memory_is_bounded(room: Room) -> None:
    cache = room.cache(memory_cache_bytes=250)
    for key in "abc":
        cache.get_or_create(ID, key, lambda: bytes(100))
    assert [cache.get_memory(ID, key) is not None for key in "abc"] == [False, True, True]


def test_a_disk_below_its_floor_serves_and_keeps_nothing_on_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Variants can be made again: they must not take the room that uploads and deletions need."""
    room = Room(tmp_path, floor=2**62)
    cache = room.cache()
    assert cache.get_or_create(ID, "key", lambda: b"data") == b"data"
    assert room.on_disk() == []
    assert cache.get_memory(ID, "key") == b"data", "memory has room"
    assert "no room" in caplog.text
    room.close()


def test_a_really_full_disk_serves_all_the_same(small_disk: Callable[..., Path]) -> None:
    room = Room(small_disk())
    cache = room.cache(memory_cache_bytes=0)
    large = bytes(2**21)
    for _ in range(2):
        assert cache.get_or_create(ID, "key", lambda: large) == large
    assert room.on_disk() == []
    assert cache.get_or_create(ID, "small", lambda: b"data") == b"data"
    assert room.on_disk() == ["small"]
    room.close()


def test_light_work_does_not_wait_for_heavy_work_that_happens_to_share_its_lock(room: Room) -> None:
    cache, started, let_go = room.cache(), threading.Event(), threading.Event()

    def slow() -> bytes:
        started.set()
        assert let_go.wait(PATIENCE)
        return b"heavy"

    ours = stripe(f"{ID}/heavy")
    shared = next(f"light{n}" for n in range(100_000) if stripe(f"{ID}/light{n}") == ours)
    heavy = threading.Thread(target=cache.get_or_create, args=(ID, "heavy", slow, JobClass.HEAVY))
    heavy.start()
    assert started.wait(PATIENCE)
    assert cache.get_or_create(ID, shared, lambda: b"light", JobClass.LIGHT) == b"light"
    let_go.set()
    heavy.join(PATIENCE)
    assert cache.get_memory(ID, "heavy") == b"heavy"
