"""Work in progress of other processes is no finding: the check waits for the lock that the work holds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import pytest
from tests.core.integrity.conftest import SETTINGS, DamagedDirectory, flip_byte
from tests.core.integrity.test_findings import (
    add_orphan,
    add_tombstone,
    add_variants_without_image,
    delete_derivative,
)
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.coordination.locks import LockManager


@contextmanager
def checking_while_locked(directory: DamagedDirectory, image_id: str, *, repair: bool) -> Iterator[None]:
    """Run a block while a check waits for the lock of an image; the check must find nothing after it."""
    with ThreadPoolExecutor(1) as threads:
        with LockManager(directory.path / "locks").acquire("image", image_id):
            checking = threads.submit(directory.check, repair=repair)
            sleep(1)  # so that it has seen the half-finished work, and waits
            assert not checking.done()
            yield
        assert checking.result(PATIENCE) == []


@pytest.mark.parametrize("repair", [False, True])
def test_an_upload_between_its_files_and_its_record_is_no_finding(
    directory: DamagedDirectory, repair: bool
) -> None:
    image_id = add_orphan(directory)
    folder = directory.path / "images" / image_id[:2] / image_id
    with checking_while_locked(directory, image_id, repair=repair):
        shutil.rmtree(folder)


@pytest.mark.parametrize("repair", [False, True])
def test_a_deletion_between_its_tombstone_and_its_files_is_no_finding(
    directory: DamagedDirectory, repair: bool
) -> None:
    image_id = add_tombstone(directory)
    with checking_while_locked(directory, image_id, repair=repair):
        shutil.rmtree(directory.path / "images" / image_id[:2] / image_id)
        directory.execute("DELETE FROM tombstones")


@pytest.mark.parametrize("repair", [False, True])
def test_a_deletion_between_its_files_and_the_end_of_its_tombstone_is_no_finding(
    directory: DamagedDirectory, repair: bool
) -> None:
    image_id = add_tombstone(directory)
    shutil.rmtree(directory.path / "images" / image_id[:2] / image_id)
    with checking_while_locked(directory, image_id, repair=repair):
        directory.execute("DELETE FROM tombstones")


@pytest.mark.parametrize("repair", [False, True])
def test_variants_that_are_being_deleted_are_no_finding(directory: DamagedDirectory, repair: bool) -> None:
    image_id = add_variants_without_image(directory)
    with checking_while_locked(directory, image_id, repair=repair):
        shutil.rmtree(directory.path / "variants" / image_id[:2] / image_id)


@pytest.mark.parametrize("repair", [False, True])
@pytest.mark.parametrize("name", ["master", "derivative"])
def test_a_file_that_is_being_replaced_is_no_finding(
    directory: DamagedDirectory, name: str, repair: bool
) -> None:
    """As by a restore that puts a missing file back."""
    [path, *_] = sorted(directory.folder(directory.photo).glob(f"{name}*"))
    content = path.read_bytes()
    flip_byte(path, 100)
    with checking_while_locked(directory, directory.photo.id, repair=repair):
        path.write_bytes(content)


def test_a_deletion_while_derivatives_are_created_leaves_nothing(
    directory: DamagedDirectory, opened: Callable[[], ImageHost], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image is deleted when the derivatives are complete, before they are moved to the image."""
    delete_derivative(directory)
    server = opened()
    rename = os.rename
    deleted: list[object] = []

    def rename_after_deletion(source: Path, target: Path) -> None:
        rename(source, target)
        if "derivative-" in str(target) and not deleted:
            deleted.append(server.images.delete(directory.photo.id))

    monkeypatch.setattr(os, "rename", rename_after_deletion)
    with ImageHost.open(directory.path, settings=SETTINGS) as host:
        [finding] = host.check(repair=True)
    assert deleted
    assert not finding.is_repaired
    assert not directory.folder(directory.photo).exists()
    assert directory.check() == []
