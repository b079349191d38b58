"""Single files of an image: their sizes, replacement and deletion, and what is in a store but of no image."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.core.storage.test_blob_store import ID, SAME_SHARD, blobs, put, read

from imagehost_core.storage import MASTER, BlobStore, LocalBlobStore
from imagehost_core.storage.blob_store import derivative_name

__all__ = ["blobs"]  # the fixture

SMALL = derivative_name(128)


def test_the_sizes_of_an_images_files_are_known_by_name(blobs: BlobStore) -> None:
    put(blobs, ID, {MASTER: b"the master", SMALL: b""})
    assert blobs.sizes(ID) == {MASTER: 10, SMALL: 0}
    assert blobs.sizes(SAME_SHARD) == {}


def test_a_file_is_added_or_replaced_and_the_others_stay(blobs: BlobStore, tmp_path: Path) -> None:
    put(blobs, ID, {MASTER: b"the master"})
    for content in (b"first", b"second"):
        (tmp_path / "file").write_bytes(content)
        blobs.replace_file(ID, SMALL, tmp_path / "file")
        assert not (tmp_path / "file").exists()
        assert (read(blobs, ID, SMALL), read(blobs, ID)) == (content, b"the master")


def test_a_file_is_deleted_and_a_missing_one_is_no_error(blobs: BlobStore) -> None:
    put(blobs, ID, {MASTER: b"the master", SMALL: b"small"})
    for _ in range(2):
        blobs.delete_file(ID, SMALL)
    blobs.delete_file(SAME_SHARD, SMALL)
    assert blobs.sizes(ID) == {MASTER: 10}


@pytest.mark.parametrize("name", ["", "..", "../master", "a/b"])
def test_only_an_images_own_files_are_deleted(blobs: BlobStore, name: str) -> None:
    put(blobs, ID, {MASTER: b"the master"})
    put(blobs, SAME_SHARD, {MASTER: b"another"})
    blobs.delete_file(ID, name)
    assert (blobs.has(ID), blobs.sizes(SAME_SHARD)) == (True, {MASTER: 7})


def test_stored_images_are_not_unknown(blobs: BlobStore) -> None:
    put(blobs, ID, {MASTER: b"the master"})
    put(blobs, SAME_SHARD, {MASTER: b"another"})
    assert list(blobs.unknown_paths()) == []


def test_what_is_in_no_images_place_is_unknown(tmp_path: Path) -> None:
    with LocalBlobStore(tmp_path / "blobs") as blobs:
        put(blobs, ID, {MASTER: b"the master"})
        for path in ("lost+found", f"zz/{ID}", "ab/notes"):
            (tmp_path / "blobs" / path).mkdir(parents=True)
        (tmp_path / "blobs" / "ab" / SAME_SHARD).write_text("a file")
        (tmp_path / "blobs" / "a file").write_text("a file")
        unknown = {"lost+found", f"zz/{ID}", "ab/notes", f"ab/{SAME_SHARD}", "a file"}
        assert set(blobs.unknown_paths()) == unknown
        assert list(blobs.ids()) == [ID]
