"""The journal of a batch upload, from which an interrupted batch resumes.

A journal is a text file of JSON lines. The first names the version, the host and the account; each other one
is a started or a finished upload. A finished upload is reported again only after the host has confirmed
that the image still exists.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from attrs import asdict, fields, frozen

from imagehost_client import _wire
from imagehost_client._exchange import random_key
from imagehost_client.errors import ConfigurationError
from imagehost_client.models import Image

if TYPE_CHECKING:
    from typing import Self

VERSION = 3
"""The version of the journal's format."""


@frozen
class Owner:
    """The host and the account of a journal.

    Attributes:
        base_url: The base URL of the API.
        account: The name of the account; `None` if the token lacks the scope `account:read`.
        token_sha256: The SHA-256 of the token, which identifies the account where its name is unknown.
    """

    base_url: str
    account: str | None
    token_sha256: str | None

    def is_same(self, other: Owner) -> bool:
        """Return whether both are one account of one host, as far as is known."""
        if self.base_url != other.base_url:
            return False
        if self.account is not None and other.account is not None:
            return self.account == other.account
        return self.token_sha256 == other.token_sha256

    def __str__(self) -> str:
        return f"{f'account {self.account!r}' if self.account else 'a token'} on {self.base_url}"


@frozen
class FinishedUpload:
    """An upload that an earlier run has finished."""

    image_id: str
    created_at: datetime


class Journal:
    """A file with a line for its owner, and one for each started and each finished upload.

    A later run skips finished files whose images exist, and sends started ones with the same idempotency
    key, so the host stores each file once; those that were sent in one request, in one request. Files are
    identified by path, size, modification time and upload options.

    Args:
        path: The path of the journal, which is created if missing; `None` disables the journal.
        new_key: Returns a new idempotency key.

    Raises:
        ConfigurationError: The file is not a journal, or one of another version.
        OSError: The file cannot be read or written.
    """

    def __init__(self, path: str | os.PathLike[str] | None, new_key: Callable[[], str] = random_key) -> None:
        self._new_key = new_key
        self._lock = threading.RLock()
        self._keys: dict[str, str] = {}
        self._finished: dict[str, FinishedUpload] = {}
        self._batches: dict[str, tuple[str, ...]] = {}
        self._owner: Owner | None = None
        self._file = None
        if path is not None:
            self._path = Path(path)
            self._read()
            self._file = self._path.open("a", encoding="utf-8")
            self._file.write("\n")  # terminates a line that an interruption has truncated

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None  # a cancelled upload that ends later is not recorded

    def bind(self, owner: Owner) -> None:
        """Record the owner of a new journal, or compare it with the owner of an existing one.

        Raises:
            ConfigurationError: The journal has another owner.
        """
        if self._owner is None:
            self._owner = owner
            self._write({"journal": VERSION, **asdict(owner)})
        elif not self._owner.is_same(owner):
            raise ConfigurationError(
                f"expected a journal of {owner} for journal but received one of {self._owner}: "
                f"use another file than {self._path}"
            )

    def is_bound_to(self, owner: Owner) -> bool:
        """Return whether exactly this owner is recorded."""
        return self._owner == owner

    def key(self, fingerprint: str) -> str:
        """Return the idempotency key of a file, equal in every run; a new key is recorded first."""
        with self._lock:
            if fingerprint not in self._keys:
                self._keys[fingerprint] = self._new_key()
                self._write({"started": fingerprint, "key": self._keys[fingerprint]})
            return self._keys[fingerprint]

    def begin_batch(self, fingerprints: Sequence[str]) -> str:
        """Return a new idempotency key of a request with several files, which is recorded first.

        Args:
            fingerprints: The files, in the order of the request; none without a journal.
        """
        key = self._new_key()
        if fingerprints:
            self._write({"batch": list(fingerprints), "key": key})
        return key

    def end_batch(self, key: str, images: Mapping[str, Image]) -> None:
        """Record the response to a request with several files.

        Args:
            key: The request's idempotency key.
            images: The stored images by fingerprint; the other files of the request are not stored.
        """
        stored = {
            fingerprint: [image.id, _wire.rfc3339(image.created_at)] for fingerprint, image in images.items()
        }
        self._write({"ended": key, "images": stored})

    def unfinished_batches(self) -> Mapping[str, tuple[str, ...]]:
        """Return the files of each request without a recorded response, by its idempotency key."""
        return self._batches

    def is_started(self, fingerprint: str) -> bool:
        """Return whether the upload of a file was started."""
        return fingerprint in self._keys

    def finished(self, fingerprint: str | None) -> FinishedUpload | None:
        """Return the upload of a file that an earlier run has finished."""
        return self._finished.get(fingerprint or "")

    def forget(self, fingerprint: str | None) -> None:
        """Forget the upload of a file, whose image is deleted; the next upload gets a new key."""
        self._keys.pop(fingerprint or "", None)
        self._finished.pop(fingerprint or "", None)

    def record(self, fingerprint: str, image: Image) -> None:
        """Record that a file is uploaded."""
        created_at = _wire.rfc3339(image.created_at)
        self._write({"finished": fingerprint, "image": image.id, "created_at": created_at})

    def is_enabled(self) -> bool:
        """Return whether there is a journal."""
        return self._file is not None

    def _write(self, line: dict[str, object]) -> None:
        with self._lock:
            if self._file is not None:
                self._file.write(json.dumps(line) + "\n")
                self._file.flush()

    def _read(self) -> None:
        if not self._path.exists():
            return
        lines = self._path.read_text(encoding="utf-8", errors="replace").split("\n")
        texts = [text for text in lines if text.strip()]
        if not texts:
            return
        self._owner = _parse_header(texts[0], self._path)
        for text in texts[1:]:
            try:
                self._read_line(json.loads(text))
            except (ValueError, TypeError, KeyError, AttributeError):
                continue  # a truncated line: the upload is repeated with its key

    def _forget(self, fingerprints: Iterable[str]) -> None:
        """Forget earlier uploads of files that were uploaded anew."""
        for fingerprint in fingerprints:
            self.forget(fingerprint)
            for key, members in list(self._batches.items()):
                if fingerprint in members:
                    del self._batches[key]

    def _read_line(self, line: Mapping[str, Any]) -> None:
        if "started" in line:
            self._forget([line["started"]])
            self._keys[line["started"]] = str(line["key"])
        elif "batch" in line:
            self._forget(line["batch"])
            self._batches[str(line["key"])] = tuple(map(str, line["batch"]))
        elif "ended" in line:
            self._batches.pop(line["ended"], None)
            for fingerprint, (image_id, time) in dict(line["images"]).items():
                created_at = datetime.fromisoformat(time)
                self._finished[fingerprint] = FinishedUpload(str(image_id), created_at)
        else:
            created_at = datetime.fromisoformat(line["created_at"])
            self._finished[line["finished"]] = FinishedUpload(str(line["image"]), created_at)


def _parse_header(text: str, path: Path) -> Owner:
    try:
        header = json.loads(text)
        version = header.get("journal") if isinstance(header, dict) else None
        if version == VERSION:
            return Owner(**{field.name: header[field.name] for field in fields(Owner)})
    except (ValueError, KeyError):
        version = None
    received = "a file without a journal's header" if version is None else f"version {version!r}"
    raise ConfigurationError(
        f"expected a journal of version {VERSION} for journal but received {received}: "
        f"delete {path}, or use another file"
    )
