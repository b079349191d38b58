"""The measurements that a host reports to its observer."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import attrs
import pytest
from tests.open_host import open_host
from tests.waiting import PATIENCE

from imagehost_core import ImageHost, utc_now
from imagehost_core.cache_purges import PurgeAttempt
from imagehost_core.errors import InsufficientStorageError, UnavailableError, UnsupportedMediaTypeError
from imagehost_core.observer import (
    CachePurgeAttempted,
    DeliveryAttempted,
    Measurement,
    TaskEnded,
    TransactionEnded,
    UploadEnded,
    VariantFound,
    VariantsEvicted,
    VariantsSwept,
    WorkerAcquired,
    WorkerExited,
    WorkerStarted,
)
from imagehost_core.settings import (
    DeliverySettings,
    LimitSettings,
    PurgeSettings,
    RenderingSettings,
    Settings,
    WebhookSettings,
)
from imagehost_core.testing import FrozenClock, make_image
from imagehost_core.webhooks import Attempt

T = TypeVar("T")

SETTINGS = Settings(
    base_url="https://img.example/v1",
    rendering=RenderingSettings(processes=1, queue=1),
    delivery=DeliverySettings(memory_cache_bytes=0),
    webhooks=WebhookSettings(allow_loopback=True),
)


class Recorder:
    """An observer that keeps all measurements."""

    def __init__(self) -> None:
        self.measurements: list[Measurement] = []

    def __call__(self, measurement: Measurement) -> None:
        self.measurements.append(measurement)

    def of(self, kind: type[T]) -> list[T]:
        return [each for each in self.measurements if isinstance(each, kind)]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def host(tmp_path: Path, recorder: Recorder) -> Iterator[ImageHost]:
    with ImageHost.open(tmp_path / "data", settings=SETTINGS, observe=recorder) as host:
        recorder.measurements.clear()
        yield host


def test_an_upload_is_measured_with_its_sizes_and_its_task(host: ImageHost, recorder: Recorder) -> None:
    data = make_image(64, 48)
    image = host.upload(data, owner="admin")
    assert recorder.of(UploadEnded) == [UploadEnded("ok", len(data), image.size)]
    assert recorder.of(WorkerStarted) == [WorkerStarted()]
    (acquired,), (task,) = recorder.of(WorkerAcquired), recorder.of(TaskEnded)
    assert (acquired.lane, acquired.admitted) == ("light", True)
    assert (task.task, task.lane, task.format, task.outcome) == ("ingest", "light", "png", "ok")
    assert 0 < task.seconds < 60
    assert [each.committed for each in recorder.of(TransactionEnded)] == [True]


def test_a_refused_upload_is_measured_with_the_code_of_its_error(host: ImageHost, recorder: Recorder) -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        host.upload(b"no image", owner="admin")
    assert recorder.of(UploadEnded) == [UploadEnded("UNSUPPORTED_MEDIA_TYPE", 8, 0)]


def test_a_rolled_back_transaction_is_measured_as_such(tmp_path: Path, recorder: Recorder) -> None:
    settings = Settings(base_url="https://img.example/v1", limits=LimitSettings(quota_bytes=10))
    with open_host(tmp_path / "data", settings=settings, observe=recorder) as host:
        recorder.measurements.clear()
        with pytest.raises(InsufficientStorageError):
            host.upload(make_image(), owner="admin")
    # The second one waits for the first one's end before the files are removed.
    measured, _ = recorder.of(TransactionEnded)
    assert not measured.committed
    assert measured.seconds > 0
    assert measured.waited_seconds > 0
    assert [each.code for each in recorder.of(UploadEnded)] == ["INSUFFICIENT_STORAGE"]


def test_each_request_for_a_variant_is_measured_with_the_tier_that_had_it(
    tmp_path: Path, recorder: Recorder
) -> None:
    with ImageHost.open(tmp_path / "data", observe=recorder) as host:
        image = host.upload(make_image(64, 48), owner="admin")
        host.render(image, "w=20")
        host.render(image, "w=20")
    with ImageHost.open(tmp_path / "data", observe=recorder) as host:
        host.render(image.id, "w=20")
    assert [each.tier for each in recorder.of(VariantFound)] == ["render", "memory", "disk"]
    (render,) = (each for each in recorder.of(TaskEnded) if each.task == "render")
    assert (render.lane, render.format, render.outcome) == ("light", image.format, "ok")


@pytest.mark.slow
def test_a_rejected_render_is_measured_without_a_task(host: ImageHost, recorder: Recorder) -> None:
    image = host.upload(make_image(3_000, 3_000), owner="admin")
    recorder.measurements.clear()
    running, waiting, rejected = (
        host.delivery.open_in_steps(host.delivery.resolve(image.id, f"w={width}&fm=avif"))
        for width in (2_900, 2_901, 2_902)
    )
    assert next(running).result(timeout=PATIENCE) is not None
    next(waiting)
    next(rejected)
    with pytest.raises(UnavailableError):
        next(rejected)
    waiting.close()
    running.close()
    (acquired,) = recorder.of(WorkerAcquired)
    assert (acquired.lane, acquired.admitted) == ("heavy", False)
    assert recorder.of(TaskEnded) == []


def test_a_worker_process_that_is_killed_from_outside_is_measured_as_killed(
    host: ImageHost, recorder: Recorder
) -> None:
    host.upload(make_image(), owner="admin")
    (pid,) = host.maintenance.statistics().worker_pids
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    host.upload(make_image(), owner="admin")
    assert [each.cause for each in recorder.of(WorkerExited)] == ["killed"]
    assert len(recorder.of(WorkerStarted)) == 2


def test_a_worker_process_that_the_pool_ends_is_not_measured_as_lost(
    tmp_path: Path, recorder: Recorder
) -> None:
    with ImageHost.open(tmp_path / "data", observe=recorder) as host:
        host.upload(make_image(), owner="admin")
    assert [each.cause for each in recorder.of(WorkerExited)] == ["ended"]


def test_each_attempt_of_a_webhook_is_measured(host: ImageHost, recorder: Recorder) -> None:
    webhook = host.webhooks.create(owner="admin", url="http://127.0.0.1:9/")
    for _ in range(2):
        host.webhooks.test(webhook, owner="admin")
    first, second = host.webhooks.lease(2)
    results = [
        (first, Attempt(at=host.now(), status=204, duration_ms=1_500, response="")),
        (second, Attempt(at=host.now(), status=500, duration_ms=20, response="")),
    ]
    host.webhooks.report(results)
    assert recorder.of(DeliveryAttempted) == [DeliveryAttempted(True, 1.5), DeliveryAttempted(False, 0.02)]


def test_garbage_collection_measures_the_variant_cache(tmp_path: Path, recorder: Recorder) -> None:
    with open_host(tmp_path / "data", settings=SETTINGS, observe=recorder) as host:
        host.render(host.upload(make_image(64, 48), owner="admin"), "w=20")
        host.maintenance.collect_garbage()
    (swept,) = recorder.of(VariantsSwept)
    assert swept.stored_bytes > 0
    assert recorder.of(VariantsEvicted) == []


def test_evicted_variants_are_measured_with_their_bytes(tmp_path: Path, recorder: Recorder) -> None:
    settings = attrs.evolve(SETTINGS, delivery=DeliverySettings(memory_cache_bytes=0, variants_per_image=2))
    with open_host(tmp_path / "data", settings=settings, observe=recorder) as host:
        image = host.upload(make_image(64, 48), owner="admin")
        sizes = {width: len(host.render(image, f"w={width}").data) + 16 for width in (20, 21, 22)}
    assert recorder.of(VariantsEvicted) == [VariantsEvicted("image", 1, sizes[20])]
    no_cache = attrs.evolve(SETTINGS, delivery=DeliverySettings(disk_cache_bytes=0))
    with open_host(tmp_path / "data", settings=no_cache, observe=recorder) as host:
        host.maintenance.collect_garbage()
    assert recorder.of(VariantsEvicted)[1:] == [VariantsEvicted("cache", 2, sizes[21] + sizes[22])]
    assert recorder.of(VariantsSwept)[-1].stored_bytes == 0


def test_each_request_of_a_cache_purge_is_measured_and_the_images_that_wait_are_counted(
    tmp_path: Path, recorder: Recorder
) -> None:
    clock = FrozenClock()
    settings = attrs.evolve(SETTINGS, purge=PurgeSettings(url="https://cache.example.com/{tag}"))
    with open_host(tmp_path / "data", settings=settings, clock=clock, observe=recorder) as host:
        for _ in range(2):
            host.images.delete(host.upload(make_image(8, 8), owner="admin"))
        clock.advance(seconds=90)

        def waiting() -> tuple[int, float]:
            database = host.maintenance.statistics().database
            return database.pending_purges, database.oldest_purge_seconds

        assert waiting() == (2, 90)
        first, second = host.cache_purges.lease(9)
        host.cache_purges.report([PurgeAttempt(first, 0.5), PurgeAttempt(second, 2.0, "no response")])
        assert waiting() == (1, 90), "the first is confirmed, and will be repeated"
        clock.advance(days=2)
        repeated, failed = sorted(host.cache_purges.lease(9), key=lambda purge: not purge.is_repetition)
        host.cache_purges.report([PurgeAttempt(repeated, 0.5), PurgeAttempt(failed, 2.0, "no response")])
        assert waiting() == (0, 0)
    assert recorder.of(CachePurgeAttempted) == [
        CachePurgeAttempted(True, 0.5),
        CachePurgeAttempted(False, 2.0),
        CachePurgeAttempted(True, 0.5),
        CachePurgeAttempted(False, 2.0, given_up=True),
    ]


def test_statistics_have_the_totals_of_a_host(tmp_path: Path) -> None:
    now = [utc_now()]
    with ImageHost.open(tmp_path / "data", settings=SETTINGS, clock=lambda: now[0]) as host:
        webhook = host.webhooks.create(owner="admin", url="http://127.0.0.1:9/")
        image = host.upload(make_image(), owner="admin")
        host.albums.create(owner="admin", name="a")
        now[0] += timedelta(seconds=90)
        host.webhooks.test(webhook, owner="admin")
        found = host.maintenance.statistics()
        assert (found.database.accounts, found.database.images, found.database.albums) == (1, 1, 1)
        assert found.database.master_bytes == image.size
        assert found.database.due_deliveries == 3
        assert found.database.oldest_due_seconds == 90
        assert found.database.database_bytes > 4_096
        assert found.database.unfinished_deletions == 0
        assert found.disk_bytes > found.disk_free_bytes > 0
        assert len(found.worker_pids) == found.workers.idle == 1
        host.webhooks.delete(webhook, owner="admin")
        without = host.maintenance.statistics().database
        assert (without.due_deliveries, without.oldest_due_seconds) == (0, 0)


def test_deliveries_of_a_suspended_account_are_not_due(tmp_path: Path) -> None:
    with ImageHost.open(tmp_path / "data", settings=SETTINGS) as host:
        host.accounts.create("bob")
        webhook = host.webhooks.create(owner="bob", url="http://127.0.0.1:9/")
        host.webhooks.test(webhook, owner="bob")
        assert host.maintenance.statistics().database.due_deliveries == 1
        host.accounts.update("bob", suspended=True)
        assert host.maintenance.statistics().database.due_deliveries == 0
