"""Deletions during renders, garbage collections and backups: no byte is left after the response."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue

import pytest
from attrs import frozen
from tests.faults.changes import OWNER, SMALL, open_host
from tests.faults.engines import EnginePair
from tests.faults.trials import Record, run_trials, trial_count
from tests.live_files import iter_entries
from tests.object_store import open_url

from imagehost_core import ImageHost, NotFoundError
from imagehost_core.models import Image
from imagehost_core.settings import FOLDER

pytestmark = pytest.mark.slow

RENDERERS = 3
SEARCHED = ("images", "variants", "staging", "cache")
"""The directories of a data directory that hold files of images."""


class Discard:
    """A stream that keeps nothing."""

    def write(self, data: bytes) -> int:
        """Discard bytes."""
        return len(data)


@frozen
class SharedImages:
    """The image that all threads use now, and the errors of the threads."""

    current: list[Image]
    errors: SimpleQueue[BaseException]
    ended: threading.Event

    def repeat(self, work: Callable[[], object]) -> None:
        """Repeat work until the end of the test."""
        while not self.ended.is_set():
            try:
                with suppress(NotFoundError):
                    work()
            except BaseException as error:
                self.errors.put(error)
                return


def render(host: ImageHost, shared: SharedImages, rng: random.Random) -> None:
    """Render a variant of the current image; its width is in a few values, so that the caches are used."""
    image = shared.current[0]
    assert host.render(image, f"w={rng.randrange(4, 12)}&fm=png").data


@contextmanager
def running(shared: SharedImages, hosts: list[ImageHost], rng: random.Random) -> Iterator[None]:
    """Render on all hosts, collect garbage and write backups during a block."""
    works: list[Callable[[], object]] = []
    for host in hosts:
        for _ in range(RENDERERS):
            own = random.Random(rng.randrange(2**32))
            works.append(lambda host=host, own=own: render(host, shared, own))  # type: ignore[misc]
    works += [hosts[0].maintenance.collect_garbage, hosts[-1].maintenance.cleanup]
    works.append(lambda: hosts[-1].backups.write(Discard()))  # type: ignore[arg-type]
    threads = [threading.Thread(target=shared.repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        shared.ended.set()
        for thread in threads:
            thread.join()


def stored_paths(data: Path, image_id: str) -> list[str]:
    """Return the paths of a data directory that name an image."""
    paths = (path for name in SEARCHED for path in iter_entries(data / name))
    return [str(path) for path in paths if image_id in path.name or image_id in path.parent.name]


def stored_objects(storage: str, image_id: str) -> list[str]:
    """Return the keys of the object store that name an image."""
    if storage == FOLDER:
        return []
    store = open_url(storage)
    return [entry["path"] for page in store.list() for entry in page if image_id in entry["path"]]


def test_no_byte_of_an_image_is_left_or_sent_after_its_deletion_during_renders_and_garbage_collections(
    engine_pair: EnginePair, tmp_path: Path, record_property: Record
) -> None:
    shared = SharedImages([], SimpleQueue(), threading.Event())
    with (
        run_trials("a deletion during renders, gc and backups", engine_pair.name, record_property) as trials,
        engine_pair.new() as engines,
        ExitStack() as stack,
    ):
        # On SQLite two hosts share a directory, as two processes do.
        count = 2
        folders = [tmp_path / str(0 if engine_pair.postgres is None else number) for number in range(count)]
        hosts = [stack.enter_context(open_host(engines, folder)) for folder in folders]

        def check(image: Image) -> None:
            for host, folder in zip(hosts, folders, strict=True):
                with pytest.raises(NotFoundError):
                    host.render(image, "w=5&fm=png")
                assert stored_paths(folder, image.id) == []
            assert stored_objects(engines.storage, image.id) == []

        shared.current.append(hosts[0].upload(SMALL, owner=OWNER, convert_to_webp=False))
        deleted: list[Image] = []
        with running(shared, hosts, trials.random):
            for number in range(trial_count(20, 500)):
                with trials.trial(f"deletion {number}"):
                    image = hosts[number % count].upload(SMALL, owner=OWNER, convert_to_webp=False)
                    previous = shared.current[0]
                    deleted.append(previous)
                    hosts[trials.random.randrange(count)].images.delete(previous.id)
                    shared.current[0] = image
                    check(previous)
                assert shared.errors.empty(), shared.errors.get()
        # All renders have ended.
        for image in deleted:
            check(image)
        assert list(hosts[0].check()) == []
