"""Copies of files and variants on a host that was away while another one deleted their image."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest
from tests.core.services.conftest import ONE_WORKER
from tests.object_store import S3Server
from tests.tcp_proxy import TcpProxy, run_tcp_proxy
from tests.waiting import wait_until

from imagehost_core import ImageHost
from imagehost_core.models import Image
from imagehost_core.settings import StorageSettings
from imagehost_core.testing import make_image

pytestmark = pytest.mark.external
OpenHost = Callable[..., ImageHost]


@pytest.fixture
def open_host(postgres_url: str, s3_server: S3Server, tmp_path: Path) -> Iterator[OpenHost]:
    """Open a host of its own by its name, on one database and one object store."""
    storage = StorageSettings(url=s3_server.url())
    with ExitStack() as stack:

        def open_one(name: str, url: str = postgres_url) -> ImageHost:
            settings = attrs.evolve(ONE_WORKER, database=url, storage=storage)
            return stack.enter_context(ImageHost.open(tmp_path / name, settings=settings))

        yield open_one


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[TcpProxy]:
    """The network between one of the hosts and the database."""
    with run_tcp_proxy(int(postgres_url.rpartition(":")[2].partition("/")[0])) as running:
        yield running


def files(host: ImageHost, image: Image) -> set[str]:
    """Return the directories in which a host has files of an image."""
    found = (path for path in host.path.rglob(f"{image.id}/*") if path.is_file())
    return {path.relative_to(host.path).parts[0] for path in found}


def use(host: ImageHost, image: Image) -> None:
    """Let a host have copies of an image's file and of a variant."""
    host.render(image, "w=10")
    assert files(host, image) == {"cache", "variants"}


def test_a_deletion_is_answered_when_no_other_host_has_a_file_of_the_image(open_host: OpenHost) -> None:
    here, there = open_host("here"), open_host("there")
    for _ in range(5):
        image = here.upload(make_image(40, 30), owner="admin")
        use(there, image)
        here.images.delete(image, owner="admin")
        assert files(there, image) == set()


def test_a_host_that_was_stopped_removes_the_files_of_deleted_images_when_it_is_opened(
    open_host: OpenHost,
) -> None:
    here, there = open_host("here"), open_host("there")
    kept, deleted = (here.upload(make_image(40, 30, seed=seed), owner="admin") for seed in range(2))
    for image in (kept, deleted):
        use(there, image)
    there.close()
    here.images.delete(deleted, owner="admin")
    assert files(there, deleted) == {"cache", "variants"}
    again = open_host("there")
    assert files(again, deleted) == set()
    assert files(again, kept) == {"cache", "variants"}


def test_a_host_that_was_cut_off_removes_them_by_its_next_cleanup(
    open_host: OpenHost, proxy: TcpProxy, postgres_url: str
) -> None:
    here = open_host("here")
    server = postgres_url.rpartition("@")[2]
    there = open_host("there", postgres_url.replace(server.partition("/")[0], f"127.0.0.1:{proxy.port}"))
    image = here.upload(make_image(40, 30), owner="admin")
    use(there, image)
    proxy.cut()
    here.images.delete(image, owner="admin")
    assert files(there, image) == {"cache", "variants"}
    proxy.restore()

    def is_removed() -> bool:
        there.maintenance.cleanup()
        return not files(there, image)

    wait_until(is_removed)
