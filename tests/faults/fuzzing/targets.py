"""The targets of the fuzzer: functions that check a property of arbitrary bytes.

Each module of the table has `check(data)`, which raises `AssertionError` if the property does not hold, or
any other exception that the code under test must not raise. `seeds()` returns inputs to begin with,
`DICTIONARY` has tokens of the format, and `FINDINGS` the inputs that once violated the property.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Protocol, cast

from attrs import frozen


class Target(Protocol):
    """A module of the table."""

    @property
    def DICTIONARY(self) -> Sequence[bytes]: ...  # noqa: N802 - a constant of a module

    @property
    def FINDINGS(self) -> Sequence[bytes]: ...  # noqa: N802

    def check(self, data: bytes) -> None: ...

    def seeds(self) -> Iterable[bytes]: ...


@frozen
class Settings:
    """How a target is run.

    Attributes:
        quick: The number of mutations in CI.
        soak: The number of executions by libFuzzer.
        max_bytes: The longest input.
        instrumented: The modules whose branches guide the fuzzer.
    """

    quick: int
    soak: int
    max_bytes: int
    instrumented: tuple[str, ...]


_HEADERS = tuple(
    f"imagehost_core.headers.{name}"
    for name in ("scanner", "reader", "jpeg", "png", "apng", "gif", "webp", "exif", "header", "limits")
)
_FILTERS = tuple(f"imagehost_core.pixels.formats.{name}" for name in ("jpeg", "png", "webp", "gif"))
_METADATA = tuple(f"imagehost_core.headers.{name}" for name in ("metadata_blocks", "camera", "place", "exif"))
_TRANSFORMS = ("imagehost_core.transform", "imagehost_core.transform")
_FIELDS = "imagehost_core._util.fields"

TARGETS: dict[str, Settings] = {
    "headers": Settings(1_500, 700_000, 2_048, _HEADERS),
    "metadata": Settings(
        1_500, 700_000, 2_048, (*_METADATA, "imagehost_core.pixels.strip_metadata", *_FILTERS)
    ),
    "transforms": Settings(2_000, 1_000_000, 256, (*_TRANSFORMS, _FIELDS, "imagehost_client.urls")),
    "upload_options": Settings(
        2_000,
        1_000_000,
        512,
        ("imagehost_core.uploads", "imagehost_core.uploads", _FIELDS),
    ),
    "multipart_forms": Settings(
        600, 600_000, 2_048, ("multipart", "imagehost_server.http.multipart", "imagehost_client._multipart")
    ),
    "fast_path": Settings(
        400,
        1_000_000,
        1_024,
        (
            "imagehost_server.delivery.fast_path",
            "imagehost_core.conditional",
            "imagehost_server.middleware.requests",
        ),
    ),
    "signed_urls": Settings(
        1_000,
        1_000_000,
        512,
        (*_TRANSFORMS, "imagehost_core.transform", "imagehost_core.services.delivery"),
    ),
    "webhook_urls": Settings(2_000, 2_000_000, 300, ("imagehost_core.webhooks",)),
    "conditional_requests": Settings(2_000, 2_000_000, 300, ("imagehost_core.conditional",)),
    "cursors": Settings(2_000, 1_500_000, 512, ("imagehost_core.lists", "imagehost_core.lists", _FIELDS)),
    "thumbhashes": Settings(2_000, 1_000_000, 64, ("imagehost_client.urls",)),
    "events": Settings(
        1_000,
        500_000,
        4_096,
        ("imagehost_core.events", "imagehost_client.webhooks", "imagehost_client._wire"),
    ),
}
"""Every target, by the name of its module."""


def load(name: str) -> Target:
    """Import the module of a target."""
    return cast("Target", import_module(f"tests.faults.fuzzing.{name}"))
