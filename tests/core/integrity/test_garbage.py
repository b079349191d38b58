"""Garbage collection of a whole data directory: each kind of garbage, counted and removed once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.core.integrity.conftest import SETTINGS, DamagedDirectory
from tests.core.integrity.test_findings import (
    add_misplaced_folder,
    add_orphan,
    add_staging_of_killed_process,
    add_tombstone,
    add_unknown_file,
    add_variants_without_image,
)

from imagehost_core import ImageHost
from imagehost_core._util.clock import utc_now
from imagehost_core.ids import ImageId
from imagehost_core.maintenance.garbage import GarbageReport
from imagehost_core.settings import DeliverySettings
from imagehost_core.storage import DataLayout

NOTHING = GarbageReport(
    orphans=(),
    unfinished_deletions=0,
    variants_without_image=0,
    evicted_variants=0,
    staging_directories=0,
    expired_sessions=0,
    expired_idempotency_keys=0,
    expired_events=0,
    bytes=0,
)


def add_expired_session(directory: DamagedDirectory) -> None:
    directory.execute("INSERT INTO sessions VALUES ('old', 1, 'hash', '', '', 0, 1, 1)")


def add_expired_key(directory: DamagedDirectory) -> None:
    directory.execute("INSERT INTO idempotency_keys VALUES (1, 'my key', 'f', 0, 200, X'00')")


def expire_events(directory: DamagedDirectory) -> None:
    directory.execute("UPDATE webhook_deliveries SET state = 'failed', next_attempt_at = NULL")
    directory.execute("UPDATE events SET created_at = 0")


GARBAGE: list[tuple[Callable[[DamagedDirectory], object], dict[str, Any]]] = [
    (add_tombstone, {"unfinished_deletions": 1}),
    (add_staging_of_killed_process, {"staging_directories": 1}),
    (add_expired_session, {"expired_sessions": 1}),
    (add_expired_key, {"expired_idempotency_keys": 1}),
    (expire_events, {"expired_events": 4}),
]


def collect(directory: DamagedDirectory, *, dry_run: bool = False) -> GarbageReport:
    with ImageHost.open(directory.path, settings=SETTINGS, recover=False) as host:
        return host.maintenance.collect_garbage(dry_run=dry_run)


def files_of(directory: DamagedDirectory) -> set[Path]:
    return {path for path in directory.path.rglob("*") if path.suffix not in {".incomplete"}}


def test_a_directory_without_garbage_stays_as_it_is(directory: DamagedDirectory) -> None:
    assert collect(directory) == NOTHING
    assert directory.check() == []


@pytest.mark.parametrize(("plant", "expected"), GARBAGE, ids=lambda value: getattr(value, "__name__", None))
def test_each_kind_of_garbage_is_counted_and_removed_once(
    directory: DamagedDirectory, plant: Callable[[DamagedDirectory], object], expected: dict[str, Any]
) -> None:
    plant(directory)
    before = files_of(directory)
    for _ in range(2):
        assert collect(directory, dry_run=True) == attrs.evolve(NOTHING, **expected)
    assert files_of(directory) >= before
    assert collect(directory) == attrs.evolve(NOTHING, **expected)
    assert collect(directory) == NOTHING
    assert directory.check() == []


def test_a_dry_run_keeps_what_tells_of_incomplete_uploads(directory: DamagedDirectory) -> None:
    marker = DataLayout(directory.path).staging / "process.incomplete"
    marker.touch()
    collect(directory, dry_run=True)
    assert marker.exists()
    collect(directory)
    assert not marker.exists()


def test_orphans_and_their_variants_are_removed_with_their_bytes(directory: DamagedDirectory) -> None:
    orphan = add_orphan(directory)
    variants = add_variants_without_image(directory)
    size = sum(path.stat().st_size for path in directory.path.glob(f"variants/*/{variants}/*"))
    expected = attrs.evolve(NOTHING, orphans=(ImageId(orphan),), variants_without_image=1, bytes=size + 1)
    assert collect(directory, dry_run=True) == expected
    assert collect(directory) == expected
    assert collect(directory) == NOTHING


def test_files_that_are_not_the_hosts_own_stay(directory: DamagedDirectory) -> None:
    add_misplaced_folder(directory)
    add_unknown_file(directory)
    assert collect(directory) == NOTHING
    assert (directory.path / "images" / "lost+found").exists()
    assert (directory.folder(directory.others[0]) / "notes.txt").exists()


def test_the_variant_cache_is_trimmed_to_its_limit(directory: DamagedDirectory) -> None:
    settings = attrs.evolve(SETTINGS, delivery=DeliverySettings(disk_cache_bytes=1))
    with ImageHost.open(directory.path, settings=settings) as host:
        planned = host.maintenance.collect_garbage(dry_run=True)
        assert planned.evicted_variants == 2
        assert len(list(directory.path.glob("variants/*/*/*"))) == 2
        assert host.maintenance.collect_garbage() == planned
        assert list(directory.path.glob("variants/*/*/*")) == []


def test_records_are_kept_until_they_expire(directory: DamagedDirectory) -> None:
    now = utc_now()
    with ImageHost.open(directory.path, settings=SETTINGS, clock=lambda: now) as host:
        host.sessions.create(host.accounts.get("admin"), user_agent="", ip_address="")
        account = host.accounts.get("admin")
        with host.idempotency.begin(account, "key", "fingerprint") as request:
            request.complete(200, b"{}")
        assert host.maintenance.collect_garbage() == NOTHING
        now += timedelta(hours=24)
        assert host.maintenance.collect_garbage() == NOTHING
        now += timedelta(hours=1)
        assert host.maintenance.collect_garbage() == attrs.evolve(NOTHING, expired_idempotency_keys=1)
        now += timedelta(seconds=SETTINGS.sessions.lifetime_seconds)
        assert host.maintenance.collect_garbage().expired_sessions == 1
