"""A data directory with something of everything, copied for each test, and the means to damage it."""

from __future__ import annotations

import io
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from attrs import frozen
from PIL import Image as PILImage

from imagehost_core import Image, ImageHost, Settings
from imagehost_core.maintenance.check.findings import Finding, FindingKind
from imagehost_core.settings import RenderingSettings, WebhookSettings
from imagehost_core.testing import make_image, shared_executor

SETTINGS = Settings(
    base_url="https://img.example/v1",
    rendering=RenderingSettings(processes=1),
    webhooks=WebhookSettings(allow_loopback=True),
)
URL = "http://127.0.0.1:9/"


@frozen
class DamagedDirectory:
    """A data directory that a test damages.

    Attributes:
        path: The directory.
        photo: An image with derivatives, in an album, with an event and a variant.
        others: Images without derivatives.
    """

    path: Path
    photo: Image
    others: tuple[Image, ...]

    def folder(self, image: Image) -> Path:
        """Return the directory of an image's files."""
        return self.path / "images" / image.id[:2] / image.id

    def variants(self, image: Image) -> Path:
        """Return the directory of an image's variants."""
        return self.path / "variants" / image.id[:2] / image.id

    def execute(self, sql: str, *values: object) -> None:
        """Execute a statement as a program that does not know the schema's rules."""
        with closing(sqlite3.connect(self.path / "imagehost.sqlite3")) as connection, connection:
            connection.execute(sql, values)

    def value(self, sql: str) -> object:
        """Return the first column of the first row of a query."""
        with closing(sqlite3.connect(self.path / "imagehost.sqlite3")) as connection:
            return connection.execute(sql).fetchone()[0]

    def check(self, *, repair: bool = False, quick: bool = False) -> list[Finding]:
        """Return the findings of an integrity check in another process's place."""
        with ImageHost.open(self.path, settings=SETTINGS, recover=False, executor=shared_executor()) as host:
            return list(host.check(repair=repair, quick=quick))

    def kinds(self, *, repair: bool = False) -> Sequence[FindingKind]:
        """Return the kinds of all findings, sorted."""
        return sorted(finding.kind for finding in self.check(repair=repair))


def flip_byte(path: Path, offset: int) -> None:
    """Change one byte of a file, in place."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x55
    path.write_bytes(data)


def make_photo() -> bytes:
    """Return a JPEG that gets derivatives."""
    file = io.BytesIO()
    PILImage.effect_noise((1_800, 900), 40).convert("RGB").save(file, "JPEG", quality=80)
    return file.getvalue()


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> DamagedDirectory:
    """The undamaged data directory; tests use a copy."""
    path = tmp_path_factory.mktemp("integrity") / "data"
    with ImageHost.open(path, settings=SETTINGS, executor=shared_executor()) as host:
        album = host.albums.create(owner="admin", name="Cats")
        host.webhooks.create(owner="admin", url=URL)
        host.keys.create(owner="admin", name="key")
        photo = host.upload(make_photo(), owner="admin", format="jpeg", album_id=album.id, description="cats")
        others = tuple(
            host.upload(make_image(40, 30, seed=seed), owner="admin", filename=f"image {seed}.png")
            for seed in range(3)
        )
        host.render(photo.id, "w=100")
        host.render(others[0].id, "w=10")
    assert photo.derivatives
    return DamagedDirectory(path, photo, others)


@pytest.fixture
def directory(original: DamagedDirectory, tmp_path: Path) -> DamagedDirectory:
    """A copy of the data directory, to damage."""
    shutil.copytree(original.path, tmp_path / "data")
    return DamagedDirectory(tmp_path / "data", original.photo, original.others)


@pytest.fixture
def opened(directory: DamagedDirectory) -> Iterator[Callable[[], ImageHost]]:
    """Return a function that opens the directory as a serving host does."""
    hosts: list[ImageHost] = []

    def open_host() -> ImageHost:
        hosts.append(ImageHost.open(directory.path, settings=SETTINGS, executor=shared_executor()))
        return hosts[-1]

    yield open_host
    for host in hosts:
        host.close()
