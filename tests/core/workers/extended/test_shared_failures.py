"""Failed renders, and the requests that wait for their results."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import BinaryIO

import attrs
import pytest
from tests.waiting import PATIENCE, wait_until

from imagehost_core import Image, ImageHost, Size, Transform, plan
from imagehost_core.context import HostContext, open_context
from imagehost_core.environment import Environment
from imagehost_core.errors import ImageHostError, InternalError, NotFoundError, UnavailableError
from imagehost_core.formats import Format
from imagehost_core.ids import ImageId
from imagehost_core.jobs import RenderJob
from imagehost_core.services.rendering import RenderingService, cache_key
from imagehost_core.settings import Settings
from imagehost_core.steps import run_steps
from imagehost_core.storage import MemoryBlobStore
from imagehost_core.storage.blob_store import MASTER
from imagehost_core.testing import make_image
from imagehost_core.workers.executor import ImageExecutor

MakeExecutor = Callable[..., ImageExecutor]

JOB = RenderJob(plan(Size(8, 6), Transform(4)), Format.PNG, None)
FOLLOWERS = 4


class GatedBlobs(MemoryBlobStore):
    """Files of given contents, one after the other; the first is opened when the gate is.

    Args:
        contents: The content of each file that is opened, or the error; the last one also of further files.

    Attributes:
        gate: Set by the test, so that the first file is opened.
        waiting: Set when a request waits for the gate.
        opened: The number of files that were opened.
    """

    def __init__(self, *contents: bytes | Exception) -> None:
        super().__init__()
        self._contents = contents
        self.gate, self.waiting, self.opened = Event(), Event(), 0

    def open(  # the same signature as the method that it replaces
        self,
        image_id: ImageId,  # noqa: ARG002
        name: str = MASTER,  # noqa: ARG002
        *,
        checksum: str | int | None = None,  # noqa: ARG002
        fresh: bool = False,  # noqa: ARG002
    ) -> BinaryIO:
        content = self._contents[min(self.opened, len(self._contents) - 1)]
        self.opened += 1
        self.waiting.set()
        assert self.gate.wait(PATIENCE)
        if isinstance(content, Exception):
            raise content
        return io.BytesIO(content)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostContext]:
    path = tmp_path_factory.mktemp("failures") / "data"
    with ImageHost.open(path) as host:
        host.upload(make_image(8, 6), owner="admin")
    opened = open_context(path, Settings(), Environment())
    yield opened
    opened.close()


@pytest.fixture
def image(context: HostContext) -> Image:
    with ImageHost.open(Path(context.layout.root)) as host:
        return host.upload(make_image(8, 6), owner="admin", convert_to_webp=False)


def render_together(
    context: HostContext,
    executor: ImageExecutor,
    image: Image,
    blobs: GatedBlobs,
    *,
    first_timeout: float = PATIENCE,
    kill: bool = False,
) -> tuple[Future[bytes], list[Future[bytes]]]:
    """Request a variant, and request it again while its render runs; return both when all have ended."""
    executor.status()

    def request(timeout: float) -> bytes:
        service = RenderingService(attrs.evolve(context.files, blobs=blobs), executor, timeout)
        variant = run_steps(service.render(image, cache_key(JOB), JOB))
        assert isinstance(variant, bytes)
        return variant

    with ThreadPoolExecutor(1 + FOLLOWERS) as threads:
        first = threads.submit(request, first_timeout)
        assert blobs.waiting.wait(PATIENCE)
        others = [threads.submit(request, PATIENCE) for _ in range(FOLLOWERS)]
        wait_until(lambda: executor.load.waiting == FOLLOWERS)
        if kill:
            os.kill(executor.worker_pids[0], signal.SIGKILL)
        blobs.gate.set()
    return first, others


@pytest.mark.parametrize(
    ("content", "kind", "details"),
    [
        (b"raise_unexpected\n", InternalError, ""),
        (b"raise_unavailable\n", UnavailableError, "expected less"),
        (b"segfault\n", UnavailableError, "rendering the image failed"),
        (b"exhaust_memory\n", UnavailableError, "more memory"),
        (NotFoundError("no such file"), NotFoundError, "no such file"),
        (OSError("the disk has failed"), InternalError, ""),
    ],
)
def test_requests_that_wait_for_a_render_get_its_error_and_do_not_repeat_it(
    context: HostContext,
    make_executor: MakeExecutor,
    image: Image,
    content: bytes | Exception,
    kind: type[ImageHostError],
    details: str,
) -> None:
    blobs = GatedBlobs(content, b"repeated")
    first, others = render_together(context, make_executor(), image, blobs)
    assert blobs.opened == 1
    errors = [other.exception(0) for other in others]
    assert [type(error) for error in errors] == [kind] * FOLLOWERS
    assert len({id(error) for error in (first.exception(0), *errors)}) == 1 + FOLLOWERS
    assert len({str(error) for error in errors}) == 1
    assert details in str(errors[0])
    if isinstance(first.exception(0), ImageHostError):
        assert str(first.exception(0)) == str(errors[0])


@pytest.mark.parametrize(
    ("first_timeout", "kill", "details"),
    [(3.0, False, "it hangs"), (PATIENCE, True, "interrupted")],
)
def test_a_failure_that_concerns_one_request_only_lets_the_next_one_render(
    context: HostContext,
    make_executor: MakeExecutor,
    image: Image,
    first_timeout: float,
    kill: bool,
    details: str,
) -> None:
    blobs = GatedBlobs(b"sleep\n", b"content")
    first, others = render_together(
        context, make_executor(), image, blobs, first_timeout=first_timeout, kill=kill
    )
    with pytest.raises(UnavailableError, match=details):
        first.result(0)
    assert {other.result(0) for other in others} == {b"png:content"}
    assert blobs.opened == 2


def test_a_request_after_a_failure_renders_again(
    context: HostContext, make_executor: MakeExecutor, image: Image
) -> None:
    executor, blobs = make_executor(), GatedBlobs(b"raise_unexpected\n", b"content")
    render_together(context, executor, image, blobs)
    service = RenderingService(attrs.evolve(context.files, blobs=blobs), executor, PATIENCE)
    assert run_steps(service.render(image, cache_key(JOB), JOB)) == b"png:content"
