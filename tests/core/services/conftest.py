"""Fixtures of the service tests: a shared host, sample images, and the files of a data directory."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest
from PIL import Image as PILImage
from tests.postgres import PostgresServer

from imagehost_core import ImageHost, Settings
from imagehost_core._util.clock import Clock, utc_now
from imagehost_core.context import HostContext, open_context
from imagehost_core.environment import Environment
from imagehost_core.settings import SQLITE, RenderingSettings
from imagehost_core.testing import make_image, shared_executor

ONE_WORKER = Settings(base_url="https://img.example/v1", rendering=RenderingSettings(processes=1))


@pytest.fixture(scope="module")
def folder(host: ImageHost) -> Path:
    """The data directory of this module's host."""
    return host.path


@pytest.fixture(scope="module")
def host(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, engine: str
) -> Iterator[ImageHost]:
    """A host that the tests of a module share; its worker is that of all such hosts."""
    with ExitStack() as stack:
        settings = ONE_WORKER
        if engine != SQLITE:
            server: PostgresServer = request.getfixturevalue("postgres_server")
            settings = attrs.evolve(settings, database=stack.enter_context(server.empty_database()))
        path = tmp_path_factory.mktemp("host")
        yield stack.enter_context(ImageHost.open(path, settings=settings, executor=shared_executor()))


Stores = Callable[[ImageHost], HostContext]


@pytest.fixture
def stores() -> Iterator[Stores]:
    """Open the stores of a host's data directory beside the host, as another process does."""
    opened: dict[Path, HostContext] = {}

    def stores_of(host: ImageHost) -> HostContext:
        if host.path not in opened:
            opened[host.path] = open_context(host.path, host.settings, Environment())
        return opened[host.path]

    yield stores_of
    for context in opened.values():
        context.close()


@pytest.fixture
def opened(request: pytest.FixtureRequest, tmp_path: Path, engine: str) -> Iterator[Callable[..., ImageHost]]:
    """Open further hosts, on the same directory unless another is given; other workers are their own."""
    hosts: list[ImageHost] = []
    database = SQLITE if engine == SQLITE else request.getfixturevalue("postgres_url")

    def open_host(
        where: Path = tmp_path / "data", settings: Settings = ONE_WORKER, clock: Clock = utc_now
    ) -> ImageHost:
        used = attrs.evolve(settings, database=database)
        executor = shared_executor() if settings.rendering == ONE_WORKER.rendering else None
        hosts.append(ImageHost.open(where, settings=used, clock=clock, executor=executor))
        return hosts[-1]

    yield open_host
    for each in hosts:
        each.close()


def _saved(kind: str, *frames: PILImage.Image, **options: object) -> bytes:
    file = io.BytesIO()
    more = {"save_all": True, "append_images": frames[1:], "duration": 80} if len(frames) > 1 else {}
    frames[0].save(file, kind, **more, **options)
    return file.getvalue()


@pytest.fixture(scope="session")
def samples() -> dict[str, bytes]:
    """Small image files by name: opaque and transparent, still and animated, upright and rotated."""
    gradient = PILImage.open(io.BytesIO(make_image(120, 90))).convert("RGB")
    glass = gradient.convert("RGBA")
    glass.putalpha(PILImage.linear_gradient("L").resize(gradient.size))
    moving = [gradient.rotate(30 * turn).quantize(32).convert("RGB") for turn in range(4)]
    exif = PILImage.Exif()
    exif[0x0112], exif[0x010F] = 6, "Camera"
    return {
        "photo.jpg": _saved("JPEG", gradient, quality=92),
        "sideways.jpg": _saved("JPEG", gradient, quality=92, exif=exif),
        "still.png": make_image(120, 90),
        "glass.png": _saved("PNG", glass),
        "glass.webp": _saved("WEBP", glass, quality=90),
        "photo.webp": _saved("WEBP", gradient, quality=70),
        "still.gif": _saved("GIF", moving[0]),
        "moving.gif": _saved("GIF", *moving),
        "moving.webp": _saved("WEBP", *moving),
    }


@pytest.fixture
def stored_files() -> Callable[[Path], list[str]]:
    """List the files of images in a data directory, without locks and markers."""

    def list_files(directory: Path) -> list[str]:
        subdirectories = ("images", "variants", "staging")
        paths = (path for name in subdirectories for path in (directory / name).rglob("*") if path.is_file())
        return sorted(
            str(path.relative_to(directory))
            for path in paths
            if path.name not in {"lock", "installation.json"} and path.suffix != ".incomplete"
        )

    return list_files
