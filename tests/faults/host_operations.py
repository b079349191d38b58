"""Changes of a host as data, so that any process can make them: by name, with arguments that JSON can hold.

`main` is a program that reads a change from each line of its input, makes it in a child process that kills
itself at a step of it, and writes the exit status and the result.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from datetime import datetime
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from attrs import frozen
from PIL import Image as PillowImage

from imagehost_core import ImageHost, ImageHostError, Settings
from imagehost_core.settings import RenderingSettings
from imagehost_core.testing import FrozenClock, make_image

if TYPE_CHECKING:
    from types import FrameType

PUBLIC_ADDRESS = "93.184.216.34"
STEPS = frozenset(
    (
        *("execute", "executemany", "commit", "__exit__", "fetchall", "open", "write", "fsync", "rename"),
        *("replace", "unlink", "rmdir", "mkdir", "link", "flock", "lockf", "put", "delete", "get", "list"),
    )
)
"""Names of functions whose calls and returns are the steps of a change."""


def _save(name: str, frames: int) -> bytes:
    images = [PillowImage.open(BytesIO(make_image(30, 20, seed=number))) for number in range(frames)]
    file = BytesIO()
    more: dict[str, Any] = {"save_all": True, "append_images": images[1:]} if frames > 1 else {}
    images[0].save(file, name, **more)
    return file.getvalue()


CONTENTS = (
    make_image(24, 16),
    make_image(60, 40, seed=7),
    _save("JPEG", 1),
    _save("WEBP", 1),
    _save("GIF", 2),
)
"""The files that are uploaded, by number."""


def _upload(
    host: ImageHost, owner: str, content: int, filename: str, key: str | None, options: dict[str, Any]
) -> Any:
    data = CONTENTS[content]
    if key is None:
        return host.upload(data, owner=owner, filename=filename, **options).id
    account, fingerprint = host.accounts.get(owner), json.dumps([content, filename, options], sort_keys=True)
    with host.idempotency.begin(account, key, fingerprint) as request:
        if request.response is not None:
            return request.response.body.decode()
        operation = request.sub_operation(0)
        image = host.upload(data, owner=owner, filename=filename, idempotency=operation, **options)
        request.complete(200, image.id.encode())
        return image.id


def _create_key(host: ImageHost, owner: str, scopes: list[str]) -> Any:
    created = host.keys.create(owner=owner, scopes=scopes)  # type: ignore[arg-type]
    return [created.id, created.token]


def _create_webhook(host: ImageHost, owner: str, events: list[str]) -> Any:
    return host.webhooks.create(owner=owner, url="https://example.com/hook", events=events).id  # type: ignore[arg-type]


def _statuses(results: Any) -> Any:
    return [[result.id, result.status.value] for result in results]


def _memberships(results: Any) -> Any:
    return [[result.image_id, result.status.value] for result in results[1]]


OPERATIONS: dict[str, Callable[..., Any]] = {
    "upload": _upload,
    "update": lambda host, owner, image, changes: host.images.update(image, owner=owner, **changes) and None,
    "update_many": lambda host, owner, images, changes: _statuses(
        host.images.update_many(images, owner=owner, **changes)
    ),
    "delete": lambda host, owner, image: host.images.delete(image, owner=owner) and None,
    "delete_many": lambda host, owner, images: _statuses(host.images.delete_many(images, owner=owner)),
    "create_album": lambda host, owner, name, is_public: (
        host.albums.create(owner=owner, name=name, is_public=is_public).id
    ),
    "update_album": lambda host, owner, album, changes: (
        host.albums.update(album, owner=owner, **changes) and None
    ),
    "delete_album": lambda host, owner, album, delete_images, images_public: (
        host.albums.delete(
            album, owner=owner, delete_images=delete_images, images_public=images_public
        ).made_private_count
    ),
    "add_images": lambda host, owner, album, images: _memberships(
        host.albums.add_images(album, images, owner=owner)
    ),
    "remove_images": lambda host, owner, album, images: _memberships(
        host.albums.remove_images(album, images, owner=owner)
    ),
    "update_account": lambda host, account, changes: host.accounts.update(account, **changes) and None,
    "create_key": _create_key,
    "revoke_key": lambda host, owner, key: host.keys.delete(key, owner=owner) and None,
    "create_webhook": _create_webhook,
    "delete_webhook": lambda host, owner, webhook: host.webhooks.delete(webhook, owner=owner),
}
"""Each change: a function of a host and arguments. It returns what JSON can hold, such as a new id."""


@frozen
class HostSource:
    """What opens a host in any process.

    Attributes:
        path: Its data directory.
        database: The URL of its database, or `sqlite`.
        storage: The URL of its storage, or `folder`.
    """

    path: str
    database: str
    storage: str

    def open(self, clock: FrozenClock, seed: str) -> ImageHost:
        """Open the host.

        Args:
            clock: Its clock.
            seed: The seed of its random bytes.
        """
        settings = Settings(
            base_url="https://img.example/v1",
            database=self.database,
            rendering=RenderingSettings(processes=1),
        )
        storage = attrs.evolve(settings.storage, url=self.storage)
        return ImageHost.open(
            Path(self.path),
            settings=attrs.evolve(settings, storage=storage),
            clock=clock,
            random=random.Random(seed).randbytes,
            resolve=lambda _host, _port: [PUBLIC_ADDRESS],
        )


def kill_at(step: int) -> None:
    """Kill this process when a thread reaches a step: a call or a return of a function in `STEPS`.

    Args:
        step: The number of the step, from 1.
    """
    numbers = count(1)

    def trace(frame: FrameType, event: str, argument: Any) -> None:
        name = argument.__name__ if event.startswith("c_") else frame.f_code.co_name
        if name in STEPS and next(numbers) >= step:
            os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(trace)
    sys.setprofile(trace)


def _run(request: dict[str, Any]) -> Any:
    clock = FrozenClock(datetime.fromisoformat(request["now"]))
    with HostSource(**request["source"]).open(clock, request["seed"]) as host:
        kill_at(request["step"])
        try:
            return {"result": OPERATIONS[request["name"]](host, **request["arguments"])}
        except ImageHostError as error:
            return {"error": type(error).__name__}
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def main() -> None:
    """Serve requests until the input ends."""
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            status = 1
            try:
                os.write(writer, json.dumps(_run(json.loads(line))).encode())
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            text = file.read().decode() or "null"
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(json.dumps([status, json.loads(text)]) + "\n")
        sys.stdout.flush()
