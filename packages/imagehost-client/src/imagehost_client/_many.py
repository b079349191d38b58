"""Batch uploads: jobs, results, and a journal from which an interrupted batch resumes."""

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
"""A callback `(source, sent, total)` with bytes of the source."""

PER_FILE_ERRORS = (ImageHostError, OSError, TypeError)
"""The errors of a single source, which do not stop the batch."""


class UploadOptions(TypedDict, total=False):
    """The options of `upload` for all files of a batch."""

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
    """The result of one source of a batch.

    Attributes:
        image: The image, if the upload succeeded.
        error: The error, if the upload failed.
        resumed: Whether the image is from an earlier run, according to the journal.
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
    """One upload of a batch.

    Attributes:
        fingerprint: The file's key in the journal; `None` for sources that are not paths.
        previous_image: The image, if an earlier run has uploaded it.
    """

    source: Source
    call: Call[Image]
    fingerprint: str | None = None
    previous_image: Image | None = None


class Journal:
    """A file with one JSON line for each started and each finished upload.

    A later run skips finished files, and sends started ones with the same idempotency key, so the host
    stores each file once. Files are identified by path, size, modification time and upload options.

    Args:
        path: The path of the journal, which is created if missing; `None` disables the journal.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._lock = threading.Lock()
        self._keys: dict[str, str] = {}
        self._finished: dict[str, Image] = {}
        self._file = None
        if path is not None:
            self._read(Path(path))
            self._file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 - closed by __exit__
            self._file.write("\n")  # terminates a line that an interruption has truncated

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def key(self, fingerprint: str) -> str:
        """Return the idempotency key of a file, equal in every run; a new key is recorded first."""
        if fingerprint not in self._keys:
            self._keys[fingerprint] = os.urandom(16).hex()
            self._write({"started": fingerprint, "key": self._keys[fingerprint]})
        return self._keys[fingerprint]

    def image(self, fingerprint: str) -> Image | None:
        """Return the image that an earlier run has uploaded from a file."""
        return self._finished.get(fingerprint)

    def record(self, fingerprint: str, image: Image) -> None:
        """Record that a file is uploaded."""
        self._write({"finished": fingerprint, "image": _wire.encode(image)})

    def is_enabled(self) -> bool:
        """Return whether there is a journal."""
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
                if "started" in line:
                    self._keys[line["started"]] = str(line["key"])
                else:
                    self._finished[line["finished"]] = _wire.decode(Image, line["image"])
            except (ValueError, TypeError, KeyError, ImageHostError):
                continue  # a truncated line: the upload is repeated with its key


def plan_uploads(
    sources: Iterable[Source] | Source,
    options: UploadOptions,
    journal: Journal,
    progress: BatchProgress | None,
) -> list[Job]:
    """Return the jobs of a batch, in the order of `sources`, with directories and patterns expanded.

    Raises:
        ValueError: The options are invalid.
    """
    return [_job(source, options, journal, progress) for source in expand_sources(sources)]


def finish(job: Job, journal: Journal, image: Image) -> UploadResult:
    """Record the image of a job in the journal, and return the job's result."""
    if job.fingerprint is not None:
        journal.record(job.fingerprint, image)
    return UploadResult(job.source, image)


def _job(source: Source, options: UploadOptions, journal: Journal, progress: BatchProgress | None) -> Job:
    def report(sent: int, total: int) -> None:
        assert progress is not None
        progress(source, sent, total)

    def build_call(key: str | None) -> Call[Image]:
        return upload(source, idempotency_key=key, progress=report if progress else None, **options)

    fingerprint = _fingerprint(source, build_call(None)) if journal.is_enabled() else None
    if fingerprint is None:
        return Job(source, build_call(None))
    previous_image = journal.image(fingerprint)
    key = None if previous_image else journal.key(fingerprint)
    return Job(source, build_call(key), fingerprint, previous_image)


def _fingerprint(source: Source, call: Call[Image]) -> str | None:
    """Return a hash of a file's path, size, modification time and upload options."""
    if not isinstance(source, (str, os.PathLike)):
        return None
    path = Path(source)
    try:
        status = path.stat()
    except OSError:
        return None
    from hashlib import sha256  # slow to import

    identity = [str(path.resolve()), status.st_size, status.st_mtime_ns, call.fields]
    return sha256(json.dumps(identity).encode()).hexdigest()
