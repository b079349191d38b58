"""Deletion: once it returns, no byte is left in any process, and none can come back."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.core.services.conftest import Stores
from tests.waiting import PATIENCE

from imagehost_core import ImageHost, NotFoundError
from imagehost_core.steps import advance
from imagehost_core.testing import make_image

if TYPE_CHECKING:
    from tests.programs import Program

EACH_ENGINE = True

PNG = make_image(40, 30)
QUERY = "w=10&fm=png"

SERVE = """
    import sys
    from imagehost_core import ImageHost, NotFoundError, Settings
    from imagehost_core.settings import RenderingSettings

    def outcome(ask):
        try:
            return ask()
        except NotFoundError:
            return "404"

    settings = Settings(rendering=RenderingSettings(processes=1))
    with ImageHost.open(sys.argv[1], settings=settings) as host:
        print("open")
        for line in sys.stdin:
            image_id, query = line.split()
            delivery = host.delivery.resolve(image_id, query)
            host.delivery.open(delivery).close()
            print("in memory" if host.delivery.read_nowait(delivery)[0] == "memory" else "lost")
            sys.stdin.readline()
            print(outcome(lambda: host.delivery.resolve_cached(image_id, query)))
            print(outcome(lambda: host.delivery.resolve(image_id, query)))
            print(outcome(lambda: host.delivery.open(delivery)))
            print(outcome(lambda: host.images.get(image_id)))
            print(image_id in [image.id for image in host.gallery()])
"""

PAUSE = """
    import os, sys
    from imagehost_core import ImageHost, Settings
    from imagehost_core.settings import RenderingSettings

    paused = False

    def pause(event, arguments):
        global paused
        if event == "os.rename" and not paused:
            paused = True
            print("between")
            sys.stdin.readline()

    with ImageHost.open(sys.argv[1], settings=Settings(rendering=RenderingSettings(processes=1))) as host:
        sys.addaudithook(pause)
        host.images.delete(sys.argv[2])
        print("deleted")
        sys.stdin.readline()
"""

FINISH = """
    import sys
    from imagehost_core import ImageHost

    paused = False

    def pause(event, arguments):
        global paused
        if event == "os.rename" and sys.argv[2] in str(arguments[0]) and not paused:
            paused = True
            print("between")
            sys.stdin.readline()

    sys.addaudithook(pause)
    with ImageHost.open(sys.argv[1]) as host:
        print("finished")
        sys.stdin.readline()
"""


def test_a_deleted_image_is_gone_everywhere_and_deleting_it_again_is_404(
    host: ImageHost, folder: Path, stored_files: Callable[[Path], list[str]]
) -> None:
    before = stored_files(folder)
    image = host.upload(PNG, owner="admin", filename="cat.png", convert_to_webp=False)
    for query in ("w=10", "w=12&fm=jpg", "h=9&fm=avif"):
        host.render(image.id, query)
    delivery = host.delivery.resolve(image.id, "w=10")
    gone = host.images.delete(image.id, owner="admin")
    assert (gone.id, gone.deleted) == (image.id, True)
    assert stored_files(folder) == before
    assert host.accounts.usage("admin").bytes == 0
    for ask in (
        lambda: host.images.get(image.id),
        lambda: host.delivery.resolve(image.id),
        lambda: host.delivery.open(delivery),
        lambda: host.render(image.id),
        lambda: host.images.update(image.id, description="x"),
        lambda: host.images.delete(image.id),
    ):
        with pytest.raises(NotFoundError):
            ask()
    assert host.delivery.resolve_cached(image.id, "w=10") is None
    assert host.images.list(owner="admin").total == host.gallery().total == 0


def test_deleting_one_of_two_equal_images_leaves_the_other(host: ImageHost) -> None:
    first, second = (host.upload(PNG, owner="admin", convert_to_webp=False) for _ in range(2))
    host.render(first.id, QUERY)
    host.images.delete(first.id)
    assert host.render(second.id).data == PNG
    host.images.delete(second.id)


def test_deleting_another_accounts_image_is_the_same_404_as_a_missing_image(host: ImageHost) -> None:
    image = host.upload(PNG, owner="admin")
    with pytest.raises(NotFoundError) as foreign:
        host.images.delete(image.id, owner=host.accounts.get_or_create("other"))
    host.images.delete(image.id, owner="admin")
    with pytest.raises(NotFoundError) as missing:
        host.images.delete(image.id, owner="admin")
    assert str(foreign.value) == str(missing.value)
    with pytest.raises(NotFoundError):
        host.images.delete("../../etc/passwd")


def test_one_of_many_concurrent_deletes_of_an_image_succeeds(host: ImageHost) -> None:
    image = host.upload(PNG, owner="admin")

    def delete(_turn: int) -> bool:
        try:
            return host.images.delete(image.id).id == image.id
        except NotFoundError:
            return False

    with ThreadPoolExecutor(8) as executor:
        assert sum(executor.map(delete, range(16))) == 1
    assert host.accounts.usage("admin").bytes == 0


def test_another_process_with_a_warm_cache_responds_404_at_once(
    host: ImageHost, folder: Path, program: Callable[..., Program]
) -> None:
    other = program(SERVE, folder)
    assert other.read_line() == "open"
    for _ in range(2):
        image = host.upload(PNG, owner="admin")
        other.write_line(f"{image.id} {QUERY}")
        assert other.read_line() == "in memory"
        host.images.delete(image.id)
        other.write_line()
        assert [other.read_line() for _ in range(5)] == ["None", "404", "404", "404", "False"]
    assert other.end() == 0


def test_a_read_between_the_commit_and_the_last_unlink_is_not_cached(
    host: ImageHost, folder: Path, program: Callable[..., Program]
) -> None:
    image = host.upload(PNG, owner="admin")
    delivery = host.delivery.resolve(image.id, QUERY)
    host.delivery.open(delivery).close()
    other = program(PAUSE, folder, image.id)
    assert other.read_line() == "between"
    with pytest.raises(NotFoundError):
        host.delivery.resolve(image.id, QUERY)
    with host.delivery.open(delivery) as blob:
        assert blob.size > 0, "a request that was under way when the deletion began"
    other.write_line()
    assert other.read_line() == "deleted"
    with pytest.raises(NotFoundError):
        host.delivery.open(delivery)


def test_a_read_while_an_interrupted_deletion_is_finished_is_not_cached(
    host: ImageHost, folder: Path, program: Callable[..., Program]
) -> None:
    image = host.upload(PNG, owner="admin")
    delivery = host.delivery.resolve(image.id, QUERY)
    host.delivery.open(delivery).close()
    killed = program(PAUSE, folder, image.id)
    assert killed.read_line() == "between"
    killed.kill()
    finishing = program(FINISH, folder, image.id)
    assert finishing.read_line() == "between"
    with host.delivery.open(delivery) as blob:
        assert blob.size > 0
    finishing.write_line()
    assert finishing.read_line() == "finished"
    with pytest.raises(NotFoundError):
        host.delivery.open(delivery)


def test_a_render_in_progress_cannot_restore_a_deleted_image(
    host: ImageHost, folder: Path, stored_files: Callable[[Path], list[str]], stores: Stores
) -> None:
    before = stored_files(folder)
    image = host.upload(PNG, owner="admin")
    variants = stores(host).files.variants
    queued = host.delivery.open_in_steps(host.delivery.resolve(image.id, QUERY))
    has_worker = advance(queued)
    assert isinstance(has_worker, Future)
    has_worker.result(PATIENCE)
    host.images.delete(image.id)
    with pytest.raises(NotFoundError):
        advance(queued)
    with pytest.raises(NotFoundError):
        variants.put(image.id, "key", b"rendered before the deletion")
    assert variants.get(image.id, "key") is None
    assert stored_files(folder) == before


def test_a_render_concurrent_with_a_deletion_is_complete_or_404_and_leaves_nothing(
    host: ImageHost, folder: Path, stored_files: Callable[[Path], list[str]]
) -> None:
    before = stored_files(folder)
    with ThreadPoolExecutor(4) as executor:
        for turn in range(6):
            image = host.upload(PNG, owner="admin")
            delivery = host.delivery.resolve(image.id, f"w={20 + turn}&fm=png")
            renders = [executor.submit(host.delivery.open, delivery) for _ in range(3)]
            host.images.delete(image.id)
            for render in renders:
                with suppress(NotFoundError), render.result(PATIENCE) as blob:
                    assert blob.read().startswith(b"\x89PNG")
            with pytest.raises(NotFoundError):
                host.delivery.open(delivery)
    assert stored_files(folder) == before


def test_deleting_an_album_with_delete_images_deletes_its_images(host: ImageHost) -> None:
    album = host.albums.create(owner="admin", name="a")
    image = host.upload(PNG, owner="admin", album_id=album.id)
    host.albums.delete(album.id, owner="admin", delete_images=True)
    with pytest.raises(NotFoundError):
        host.images.get(image.id)
    assert host.accounts.usage("admin").bytes == 0
