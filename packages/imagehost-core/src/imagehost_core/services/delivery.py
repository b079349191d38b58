"""Delivery: from an image URL to bytes.

`ImageResolver.resolve` applies the access rules and returns everything that an HTTP response needs except the
bytes, without any image work. `open` returns the bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple, Self
from zlib import crc32

from attrs import evolve, field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core._util.durable import read_nowait, translate_disk_errors
from imagehost_core._util.lru import GenerationCache, LRUCache
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.errors import NotFoundError, ValidationError
from imagehost_core.formats import FORMATS, SNIFF_BYTES, Format, detect
from imagehost_core.headers.scanner import is_upright_in_browsers
from imagehost_core.ids import AccountId, ImageId, delivery_not_found_text
from imagehost_core.image_url import ImageUrl, parse_image_url
from imagehost_core.jobs import RenderJob
from imagehost_core.models import Account, Image
from imagehost_core.services.access import SigningKeys, can_view, is_restricted, require_allowed_transform
from imagehost_core.services.render_jobs import new_job
from imagehost_core.services.rendering import RenderingService, cache_key
from imagehost_core.settings import DeliverySettings
from imagehost_core.steps import QueueSteps, run_steps
from imagehost_core.storage.image_files import ImageFiles
from imagehost_core.storage.staging import CHUNK_BYTES
from imagehost_core.transform import AUTO, MAX_OUTPUT_PIXELS, Transform
from imagehost_core.uploads import with_extension

IMAGE_CACHE_SIZE = 10_000
"""Image records in memory, per process; each takes about 1 KB."""
RESOLUTION_CACHE_SIZE = 10_000
"""Resolved URLs in memory, per process, so that a warm URL is neither parsed nor planned again; each takes
about 2 KB."""
MAX_CACHED_URL = 500
"""Characters of path, query and `Accept` up to which a URL is cached: clients must not be able to fill the
memory with parameters that are ignored."""


@frozen(cache_hash=True)
class ResolvedImage:
    """The image, format and variant that a URL refers to, and the metadata of its response.

    As long as the image does not change, `resolve_cached` returns the same object for the same URL, so that
    callers can keep in it what they derive from it.

    Attributes:
        image: The image.
        key: The variant's cache key, or `None` for the master.
        job: The render job of the variant, or `None` for the master.
        format: The format of the bytes; where the image decides it, the first one that it may be.
        etag: A strong entity tag, quoted (RFC 9110, section 8.8.3).
        last_modified: The time since which the bytes are the same.
        varies: Whether the response depends on `Accept`.
        is_restricted: Whether the bytes are for the owner only: the image is private, and the URL neither
            signed nor that of a share.
        derived: What callers derive from it, by the caller.
    """

    image: Image
    key: str | None
    job: RenderJob | None
    format: Format
    etag: str
    last_modified: datetime
    varies: bool
    is_restricted: bool = False
    derived: dict[object, Any] = field(factory=dict, init=False, eq=False, repr=False)

    @property
    def has_choices(self) -> bool:
        """Whether the image decides the format, so that only the bytes tell it."""
        return self.job is not None and bool(self.job.choices)

    def format_of(self, data: bytes) -> Format:
        """Return the format of the bytes.

        Args:
            data: The bytes, at least the first `SNIFF_BYTES`.
        """
        return (detect(data) if self.has_choices else None) or self.format

    def filename(self, fmt: Format) -> str:
        """Return the filename for `Content-Disposition`."""
        return with_extension(self.image.filename, fmt)

    @property
    def is_public(self) -> bool:
        """Whether any client may get and cache the bytes."""
        return self.image.is_public


class Blob:
    """Bytes to be delivered: in memory, or in an open file, which a deletion cannot truncate.

    Args:
        content: The bytes, or the file at their beginning.
    """

    __slots__ = ("_file", "_offset", "data", "size")

    def __init__(self, content: bytes | BinaryIO) -> None:
        self.data: bytes | None = None
        self._file: BinaryIO | None = None
        self._offset = 0
        if isinstance(content, bytes):
            self.data, self.size = content, len(content)
        else:
            self._file, self._offset = content, content.tell()
            self.size = content.seek(0, os.SEEK_END) - self._offset

    def read(self, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes from `start` up to, not including, `stop`."""
        return b"".join(self.chunks(start, stop))

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield the bytes from `start` up to, not including, `stop`, at most 1 MiB at a time."""
        end = self.size if stop is None else min(stop, self.size)
        if self._file is not None:
            self._file.seek(self._offset + start)
        while start < end and (chunk := self._read_chunk(start, min(start + CHUNK_BYTES, end))):
            start += len(chunk)
            yield chunk

    def read_cached(self, start: int, stop: int) -> bytes | None:
        """Return the bytes as `read` does, or fewer, if that needs no disk; otherwise `None`."""
        if self._file is not None:
            piece = bytearray(min(stop, self.size) - start)
            # An error: they are not in the page cache, or the file system cannot tell.
            with suppress(OSError):
                size = read_nowait(self._file.fileno(), piece, self._offset + start)
                return bytes(memoryview(piece)[:size])
        return None if self.data is None else self.data[start:stop]

    def checksum(self) -> int:
        """Return the CRC-32 of all bytes."""
        value = 0
        for chunk in self.chunks():
            value = crc32(chunk, value)
        return value

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _read_chunk(self, start: int, stop: int) -> bytes:
        if self._file is not None:
            return self._file.read(stop - start)
        assert self.data is not None
        return self.data[start:stop]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class ImageBlob(Blob):
    """The bytes of an image or a variant, and their format.

    Args:
        content: The bytes, or the file at their beginning.
        resolved: What they are: another image than was opened, if a variant takes the place of a master that
            browsers would not show upright.
    """

    __slots__ = ("format", "resolved")

    def __init__(self, content: bytes | BinaryIO, resolved: ResolvedImage) -> None:
        super().__init__(content)
        self.resolved = resolved
        self.format = resolved.format
        if resolved.has_choices:
            self.format = resolved.format_of(self.read(0, SNIFF_BYTES))

    @property
    def media_type(self) -> str:
        """The media type of the bytes."""
        return FORMATS[self.format].media_type


class _ResolutionKey(NamedTuple):
    """Everything that a resolution depends on, except the image's record and the time."""

    path: str
    query: str
    accept: str
    viewer: AccountId | None

    @classmethod
    def of(cls, path: str, query: str, accept: str, viewer: Account | None) -> _ResolutionKey:
        """Return the key of a request; `Accept` is part of it only where the format can depend on it.

        A query with percent-encoding may spell `auto` in any way.
        """
        negotiable = AUTO in path or AUTO in query or "%" in query
        return cls(path, query, accept if negotiable else "", viewer.id if viewer else None)


class _FoundImage(NamedTuple):
    """The image of a URL, and the access that the URL grants to it."""

    image: Image
    is_signed: bool
    is_shared: bool = False

    @property
    def is_granted(self) -> bool:
        """Whether the URL carries a valid signature, or a valid share of the image's album."""
        return self.is_signed or self.is_shared


@frozen
class ImageResolver:
    """The resolver of a host's image URLs."""

    _records: Repositories = field(repr=False)
    _files: ImageFiles = field(repr=False)
    _rendering: RenderingService = field(repr=False)
    _signing_keys: SigningKeys = field(repr=False)
    _settings: DeliverySettings = field(repr=False)
    _clock: Clock = field(repr=False)
    _image_cache: GenerationCache[ImageId, Image] = field(
        factory=lambda: GenerationCache[ImageId, Image](IMAGE_CACHE_SIZE), repr=False
    )
    _upright: GenerationCache[ImageId, bool] = field(
        factory=lambda: GenerationCache[ImageId, bool](IMAGE_CACHE_SIZE), repr=False
    )
    # With the generation of the image, which the path names in any case.
    _resolutions: LRUCache[_ResolutionKey, tuple[int, ResolvedImage]] = field(
        factory=lambda: LRUCache[_ResolutionKey, tuple[int, ResolvedImage]](
            RESOLUTION_CACHE_SIZE, lambda _: 1
        ),
        repr=False,
    )

    def resolve(
        self, path: str, query: str = "", *, accept: str = "", viewer: Account | None = None
    ) -> ResolvedImage:
        """Return what a URL refers to, without any image work.

        Args:
            path: `<id>` or `<id>.<ext>`.
            query: The query string as received.
            accept: The request's `Accept` header.
            viewer: The account of the request's token, or `None`.

        Raises:
            BadRequestError: A parameter is not allowed.
            NotFoundError: There is no such image or extension, or none that the viewer may see.
            ForbiddenError: Transforms must be signed, and this one is not.
        """
        url = parse_image_url(path, query)
        # A 404 for a private image must take as long as one for a missing image: it reads the database too.
        found = self._find_in_memory(url, viewer) or self._read_image(url)
        return self._resolve(url, found, accept, viewer)

    def resolve_cached(
        self, path: str, query: str = "", *, accept: str = "", viewer: Account | None = None
    ) -> ResolvedImage | None:
        """Return what a URL refers to, or `None` if its record is not in memory or the viewer may not see it.

        Never waits for a disk, a lock or a worker, so that an event loop can call it.

        Raises:
            ImageHostError: As for `resolve`.
        """
        found = self.resolve_to_keep(path, query, accept=accept, viewer=viewer)
        return None if found is None else found[0]

    def resolve_to_keep(
        self, path: str, query: str, *, accept: str, viewer: Account | None = None
    ) -> tuple[ResolvedImage, int | None] | None:
        """Do as `resolve_cached`; return also the `generation` as long as which the result is valid.

        It is `None` for a result that is valid now only, or must not be kept.
        """
        key = _ResolutionKey.of(path, query, accept, viewer)
        cached = self._resolutions.get(key)
        if cached is not None and cached[0] == self._files.generations.read(cached[1].image.id):
            return cached[1], cached[0]
        url = parse_image_url(path, query)
        generation = self._files.generations.read(url.image_id)
        found = self._find_in_memory(url, viewer)
        if found is None:
            return None
        resolved = self._resolve(url, found, accept, viewer)
        # A signed URL is resolved each time: whether its signature is valid depends on the time.
        is_cacheable = not url.has_signature and len(path) + len(query) + len(key.accept) <= MAX_CACHED_URL
        if generation is None or not is_cacheable:
            return resolved, None
        self._resolutions.put(key, (generation, resolved))
        return resolved, generation

    def generation(self, image_id: ImageId) -> int | None:
        """Return the generation of an image, which a change of what its URLs refer to ends; never waits."""
        return self._files.generations.read(image_id)

    def read_nowait(self, resolved: ResolvedImage) -> tuple[str, bytes] | None:
        """Return the bytes of a variant, and where they were: `memory`, or `disk` (in the page cache).

        Never waits, as `resolve_cached`; `None` if it would have to.
        """
        key = resolved.key
        return None if key is None else self._files.variants.read_nowait(resolved.image.id, key)

    def open(self, resolved: ResolvedImage) -> ImageBlob:
        """Return the bytes of a resolved image, rendered now if they are not cached; close it after use.

        Raises:
            NotFoundError: The image was deleted meanwhile.
            UnavailableError: The render queue is full, or the render timed out or would.
            InternalError: The stored file is damaged.
        """
        return run_steps(self.open_in_steps(resolved))

    def open_in_steps(self, resolved: ResolvedImage, client: str = "") -> QueueSteps[ImageBlob]:
        """Do as `open`, in steps, so that an event loop can wait for the queue without a thread.

        `imagehost_core.steps` tells how to run them.

        Args:
            resolved: The image.
            client: Who requests it, as for `RenderingService.render`.
        """
        with translate_disk_errors():
            image = resolved.image
            if resolved.key is None:
                master = self._open_upright(image)
                if master is not None:
                    return ImageBlob(master, resolved)
                resolved = evolve(self.build(image, Transform()), is_restricted=resolved.is_restricted)
            variants, key, job = self._files.variants, resolved.key, resolved.job
            assert key is not None
            assert job is not None
            if (cached := variants.open(image.id, key)) is not None:
                return ImageBlob(cached, resolved)
            data = yield from self._rendering.render(image, key, job, client)
            return ImageBlob(variants.open_stored(image.id, key, data), resolved)

    def is_known_upright(self, image: Image) -> bool:
        """Return whether `is_upright` has found it so; never waits."""
        return bool(self._upright.get(image.id, self._files.generations.read(image.id)))

    def is_upright(self, image: Image) -> bool:
        """Return whether browsers show the master of an image upright; opens it once.

        Raises:
            NotFoundError: The image was deleted meanwhile.
        """
        master = self._open_upright(image)
        if master is not None:
            master.close()
        return master is not None

    def _open_upright(self, image: Image) -> BinaryIO | None:
        """Return the master of an image, or `None` if browsers would not show it upright.

        Earlier versions stored such uploads as they were.
        """
        generation = self._files.generations.read(image.id)
        known = self._upright.get(image.id, generation)
        if known is False:
            return None
        file = self._files.blobs.open(image.id, checksum=image.sha256)
        if known is None:
            known = _is_upright(image, file)
            self._upright.put(image.id, known, generation)
        if known:
            return file
        file.close()
        return None

    def build(
        self, image: Image, transform: Transform, accept: str = "", *, allow_master: bool = False
    ) -> ResolvedImage:
        """Return what a transform of an image refers to; no access rule applies.

        Args:
            image: The image.
            transform: The transform.
            accept: The request's `Accept` header.
            allow_master: Whether to return the master if the format is the stored one.
        """
        if allow_master and transform.format in (None, image.format):
            # The other half was the tag of versions that sent every master as it is stored.
            return _resolved(image, None, None, Format(image.format), image.sha256[32:])
        job = new_job(
            image,
            transform,
            accept,
            enlarge=self._settings.enlarge,
            preferred_avif_speed=self._settings.avif_speed,
        )
        key, varies = cache_key(job), transform.format is AUTO
        return _resolved(image, key, job, job.format, f"{image.sha256[:16]}-{key}", varies=varies)

    def _find_in_memory(self, url: ImageUrl, viewer: Account | None) -> _FoundImage | None:
        """Return the image of a URL, if memory shows that the viewer may see it."""
        image = self._image_cache.get(url.image_id, self._files.generations.read(url.image_id))
        key = None if image is None else self._signing_keys.cached(image.account_id)
        if image is None or (key is None and url.has_signature):
            return None
        found = _FoundImage(image, url.is_signed(image, key, self._clock()))
        return found if can_view(image, viewer, found.is_granted, self._settings) else None

    def _read_image(self, url: ImageUrl) -> _FoundImage:
        """Return the image of a URL from the database, and keep it and its account's signing key in memory.

        One query reads all of it: shares are not kept in memory, so they end at once.
        """
        generation = self._files.generations.read(url.image_id)
        key_generation = self._signing_keys.generation()
        now = self._clock()
        row = self._records.images.get_delivered(url.image_id, url.access.get("share", ""), now)
        if row is None:
            raise NotFoundError(delivery_not_found_text(url.image_id))
        image, secret, is_shared = row
        self._image_cache.put(image.id, image, generation)
        key = self._signing_keys.keep(image.account_id, secret, key_generation)
        return _FoundImage(image, url.is_signed(image, key, now), is_shared)

    def _resolve(
        self, url: ImageUrl, found: _FoundImage, accept: str, viewer: Account | None
    ) -> ResolvedImage:
        if not can_view(found.image, viewer, found.is_granted, self._settings):
            raise NotFoundError(delivery_not_found_text(url.image_id))
        resolved = self.build(found.image, url.transform, accept, allow_master=url.is_bare)
        if resolved.key is not None:
            require_allowed_transform(url.transform, found.is_signed, self._settings)
        restricted = is_restricted(found.image, found.is_granted, self._settings)
        return evolve(resolved, is_restricted=True) if restricted else resolved


def _is_upright(image: Image, master: BinaryIO) -> bool:
    """Return whether browsers show a master upright; also for one that cannot be rendered as a whole.

    That is a damaged one, one beyond the limit of variants, and an animated PNG.
    """
    stored = Format(image.format)
    is_variant_whole = FORMATS[stored].animated or not image.is_animated
    if image.width * image.height > MAX_OUTPUT_PIXELS or not is_variant_whole:
        return True
    try:
        return is_upright_in_browsers(stored, master)
    except ValidationError:
        return True
    finally:
        master.seek(0)


def _resolved(
    image: Image, key: str | None, job: RenderJob | None, fmt: Format, tag: str, *, varies: bool = False
) -> ResolvedImage:
    return ResolvedImage(
        image=image,
        key=key,
        job=job,
        format=fmt,
        etag=f'"{tag}"',
        last_modified=image.created_at,
        varies=varies,
    )
