"""Blob stores: one behaviour, in a local directory, in memory and in object stores."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.object_store import S3Server, directory_store, memory_store, object_blobs, open_url

from imagehost_core.errors import NotFoundError
from imagehost_core.ids import ImageId, new_image_id
from imagehost_core.storage import (
    MASTER,
    BlobStore,
    DataLayout,
    LocalBlobStore,
    MemoryBlobStore,
    StagingArea,
)
from imagehost_core.storage.blob_store import derivative_name

ID = ImageId("abCD0123456789xy")
SAME_SHARD = ImageId("ab" + "0" * 14)
IDS = [ID, SAME_SHARD, ImageId("zz" + "0" * 14)]
NAMES = [MASTER, derivative_name(512), derivative_name(128)]


KINDS = [
    "local",
    "local with the host's staging area",
    "memory",
    "objects in memory",
    "objects in a directory",
]
S3 = [pytest.param(name, marks=pytest.mark.external) for name in ("s3_server", "moto_server")]


@pytest.fixture(params=[*KINDS, *S3])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlobStore]:
    """An empty blob store of each kind."""
    with ExitStack() as stack:
        if request.param == "memory":
            yield MemoryBlobStore()
        elif request.param == "objects in memory":
            yield stack.enter_context(object_blobs(memory_store(), tmp_path / "data"))
        elif request.param.endswith("_server"):
            server: S3Server = request.getfixturevalue(request.param)
            yield stack.enter_context(object_blobs(open_url(server.url()), tmp_path / "data"))
        elif request.param == "objects in a directory":
            store = directory_store(tmp_path / "objects")
            yield stack.enter_context(object_blobs(store, tmp_path / "data"))
        elif request.param == "local":
            yield stack.enter_context(LocalBlobStore(tmp_path / "blobs"))
        else:
            layout = DataLayout(tmp_path / "data")
            staging = StagingArea(layout.staging, 0)
            stack.callback(staging.close)
            yield LocalBlobStore(layout.images, staging)


def put(blobs: BlobStore, image_id: ImageId, content: dict[str, bytes]) -> None:
    """Store files with the given content."""
    with tempfile.TemporaryDirectory(prefix="imagehost-test-") as directory:
        files = Path(directory, "files")
        files.mkdir()
        for name, data in content.items():
            (files / name).write_bytes(data)
        blobs.put(image_id, files)
        assert not files.exists(), "the directory is moved or deleted"


def read(blobs: BlobStore, image_id: ImageId, name: str = MASTER) -> bytes:
    with blobs.open(image_id, name) as file:
        return file.read()


def test_stored_files_can_be_read(blobs: BlobStore) -> None:
    put(blobs, ID, {MASTER: b"the master", derivative_name(512): b"a derivative"})
    assert read(blobs, ID) == b"the master"
    assert read(blobs, ID, derivative_name(512)) == b"a derivative"
    assert blobs.has(ID)
    assert list(blobs.ids()) == [ID]


def test_a_file_can_be_read_in_ranges(blobs: BlobStore) -> None:
    put(blobs, ID, {MASTER: b"0123456789"})
    with blobs.open(ID) as file:
        assert file.seek(4) == 4
        assert file.read(3) == b"456"
        assert file.seek(0, 2) == 10


def test_a_file_of_several_parts_is_stored_and_replaced(blobs: BlobStore, tmp_path: Path) -> None:
    content = os.urandom(2**20) * 9
    put(blobs, ID, {MASTER: content})
    (tmp_path / "file").write_bytes(content[::-1])
    blobs.replace_file(ID, derivative_name(512), tmp_path / "file")
    assert read(blobs, ID) == content
    assert read(blobs, ID, derivative_name(512)) == content[::-1]


def test_a_missing_file_is_not_found(blobs: BlobStore) -> None:
    put(blobs, ID, {MASTER: b"1"})
    with pytest.raises(NotFoundError):
        blobs.open(ID, derivative_name(512))
    with pytest.raises(NotFoundError):
        blobs.open(new_image_id())
    assert not blobs.has(new_image_id())


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../master", f"../{SAME_SHARD}/master", "/etc/passwd", "a\0"]
)
def test_a_name_that_is_no_file_name_is_not_found(blobs: BlobStore, name: str) -> None:
    put(blobs, ID, {MASTER: b"1"})
    put(blobs, SAME_SHARD, {MASTER: b"2"})
    with pytest.raises(NotFoundError):
        blobs.open(ID, name)


def test_deleting_removes_all_files_of_an_image_and_none_of_another(blobs: BlobStore) -> None:
    put(blobs, ID, {MASTER: b"1", derivative_name(512): b"2"})
    put(blobs, SAME_SHARD, {MASTER: b"3"})
    blobs.delete(ID)
    blobs.delete(ID)
    blobs.delete(new_image_id())
    assert not blobs.has(ID)
    assert list(blobs.ids()) == [SAME_SHARD]
    put(blobs, ID, {MASTER: b"again"})
    with pytest.raises(NotFoundError):
        blobs.open(ID, derivative_name(512))


def test_an_open_file_outlives_its_deletion(blobs: BlobStore) -> None:
    put(blobs, ID, {MASTER: b"whole"})
    with blobs.open(ID) as master:
        blobs.delete(ID)
        assert master.read() == b"whole"


@pytest.mark.parametrize("other", [{}, {derivative_name(128): b"other"}])
def test_an_id_that_is_stored_already_is_refused_and_its_files_stay(
    blobs: BlobStore, other: dict[str, bytes]
) -> None:
    content = {MASTER: b"first", derivative_name(512): b"derivative"}
    put(blobs, ID, content)
    for again in (content, {MASTER: b"second"} | other):
        with pytest.raises(FileExistsError):
            put(blobs, ID, again)
    assert blobs.sizes(ID) == {name: len(data) for name, data in content.items()}
    assert {name: read(blobs, ID, name) for name in content} == content


def test_of_concurrent_puts_under_one_id_one_succeeds(blobs: BlobStore) -> None:
    def try_to_put(number: int) -> int | None:
        try:
            put(blobs, ID, {MASTER: bytes([number]) * 100})
        except FileExistsError:
            return None
        return number

    with ThreadPoolExecutor(8) as executor:
        results = list(executor.map(try_to_put, range(8)))
    (winner,) = (number for number in results if number is not None)
    assert read(blobs, ID) == bytes([winner]) * 100


def test_threads_store_read_and_delete_different_images_at_the_same_time(blobs: BlobStore) -> None:
    def work(number: int) -> None:
        image_id = ImageId(f"ab{number:014}")
        for turn in range(10):
            put(blobs, image_id, {MASTER: bytes([turn]) * 50})
            assert read(blobs, image_id) == bytes([turn]) * 50
            assert image_id in set(blobs.ids())
            blobs.delete(image_id)
            assert not blobs.has(image_id)

    with ThreadPoolExecutor(6) as executor:
        list(executor.map(work, range(6)))
    assert list(blobs.ids()) == []


class BlobStoreMachine(RuleBasedStateMachine):
    """A blob store behaves as a dict of dicts does."""

    def create(self) -> BlobStore:
        """Return the store under test."""
        return MemoryBlobStore()

    @initialize()
    def start(self) -> None:
        self.stack = ExitStack()
        self.blobs = self.create()
        self.model: dict[ImageId, dict[str, bytes]] = {}
        self.opened: list[tuple[BinaryIO, bytes]] = []

    @rule(
        image_id=st.sampled_from(IDS),
        content=st.fixed_dictionaries(
            {MASTER: st.binary(max_size=20)},
            optional={name: st.binary(max_size=20) for name in NAMES if name != MASTER},
        ),
    )
    def put(self, image_id: ImageId, content: dict[str, bytes]) -> None:
        if image_id in self.model:
            with pytest.raises(FileExistsError):
                put(self.blobs, image_id, content)
        else:
            put(self.blobs, image_id, content)
            self.model[image_id] = content

    @rule(image_id=st.sampled_from(IDS))
    def delete(self, image_id: ImageId) -> None:
        self.blobs.delete(image_id)
        self.model.pop(image_id, None)

    @rule(image_id=st.sampled_from(IDS), name=st.sampled_from(NAMES))
    def open(self, image_id: ImageId, name: str) -> None:
        content = self.model.get(image_id, {})
        if name in content:
            self.opened.append((self.blobs.open(image_id, name), content[name]))
        else:
            with pytest.raises(NotFoundError):
                self.blobs.open(image_id, name)

    @precondition(lambda self: self.opened)
    @rule()
    def read_an_open_file(self) -> None:
        file, content = self.opened.pop(0)
        with file:
            assert file.read() == content

    @invariant()
    def stored_files_equal_the_model(self) -> None:
        if not hasattr(self, "model"):
            return
        assert set(self.blobs.ids()) == set(self.model)
        for image_id in IDS:
            assert self.blobs.has(image_id) == (image_id in self.model)
        for image_id, content in self.model.items():
            for name, data in content.items():
                assert read(self.blobs, image_id, name) == data

    def teardown(self) -> None:
        if hasattr(self, "opened"):
            for file, _ in self.opened:
                file.close()
            self.stack.close()


class LocalBlobStoreMachine(BlobStoreMachine):
    """A local blob store behaves as a dict of dicts does."""

    def create(self) -> BlobStore:
        """Return the store under test."""
        directory = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="imagehost-test-"))
        return self.stack.enter_context(LocalBlobStore(directory))


class ObjectBlobStoreMachine(BlobStoreMachine):
    """A blob store in an object store behaves as a dict of dicts does."""

    def create(self) -> BlobStore:
        """Return the store under test."""
        directory = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="imagehost-test-"))
        return self.stack.enter_context(object_blobs(memory_store(), Path(directory), cache_bytes=20))


TestMemoryBlobStore = BlobStoreMachine.TestCase
TestMemoryBlobStore.settings = settings(max_examples=10, stateful_step_count=20)
TestLocalBlobStore = LocalBlobStoreMachine.TestCase
TestLocalBlobStore.settings = settings(max_examples=10, stateful_step_count=20)
TestObjectBlobStore = ObjectBlobStoreMachine.TestCase
TestObjectBlobStore.settings = settings(max_examples=10, stateful_step_count=20)


def test_storage_imports_neither_sqlite_nor_pillow_nor_an_optional_package() -> None:
    program = (
        "import sys; from imagehost_core.storage import BlobStore, LocalBlobStore, MemoryBlobStore; "
        "print([name for name in ('PIL', 'sqlite3', 'sqlite_utils', 'obstore') if name in sys.modules])"
    )
    # Measuring coverage in the child would load SQLite.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True, env=environment
    )
    assert result.stdout.strip() == "[]"
