"""Garbage collection: what crashes left is removed, and nothing that is in use."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import attrs
from tests.core.services.conftest import Stores
from tests.core.services.orphans import store_orphan
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.settings import DeliverySettings
from imagehost_core.testing import DEFAULT_NOW, make_image

PNG = make_image(40, 30)


def test_files_without_a_record_are_collected_and_images_stay(
    host: ImageHost, folder: Path, stored_files: Callable[[Path], list[str]], stores: Stores
) -> None:
    image = host.upload(PNG, owner="admin", convert_to_webp=False)
    lost = {store_orphan(stores(host)), store_orphan(stores(host))}
    assert set(host.maintenance.collect_garbage().orphans) == lost
    assert host.maintenance.collect_garbage().orphans == ()
    assert stored_files(folder) == [f"images/{image.id[:2]}/{image.id}/master"]
    assert host.render(image.id).data == PNG


def test_an_upload_between_its_files_and_its_record_is_not_collected(host: ImageHost, stores: Stores) -> None:
    """The lock of the image is held until the record is committed or the files are removed."""
    image_id = store_orphan(stores(host))
    with ThreadPoolExecutor(1) as executor:
        with stores(host).files.locks.acquire("image", image_id):
            collecting = executor.submit(host.maintenance.collect_garbage)
            sleep(0.1)  # so that it has found the files, and waits
            assert not collecting.done()
            stores(host).files.blobs.delete(image_id)
        assert collecting.result(PATIENCE).orphans == ()


def test_an_interrupted_deletion_is_finished(
    host: ImageHost, folder: Path, stored_files: Callable[[Path], list[str]], stores: Stores
) -> None:
    before = stored_files(folder)
    image = host.upload(PNG, owner="admin")
    host.render(image.id, "w=10")
    with stores(host).records.database.transaction() as transaction:
        stores(host).records.images.insert_tombstone(transaction, image, DEFAULT_NOW)
    report = host.maintenance.collect_garbage()
    assert (report.orphans, report.unfinished_deletions) == ((), 1)
    assert stored_files(folder) == before
    assert stores(host).records.images.tombstones() == ()


def test_variants_above_the_bound_are_removed(
    opened: Callable[..., ImageHost], tmp_path: Path, stored_files: Callable[[Path], list[str]]
) -> None:
    """Processes too short-lived to sweep would let the cache grow without bound."""
    host = opened()
    image = host.upload(PNG, owner="admin")
    host.render(image.id, "w=10")
    assert len(stored_files(tmp_path / "data")) == 2
    small = attrs.evolve(host.settings, delivery=DeliverySettings(disk_cache_bytes=1))
    report = opened(settings=small).maintenance.collect_garbage()
    assert (report.evicted_variants, report.bytes > 0) == (1, True)
    assert stored_files(tmp_path / "data") == [f"images/{image.id[:2]}/{image.id}/master"]
