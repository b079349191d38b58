"""Many uploads at once: what is to be done, what came of each, and a journal to go on from after a stop."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypedDict

from attrs import field, frozen

from imagehost_client import _wire
from imagehost_client._calls import AlbumRef, Call
from imagehost_client._calls.images import UploadFormat, upload
from imagehost_client.errors import ImageHostError
from imagehost_client.files import Source, expand_sources
from imagehost_client.models import Image

if TYPE_CHECKING:
    from typing import Self

BatchProgress = Callable[[Source, int, int], object]
"""Called with a source, its bytes sent so far, and its size."""

PER_FILE_ERRORS = (ImageHostError, OSError, TypeError)
"""What one source can fail with, while the others go on."""


class UploadOptions(TypedDict, total=False):
    """The options of `upload` that hold for each of many files."""

    album_id: AlbumRef | None
    description: str | None
    quality: int | None
    format: UploadFormat | None
    remove_exif: bool | None
    convert_to_webp: bool | None
    auto_rename: bool | None
    is_public: bool | None
    checksum: bool


@frozen
class UploadResult:
    """What became of one source.

    Attributes:
        source: What was to be uploaded.
        image: The image, if it was stored.
        error: Why it was not.
        resumed: Whether the journal knew it from an earlier run, so that nothing was sent.
    """

    source: Source = field(repr=False)
    image: Image | None = None
    error: Exception | None = None
    resumed: bool = False

    def unwrap(self) -> Image:
        """Return the image, or raise the error."""
        if self.error is not None:
            raise self.error
        assert self.image is not None
        return self.image


@frozen
class Job:
    """One upload of many.

    Attributes:
        source: What is to be uploaded.
        call: How.
        mark: What tells the file in the journal; `None` for a source that no later run can know.
        done: The image, if an earlier run stored it.
    """

    source: Source
    call: Call[Image]
    fingerprint: str | None = None
    previous_image: Image | None = None


class Journal:
    """A file with a line for each upload begun and each one done.

    A run that finds a file done does not send it; one that finds it begun sends it under the same
    idempotency key, so the host stores it once. A file is known by its path, size, time of change
    and options.

    Args:
        path: The journal's path; it is made where there is none. `None` keeps no journal.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._lock = threading.Lock()
        self._keys: dict[str, str] = {}
        self._done: dict[str, Image] = {}
        self._file = None
        if path is not None:
            self._read(Path(path))
            self._file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 - closed by __exit__
            self._file.write("\n")  # ends a line that a stop has torn

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def key(self, mark: str) -> str:
        """Return the idempotency key of a file, the same in each run; noted before anything is sent."""
        if mark not in self._keys:
            self._keys[mark] = os.urandom(16).hex()
            self._write({"begun": mark, "key": self._keys[mark]})
        return self._keys[mark]

    def image(self, mark: str) -> Image | None:
        """Return the image that an earlier run made of a file."""
        return self._done.get(mark)

    def record(self, mark: str, image: Image) -> None:
        """Write down that a file is stored."""
        self._write({"done": mark, "image": _wire.encode(image)})

    def enabled(self) -> bool:
        """Say whether there is a journal at all."""
        return self._file is not None

    def _write(self, line: dict[str, object]) -> None:
        if self._file is not None:
            with self._lock:
                self._file.write(json.dumps(line) + "\n")
                self._file.flush()

    def _read(self, path: Path) -> None:
        if not path.exists():
            return
        for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                line = json.loads(text)
                if "begun" in line:
                    self._keys[line["begun"]] = str(line["key"])
                else:
                    self._done[line["done"]] = _wire.decode(Image, line["image"])
            except (ValueError, TypeError, KeyError, ImageHostError):
                continue  # a torn line: that upload is made again under its key


def plan_uploads(
    sources: Iterable[Source] | Source,
    options: UploadOptions,
    journal: Journal,
    progress: BatchProgress | None,
) -> list[Job]:
    """Return what is to be done for `sources`, in their order; folders and patterns become files.

    Raises:
        ValueError: The options cannot be right for any file.
    """
    return [_job(source, options, journal, progress) for source in expand_sources(sources)]


def outcome(job: Job, journal: Journal, image: Image) -> UploadResult:
    """Return the result of a job that made `image`, once it is in the journal."""
    if job.fingerprint is not None:
        journal.record(job.fingerprint, image)
    return UploadResult(job.source, image)


def _job(source: Source, options: UploadOptions, journal: Journal, progress: BatchProgress | None) -> Job:
    def told(sent: int, total: int) -> None:
        assert progress is not None
        progress(source, sent, total)

    def make(key: str | None) -> Call[Image]:
        return upload(source, idempotency_key=key, progress=told if progress else None, **options)

    mark = _fingerprint(source, make(None)) if journal.enabled() else None
    if mark is None:
        return Job(source, make(None))
    done = journal.image(mark)
    return Job(source, make(None if done else journal.key(mark)), mark, done)


def _fingerprint(source: Source, call: Call[Image]) -> str | None:
    """Return what tells a file from another, or from itself after a change."""
    if not isinstance(source, (str, os.PathLike)):
        return None
    path = Path(source)
    try:
        state = path.stat()
    except OSError:
        return None
    from hashlib import sha256  # slow to import

    facts = [str(path.resolve()), state.st_size, state.st_mtime_ns, call.fields]
    return sha256(json.dumps(facts).encode()).hexdigest()
