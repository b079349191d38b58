"""Faults between a blob store and its S3 server: no wrong result, a bounded duration, nothing left over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import pytest
from tests.core.storage.test_blob_store import ID, put, read
from tests.fault_proxy import Fault, FaultProxy, Request, run_fault_proxy
from tests.object_store import S3Server, object_blobs, open_url

from imagehost_core.cluster.object.object_blob_store import ObjectBlobStore
from imagehost_core.cluster.object.store import require_access
from imagehost_core.errors import InternalError, NotFoundError, UnavailableError
from imagehost_core.settings import SettingsError, parse_storage_url
from imagehost_core.storage import MASTER
from imagehost_core.storage.blob_store import derivative_name

pytestmark = pytest.mark.external
SECONDS = 4.0
SMALL = derivative_name(128)
MIB = 2**20
DATA = bytes(range(256)) * 8 * 1024
"""A file of 2 MiB."""
LARGE = DATA * 9
"""A file that is uploaded in several parts."""


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    with run_fault_proxy(s3_server.endpoint) as running:
        yield running


Open = Callable[[], ObjectBlobStore]


@pytest.fixture
def opened(s3_server: S3Server, proxy: FaultProxy, tmp_path: Path) -> Iterator[Open]:
    """Open hosts with a cache of their own on one store."""
    url = s3_server.url(endpoint=proxy.endpoint)
    with ExitStack() as stack:

        def open_store() -> ObjectBlobStore:
            data = tmp_path / f"host-{len(list(tmp_path.glob('host-*')))}"
            return stack.enter_context(object_blobs(open_url(url, SECONDS / 2), data, 2**30, SECONDS))

        yield open_store


@pytest.fixture
def blobs(opened: Open) -> ObjectBlobStore:
    return opened()


TEMPORARY = [Fault.ERROR_500, Fault.ERROR_503, Fault.CUT, Fault.LOSE_RESPONSE]


@pytest.mark.parametrize("fault", TEMPORARY)
@pytest.mark.parametrize(
    ("method", "contains"),
    [("HEAD", MASTER), ("PUT", SMALL), ("PUT", MASTER)],
)
def test_an_upload_survives_a_temporary_fault(
    blobs: ObjectBlobStore, proxy: FaultProxy, fault: Fault, method: str, contains: str
) -> None:
    proxy.inject(fault, method, contains)
    put(blobs, ID, {MASTER: DATA, SMALL: b"small"})
    assert {name: read(blobs, ID, name) for name in blobs.sizes(ID)} == {MASTER: DATA, SMALL: b"small"}


@pytest.mark.parametrize("fault", TEMPORARY)
@pytest.mark.parametrize("method", ["POST", "PUT", "GET"])
def test_a_large_upload_survives_a_temporary_fault(
    blobs: ObjectBlobStore, proxy: FaultProxy, fault: Fault, method: str
) -> None:
    proxy.inject(fault, method, MASTER)
    put(blobs, ID, {MASTER: LARGE})
    assert blobs.sizes(ID) == {MASTER: len(LARGE)}
    assert read(blobs, ID) == LARGE


@pytest.mark.parametrize("fault", [*TEMPORARY, Fault.TRUNCATE, Fault.SHORTEN, Fault.CORRUPT])
def test_a_download_survives_a_temporary_fault_and_is_never_incomplete(
    blobs: ObjectBlobStore, proxy: FaultProxy, fault: Fault
) -> None:
    put(blobs, ID, {MASTER: DATA})
    proxy.inject(fault, "GET", MASTER)
    with blobs.open(ID, checksum=sha256(DATA).hexdigest()) as file:
        assert file.read() == DATA


def test_an_interrupted_download_continues(blobs: ObjectBlobStore, proxy: FaultProxy) -> None:
    put(blobs, ID, {MASTER: DATA * 4})
    proxy.inject(Fault.TRUNCATE, "GET", MASTER, times=3)
    assert read(blobs, ID) == DATA * 4


@pytest.mark.parametrize("fault", [Fault.SHORTEN, Fault.CORRUPT])
def test_a_file_that_stays_damaged_is_an_error(
    blobs: ObjectBlobStore, proxy: FaultProxy, fault: Fault
) -> None:
    put(blobs, ID, {MASTER: DATA})
    proxy.inject(fault, "GET", MASTER, times=9)
    with pytest.raises(InternalError):
        blobs.open(ID, checksum=sha256(DATA).hexdigest())
    proxy.clear()
    with blobs.open(ID, checksum=sha256(DATA).hexdigest()) as file:
        assert file.read() == DATA


@pytest.mark.parametrize("content", [DATA, LARGE], ids=["in one request", "in parts"])
def test_bytes_that_are_changed_on_the_way_to_the_store_are_not_confirmed(
    blobs: ObjectBlobStore, proxy: FaultProxy, content: bytes
) -> None:
    proxy.inject(Fault.CORRUPT_REQUEST, "PUT", MASTER, times=99)
    with pytest.raises(UnavailableError):
        put(blobs, ID, {MASTER: content})


def test_without_an_md5_as_entity_tag_an_object_is_read_again(
    blobs: ObjectBlobStore, proxy: FaultProxy
) -> None:
    proxy.inject(Fault.OPAQUE_E_TAG, "PUT", MASTER)
    put(blobs, ID, {MASTER: DATA})
    assert proxy.count("GET", MASTER) == 1
    blobs.delete(ID)
    proxy.inject(Fault.OPAQUE_E_TAG, "PUT", MASTER)
    proxy.inject(Fault.CORRUPT, "GET", MASTER, times=9)
    with pytest.raises(UnavailableError):
        put(blobs, ID, {MASTER: DATA})


def test_the_master_is_stored_last(blobs: ObjectBlobStore, proxy: FaultProxy) -> None:
    put(blobs, ID, {MASTER: DATA, SMALL: b"small", derivative_name(512): b"larger"})
    puts = [request.target.rpartition("/")[2] for request in proxy.requests if request.method == "PUT"]
    assert puts[-1] == MASTER
    assert len(puts) == 3


def test_an_image_that_appears_meanwhile_is_not_overwritten(opened: Open, proxy: FaultProxy) -> None:
    first, second = opened(), opened()
    done = threading.Event()

    def overtake(request: Request) -> None:
        # After the first host has seen that there is no master, and before it stores its own.
        if request.method == "PUT" and request.target.endswith(MASTER) and not done.is_set():
            done.set()
            put(second, ID, {MASTER: b"of the second host"})

    proxy.on_request(overtake)
    with pytest.raises(FileExistsError):
        put(first, ID, {MASTER: b"of the first host", SMALL: b"small"})
    assert second.sizes(ID) == {MASTER: 18}
    assert read(first, ID) == b"of the second host"


def test_of_concurrent_large_uploads_under_one_id_one_succeeds(opened: Open) -> None:
    def try_to_put(number: int) -> int | None:
        try:
            put(opened_hosts[number], ID, {MASTER: bytes([number]) * (9 * MIB)})
        except FileExistsError:
            return None
        return number

    opened_hosts = [opened() for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        winners = [number for number in threads.map(try_to_put, range(3)) if number is not None]
    (winner,) = winners
    assert opened_hosts[0].sizes(ID) == {MASTER: 9 * MIB}
    assert read(opened(), ID) == bytes([winner]) * (9 * MIB)


@pytest.mark.parametrize("fault", TEMPORARY)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_delete_survives_a_temporary_fault_and_leaves_nothing(
    blobs: ObjectBlobStore, proxy: FaultProxy, fault: Fault, method: str
) -> None:
    put(blobs, ID, {MASTER: b"1", SMALL: b"2"})
    proxy.inject(fault, method)
    blobs.delete(ID)
    proxy.clear()
    assert not blobs.has(ID)


def test_a_delete_is_confirmed_by_an_empty_list(
    blobs: ObjectBlobStore, proxy: FaultProxy, opened: Open
) -> None:
    put(blobs, ID, {MASTER: b"1"})
    other, stored = opened(), threading.Event()

    def store_another(request: Request) -> None:
        if request.method == "POST" and not stored.is_set():
            stored.set()
            path = other._client.store
            path.put(f"images/ab/{ID}/{SMALL}", b"late")

    proxy.on_request(store_another)
    blobs.delete(ID)
    assert blobs.sizes(ID) == {}


OPERATIONS: dict[str, Callable[[ObjectBlobStore], object]] = {
    "put": lambda blobs: put(blobs, ID, {MASTER: b"1"}),
    "open": lambda blobs: blobs.open(ID),
    "delete": lambda blobs: blobs.delete(ID),
    "sizes": lambda blobs: blobs.sizes(ID),
    "ids": lambda blobs: list(blobs.ids()),
    "has": lambda blobs: blobs.has(ID),
}


@pytest.mark.parametrize("fault", [Fault.STALL, Fault.ERROR_503, Fault.CUT])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_on_a_store_that_does_not_respond_ends_in_time(
    blobs: ObjectBlobStore, proxy: FaultProxy, fault: Fault, operation: str
) -> None:
    proxy.inject(fault, times=1_000)
    start = time.monotonic()
    with pytest.raises(UnavailableError) as caught:
        OPERATIONS[operation](blobs)
    assert time.monotonic() - start < SECONDS + 1
    assert caught.value.retry_after > 0
    assert caught.value.__cause__ is not None


def test_an_upload_of_many_files_ends_in_time(blobs: ObjectBlobStore, proxy: FaultProxy) -> None:
    files = {derivative_name(side): b"1" for side in range(1, 9)}
    proxy.on_request(lambda _: time.sleep(SECONDS / 16))
    proxy.inject(Fault.ERROR_503, "PUT", MASTER, times=1_000)
    start = time.monotonic()
    with pytest.raises(UnavailableError):
        put(blobs, ID, {MASTER: b"1"} | files)
    assert time.monotonic() - start < SECONDS + 1


def test_a_store_that_responds_again_is_used_again(blobs: ObjectBlobStore, proxy: FaultProxy) -> None:
    proxy.inject(Fault.CUT, times=1_000)
    with pytest.raises(UnavailableError):
        put(blobs, ID, {MASTER: b"1"})
    start = time.monotonic()
    with pytest.raises(UnavailableError):
        read(blobs, ID)
    assert time.monotonic() - start < 0.5, "no request is sent"
    proxy.clear()
    blobs.check_ready()
    put(blobs, ID, {MASTER: b"1"})
    assert read(blobs, ID) == b"1"
    with pytest.raises(NotFoundError):
        blobs.open(ID, SMALL)


def test_no_credentials_are_in_errors(blobs: ObjectBlobStore, proxy: FaultProxy) -> None:
    proxy.inject(Fault.CUT, times=1_000)
    with pytest.raises(UnavailableError) as caught:
        blobs.sizes(ID)
    assert "imagehost-" not in f"{caught.value}{caught.value.__cause__}"
    assert "?" not in str(caught.value.__cause__)


def test_a_bucket_with_versioning_is_rejected(s3_server: S3Server, proxy: FaultProxy) -> None:
    url = parse_storage_url(s3_server.url(endpoint=proxy.endpoint))
    assert url is not None
    require_access(open_url(str(url)), url)
    proxy.inject(Fault.ADD_VERSION, "PUT")
    with pytest.raises(SettingsError, match="expected a bucket without versioning"):
        require_access(open_url(str(url)), url)


def test_a_list_of_several_pages_survives_a_fault_between_them(
    s3_server: S3Server, proxy: FaultProxy, tmp_path: Path
) -> None:
    url = s3_server.url(endpoint=proxy.endpoint)
    store = open_url(url)
    ids = [f"{number // 100:02}{number:014}" for number in range(1_100)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda image_id: store.put(f"images/{image_id[:2]}/{image_id}/{MASTER}", b""), ids))
    with object_blobs(open_url(url), tmp_path / "data") as blobs:
        proxy.inject(Fault.ERROR_500, "GET", "continuation-token")
        assert sorted(blobs.ids()) == sorted(ids)
