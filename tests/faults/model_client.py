"""A client of the HTTP interface with a model of what the server has acknowledged."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from time import sleep
from typing import Any

import httpx2
from attrs import define, field

TIMEOUT = 90.0
"""Seconds that a response may take on a busy machine."""


@define
class StoredImage:
    """An image that was acknowledged.

    Attributes:
        sha256: The SHA-256 of its master.
        word: A word in its description that no other image has.
        is_public: Whether it is public.
        album_id: Its album.
    """

    sha256: str
    word: str
    is_public: bool
    album_id: int | None


@define
class ModelClient:
    """A client whose images and albums no other client changes.

    Args:
        origin: Scheme, host and port of the server.
        token: A token of the server.
        name: A name that no other client has.
        files: The files that it uploads.
        interval: The average time between two operations, in seconds.
        is_disturbed: Whether a server is being stopped, so that requests may fail.

    Attributes:
        images: The images by id, without those whose change was not acknowledged.
        albums: The names of the albums by id.
        deleted: The ids of images whose deletion was acknowledged.
        uploaded: The ids of all images whose upload was acknowledged.
        unanswered: The words of uploads without a response.
        wrong: What no fault may cause.
        statuses: The number of responses by operation and status; 0 for none.
        random: The source of its random choices.
        http: The HTTP client, while it runs.
        operation: The name of the operation in progress.
    """

    origin: str
    token: str
    name: str
    files: Sequence[bytes]
    interval: float
    is_disturbed: Callable[[], bool]
    images: dict[str, StoredImage] = field(factory=dict)
    albums: dict[int, str] = field(factory=dict)
    deleted: set[str] = field(factory=set)
    uploaded: set[str] = field(factory=set)
    unanswered: set[str] = field(factory=set)
    wrong: list[str] = field(factory=list)
    statuses: Counter[tuple[str, int]] = field(factory=Counter)
    random: random.Random = field(init=False)
    http: httpx2.Client = field(init=False)
    _words: int = 0
    operation: str = ""

    def __attrs_post_init__(self) -> None:
        self.random = random.Random(self.name)

    def call(self, method: str, path: str, *expected: int, **options: Any) -> httpx2.Response | None:
        """Send a request; return the response, or `None` without one and with 503.

        Args:
            method: Its method.
            path: Its path and query.
            expected: The statuses that are right, by default 200.
            options: Options of the client.
        """
        was_disturbed, response = self.is_disturbed(), None
        try:
            response = self.http.request(method, path, **options)
        except httpx2.TransportError as error:
            if not was_disturbed and not self.is_disturbed():
                self.wrong.append(f"{self.operation}: {method} {path}: {error!r}")
            sleep(0.2)
        status = 0 if response is None else response.status_code
        self.statuses[self.operation, status] += 1
        if response is None or status == 503:
            return None
        if status not in (expected or (200,)):
            self.wrong.append(f"{self.operation}: {method} {path}: {status} {response.text[:300]}")
            return None
        return response

    def new_word(self) -> str:
        """Return a word that no other image has."""
        self._words += 1
        return f"{self.name}x{self._words}"

    def choose_image(self) -> str | None:
        """Choose an image of this client."""
        return self.random.choice([*self.images]) if self.images else None

    def choose_form(self, word: str) -> dict[str, str]:
        """Choose the fields of an upload, whose description has a word."""
        form = {"description": f"mixed {word}", "is_public": self.random.choice(("true", "true", "false"))}
        if self.albums and self.random.random() < 0.5:
            form["album_id"] = str(self.random.choice([*self.albums]))
        option = self.random.choice(
            ("", "", "convertToWebP", "format", "quality", "auto_rename", "remove_exif")
        )
        values = {
            "format": self.random.choice(("jpeg", "png", "webp")),
            "quality": "70",
            "convertToWebP": "false",
        }
        return form | ({option: values.get(option, "true")} if option else {})

    def add(self, record: dict[str, Any], word: str) -> None:
        """Add an image that was acknowledged."""
        image = StoredImage(record["sha256"], word, record["is_public"], record["album_id"])
        self.images[record["id"]] = image
        self.uploaded.add(record["id"])
