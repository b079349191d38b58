"""Camera data of stored images, and the removal of it, on each engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from tests.core.headers.test_headers_camera import photograph
from tests.core.headers.test_headers_place import NAME_FILES, POSITION_FILES
from tests.core.services.conftest import ONE_WORKER
from tests.open_host import open_host

from imagehost_core import ImageHost
from imagehost_core.headers.camera import CameraData
from imagehost_core.settings import StorageSettings
from imagehost_core.uploads import UploadFormat


@pytest.fixture(
    scope="module", params=["data directory", pytest.param("external", marks=pytest.mark.external)]
)
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageHost]:
    """A host on a data directory, or on PostgreSQL and an S3 server."""
    path: Path = tmp_path_factory.mktemp("camera")
    settings = ONE_WORKER
    if request.param == "external":
        server, store = (request.getfixturevalue(name) for name in ("postgres_server", "s3_server"))
        with server.empty_database() as url:
            settings = attrs.evolve(ONE_WORKER, database=url, storage=StorageSettings(url=store.url()))
            with open_host(path, settings=settings) as opened:
                yield opened
        return
    with open_host(path, settings=settings) as opened:
        yield opened


FILES = {
    "EXIF": photograph(),
    **POSITION_FILES,
    **{f"IPTC in {kind}": data for kind, data in NAME_FILES.items()},
}


@pytest.mark.parametrize("kind", FILES)
def test_a_place_is_read_from_the_stored_file_unless_metadata_is_removed(host: ImageHost, kind: str) -> None:
    stored = host.upload(FILES[kind], owner="admin", convert_to_webp=False)
    assert host.camera_data(stored).has_place
    removed = host.upload(FILES[kind], owner="admin", convert_to_webp=False, remove_exif=True)
    assert removed.format is stored.format
    assert host.camera_data(removed) == CameraData()


@pytest.mark.parametrize("format_", ["webp", "jpeg", "png"])
def test_a_place_in_xmp_is_read_from_converted_images_too(host: ImageHost, format_: UploadFormat) -> None:
    stored = host.upload(POSITION_FILES["WebP"], owner="admin", format=format_, quality=50)
    assert host.camera_data(stored).has_place
    removed = host.upload(POSITION_FILES["WebP"], owner="admin", format=format_, quality=50, remove_exif=True)
    assert host.camera_data(removed) == CameraData()
