"""A host whose images are in an S3 server: everything it does, and what it rejects when it starts."""

from __future__ import annotations

import io
import os
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import attrs
import httpx2
import pytest
from tests.certificates import create_certificate
from tests.core.services.conftest import ONE_WORKER
from tests.core.services.orphans import store_orphan
from tests.object_store import S3Server, open_url
from tests.tcp_proxy import run_tcp_proxy

from imagehost_core import (
    ConflictError,
    ImageHost,
    NotFoundError,
    UnavailableError,
    ValidationError,
    parse_transform,
    restore,
)
from imagehost_core.context import open_context
from imagehost_core.environment import Environment
from imagehost_core.errors import EngineUnavailableError
from imagehost_core.observer import Measurement, StoreBytesTransferred, StoreRequestEnded
from imagehost_core.settings import Settings, SettingsError, StorageSettings
from imagehost_core.testing import make_image

pytestmark = pytest.mark.external
LARGE = make_image(1_400, 1_100)
"""An image with derivatives."""
GRACE = "imagehost_core.cluster.object.object_blob_store.UPLOAD_GRACE_SECONDS"
AT_ONCE = -1
"""Lists can have fractions of seconds and the headers of HTTP have none: an object may be newer than now."""


def settings_of(url: str, seconds: float = 10) -> Settings:
    return attrs.evolve(ONE_WORKER, storage=StorageSettings(url=url, timeout_seconds=seconds))


def objects(url: str) -> list[str]:
    """Return the paths of all objects of images."""
    return sorted(entry["path"] for page in open_url(url).list("images/") for entry in page)


def files(directory: Path) -> list[str]:
    return [path.name for path in directory.rglob("*") if path.is_file()]


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty image store."""
    server: S3Server = request.getfixturevalue(getattr(request, "param", "s3_server"))
    return server.url()


each_server = pytest.mark.parametrize("url", ["s3_server", "moto_server", "rclone_server"], indirect=True)


Open = Callable[..., ImageHost]


@each_server
def test_an_image_is_uploaded_delivered_rendered_and_deleted(url: str, opened: Open, tmp_path: Path) -> None:
    host = opened(settings=settings_of(url))
    image = host.upload(LARGE, owner="admin", convert_to_webp=False)
    folder = f"images/{image.id[:2]}/{image.id}"
    derivatives = {f"{folder}/derivative-{max(size)}" for size in image.derivatives}
    assert derivatives
    assert set(objects(url)) == {f"{folder}/master", *derivatives}
    assert not files(tmp_path / "data" / "images")
    with host.delivery.open(host.delivery.resolve(f"{image.id}.png")) as blob:
        assert blob.read() == LARGE
    rendered = host.render(image, parse_transform("w=100&fm=png"))
    assert (rendered.width, rendered.media_type) == (100, "image/png")
    assert files(tmp_path / "data" / "cache"), "files are cached on this host"
    host.images.delete(image.id, owner="admin")
    assert objects(url) == []
    assert not files(tmp_path / "data" / "cache")
    with pytest.raises(NotFoundError):
        host.delivery.resolve(f"{image.id}.png")


def test_requests_to_the_store_and_their_bytes_are_measured(url: str, tmp_path: Path) -> None:
    measured = list[Measurement]()
    with ImageHost.open(tmp_path / "data", settings=settings_of(url), observe=measured.append) as host:
        image = host.upload(LARGE, owner="admin", convert_to_webp=False)
        stored = [entry["size"] for page in open_url(url).list("images/") for entry in page]
        assert sum_of_bytes(measured, "create") == sum(stored)
        assert sum_of_bytes(measured, "put") > 0, "the record of the installation"
        before = sum_of_bytes(measured, "get")
        with host.delivery.open(host.delivery.resolve(f"{image.id}.png")):
            assert sum_of_bytes(measured, "get") == before + len(LARGE)
        host.images.delete(image.id, owner="admin")
    requests = [each for each in measured if isinstance(each, StoreRequestEnded)]
    assert {each.operation for each in requests} == {"head", "create", "put", "get", "list", "delete"}
    assert all(each.succeeded and 0 < each.seconds < 60 for each in requests)
    assert sum(each.operation == "create" for each in requests) == len(stored)


def sum_of_bytes(measured: list[Measurement], operation: str) -> int:
    found = (each for each in measured if isinstance(each, StoreBytesTransferred))
    return sum(each.size_bytes for each in found if each.operation == operation)


def test_the_probes_of_a_store_that_does_not_respond_are_measured(
    s3_server: S3Server, tmp_path: Path
) -> None:
    measured = list[Measurement]()
    with run_tcp_proxy(int(s3_server.endpoint.rpartition(":")[2])) as proxy:
        settings = settings_of(s3_server.url(endpoint=f"http://127.0.0.1:{proxy.port}"))
        with ImageHost.open(tmp_path / "data", settings=settings, observe=measured.append) as host:
            measured.clear()
            proxy.cut()
            assert not host.maintenance.statistics().storage_responds
    failed = [each for each in measured if isinstance(each, StoreRequestEnded) and not each.succeeded]
    assert {each.operation for each in failed} == {"list"}


@each_server
def test_a_host_with_an_empty_cache_renders_from_the_store(url: str, opened: Open, tmp_path: Path) -> None:
    host = opened(settings=settings_of(url))
    image = host.upload(LARGE, owner="admin")
    first = host.render(image, parse_transform("w=200"))
    for directory in ("cache", "variants"):
        for path in (tmp_path / "data" / directory).rglob("*"):
            if path.is_file():
                path.unlink()
    host.close()
    again = opened(settings=settings_of(url)).render(image, parse_transform("w=200"))
    assert again.data == first.data


@each_server
def test_a_check_finds_a_missing_master_and_a_damaged_derivative(url: str, opened: Open) -> None:
    host = opened(settings=settings_of(url))
    lost, damaged, intact = (host.upload(LARGE, owner="admin") for _ in range(3))
    store = open_url(url)
    store.delete(f"images/{lost.id[:2]}/{lost.id}/master")
    name = f"derivative-{max(damaged.derivatives[0])}"
    path = f"images/{damaged.id[:2]}/{damaged.id}/{name}"
    # It is in the cache, but the check reads what is stored.
    host.render(damaged, parse_transform(f"w={damaged.derivatives[0][0] // 3}"))
    store.put(path, b"damaged")
    found = {(finding.kind.value, finding.id) for finding in host.check()}
    assert found == {("master_missing", lost.id), ("derivative_corrupt", f"{damaged.id}/{name}")}
    repaired = [finding for finding in host.check(repair=True) if finding.is_repaired]
    assert [finding.id for finding in repaired] == [f"{damaged.id}/{name}"]
    assert {finding.id for finding in host.check()} == {lost.id}
    assert host.render(intact, parse_transform("w=50")).width == 50


@each_server
def test_files_without_a_record_are_collected_when_no_upload_can_be_in_progress(
    url: str, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = opened(settings=settings_of(url))
    kept = host.upload(LARGE, owner="admin")
    context = open_context(host.path, settings_of(url), Environment())
    orphan = store_orphan(context)
    context.close()
    assert host.maintenance.collect_garbage().orphans == ()
    assert any(orphan in path for path in objects(url))
    monkeypatch.setattr(GRACE, AT_ONCE)
    assert host.maintenance.collect_garbage().orphans == (orphan,)
    assert not any(orphan in path for path in objects(url))
    assert host.render(kept, parse_transform("w=50")).width == 50


@each_server
def test_a_store_is_searched_after_a_crash_when_no_upload_can_be_in_progress(
    url: str, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = opened(settings=settings_of(url))
    context = open_context(host.path, settings_of(url), Environment())
    orphan = store_orphan(context)
    context.close()
    marker = tmp_path / "data" / "staging" / "killed.incomplete"
    marker.touch()
    assert host.maintenance.cleanup() == ()
    assert marker.exists()
    os.utime(marker, (0, 0))
    assert host.maintenance.cleanup() == ()
    assert marker.exists(), "the files are too new"
    monkeypatch.setattr(GRACE, AT_ONCE)
    assert host.maintenance.cleanup() == (orphan,)
    assert not marker.exists()
    assert objects(url) == []


@each_server
def test_a_backup_is_restored_into_another_store(
    url: str, s3_server: S3Server, opened: Open, tmp_path: Path
) -> None:
    host = opened(settings=settings_of(url))
    kept, deleted = (host.upload(LARGE, owner="admin") for _ in range(2))
    full, increment = io.BytesIO(), io.BytesIO()
    info = host.backups.write(full).info
    host.images.delete(deleted.id, owner="admin")
    later = host.upload(make_image(700, 600), owner="admin")
    host.backups.write(increment, since=info.created_at)
    full.seek(0)
    increment.seek(0)
    target = settings_of(s3_server.url())
    result = restore([full, increment], tmp_path / "restored", settings=target)
    assert result.image_count == 2
    restored = opened(tmp_path / "restored", target)
    assert {finding.kind for finding in restored.check()} == set()
    assert sorted(objects(target.storage.url)) == sorted(objects(url))
    for image in (kept, later):
        assert restored.render(image, parse_transform("w=50")).width == 50
    assert sorted(path.name for path in (tmp_path / "restored").iterdir() if path.name == "restoring") == []


def test_a_damaged_backup_leaves_nothing_in_the_store(
    url: str, s3_server: S3Server, opened: Open, tmp_path: Path
) -> None:
    host = opened(settings=settings_of(url))
    for _ in range(3):
        host.upload(LARGE, owner="admin")
    stream = io.BytesIO()
    host.backups.write(stream)
    target = s3_server.url()
    with pytest.raises(ValidationError):
        restore(
            [io.BytesIO(stream.getvalue()[:-100])],
            tmp_path / "new",
            settings=Settings(storage=StorageSettings(url=target)),
        )
    assert objects(target) == []
    assert not (tmp_path / "new").exists()
    stream.seek(0)
    restore([stream], tmp_path / "new", settings=Settings(storage=StorageSettings(url=target)))
    assert len(objects(target)) == len(objects(url))


def test_a_backup_is_not_restored_into_a_store_with_images(url: str, opened: Open, tmp_path: Path) -> None:
    host = opened(settings=settings_of(url))
    host.upload(LARGE, owner="admin")
    stream = io.BytesIO()
    host.backups.write(stream)
    stream.seek(0)
    before = objects(url)
    with pytest.raises(ConflictError, match="expected no host in s3://"):
        restore([stream], tmp_path / "new", settings=Settings(storage=StorageSettings(url=url)))
    assert objects(url) == before


def test_a_backup_that_names_another_store_is_not_restored(opened: Open, url: str, tmp_path: Path) -> None:
    host = opened(settings=settings_of(url))
    (tmp_path / "data" / "imagehost.toml").write_text(f'[storage]\nurl = "{url}"\n')
    stream = io.BytesIO()
    host.backups.write(stream)
    stream.seek(0)
    with pytest.raises(ValidationError, match=r"storage\.url 'folder' in the imagehost\.toml"):
        restore([stream], tmp_path / "new")


@pytest.mark.parametrize(
    ("variable", "value", "received"),
    [
        ("AWS_SECRET_ACCESS_KEY", "wrong", "SignatureDoesNotMatch"),
        ("AWS_ACCESS_KEY_ID", "unknown", "InvalidAccessKeyId"),
    ],
)
def test_wrong_credentials_are_an_error_at_startup_that_has_no_secret(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, received: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=received) as caught:
        ImageHost.open(tmp_path, settings=settings_of(url))
    assert "wrong" not in str(caught.value)
    assert "imagehost-secret" not in str(caught.value)


def test_a_missing_bucket_is_an_error_at_startup_that_may_end(s3_server: S3Server, tmp_path: Path) -> None:
    url = s3_server.url().replace("s3://images/", "s3://missing/")
    expected = r"expected access to s3://missing/.* but received NoSuchBucket"
    with pytest.raises(EngineUnavailableError, match=expected) as caught:
        ImageHost.open(tmp_path, settings=settings_of(url))
    assert caught.value.engine == "storage"
    assert "<" not in str(caught.value)


def test_a_bucket_with_versioning_is_rejected(moto_server: S3Server, tmp_path: Path) -> None:
    bucket = f"{moto_server.endpoint}/versioned"
    enabled = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    httpx2.put(bucket).raise_for_status()
    httpx2.put(f"{bucket}?versioning", content=enabled).raise_for_status()
    url = moto_server.url().replace("s3://images/", "s3://versioned/")
    with pytest.raises(SettingsError, match="expected a bucket without versioning"):
        ImageHost.open(tmp_path, settings=settings_of(url))


def test_an_unknown_certificate_is_an_error_at_startup(tmp_path: Path) -> None:
    certificate = create_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"s3://images/x?endpoint=https://127.0.0.1:{server.server_port}"
        try:
            with pytest.raises(SettingsError, match=r"127\.0\.0\.1:.*invalid certificate: \w+$"):
                ImageHost.open(tmp_path / "data", settings=settings_of(url))
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("endpoint", "received"),
    [("127.0.0.1:1", "Connection refused"), ("no.invalid", "failed to lookup address")],
)
@pytest.mark.usefixtures("s3_server")
def test_a_store_that_is_not_reached_is_an_error_of_a_new_host(
    tmp_path: Path, endpoint: str, received: str
) -> None:
    url = f"s3://images/x?endpoint=http://{endpoint}"
    with pytest.raises(EngineUnavailableError, match=rf"{endpoint}.*{received}"):
        ImageHost.open(tmp_path / "data", settings=settings_of(url))


def test_readiness_includes_the_store(url: str, opened: Open, s3_server: S3Server) -> None:
    opened(settings=settings_of(url)).maintenance.check_ready()
    unreachable = url.replace(s3_server.endpoint, "http://127.0.0.1:1")
    host = opened(settings=settings_of(unreachable, seconds=1))
    with pytest.raises(UnavailableError, match="no response from storage"):
        host.maintenance.check_ready()
    with pytest.raises(UnavailableError):
        host.upload(LARGE, owner="admin")
