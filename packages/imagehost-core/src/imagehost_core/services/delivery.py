"""The processing route: from an address to bytes.

`locate` says what is meant and whether it may be had, without touching a picture; its answer has all
that an HTTP answer needs but the bytes. `fetch` gets those.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from types import TracebackType
from typing import BinaryIO, NamedTuple
from urllib.parse import parse_qsl

from attrs import evolve, field, frozen

from imagehost_core._util.lru import LRUCache
from imagehost_core.errors import NotFoundError
from imagehost_core.formats import FORMATS, Format
from imagehost_core.ids import AccountId, ImageId, delivery_not_found_text, parse_image_id
from imagehost_core.jobs import RenderJob
from imagehost_core.models import Account, Image
from imagehost_core.services import rendering as renders
from imagehost_core.services.access import can_view, require_allowed_transform
from imagehost_core.services.context import HostContext
from imagehost_core.storage.staging import CHUNK
from imagehost_core.transform import (
    AUTO,
    DEFAULT_QUALITY,
    Transform,
    negotiate,
    parse_transform,
    verify_signed_url,
)
from imagehost_core.transform.geometry import Size, plan
from imagehost_core.uploads.filenames import with_extension

IMAGE_CACHE_SIZE = 10_000
"""How many records are remembered in a process; each is about a kilobyte."""
RESOLUTION_CACHE_SIZE = 10_000
"""How many addresses are remembered with what they mean, so that a warm one is neither parsed nor
planned again; each is about two kilobytes."""
MAX_CACHED_URL = 500
"""An address that is longer, in characters with its `Accept`, is not remembered: nobody may fill the
memory with names that mean nothing."""


@frozen(cache_hash=True)
class ResolvedImage:
    """What an address means, and what an answer says of it.

    As long as nothing has changed, `peek` gives the same object for the same address: what is made of
    one can be remembered by it.

    Attributes:
        image: Of which image.
        key: The variant's file name, or `None` for the master itself.
        job: What is to be done for it, or `None` for the master itself.
        format: The format of the bytes.
        etag: A strong entity tag, quoted (RFC 9110, section 8.8.3).
        last_modified: Since when the bytes are what they are.
        filename: The name to offer.
        varies: Whether another `Accept` may get other bytes.
    """

    image: Image
    key: str | None
    job: RenderJob | None
    format: Format
    etag: str
    last_modified: datetime
    filename: str
    varies: bool

    @property
    def media_type(self) -> str:
        """The media type of the bytes."""
        return FORMATS[self.format].media_type

    @property
    def is_public(self) -> bool:
        """Whether everybody may have and keep the bytes."""
        return self.image.is_public


class Blob:
    """Bytes to be delivered: in memory, or in an open file that no deletion can cut short.

    Args:
        content: The bytes, or the file.
    """

    __slots__ = ("_file", "data", "size")

    def __init__(self, content: bytes | BinaryIO) -> None:
        self.data: bytes | None = None
        self._file: BinaryIO | None = None
        if isinstance(content, bytes):
            self.data, self.size = content, len(content)
        else:
            self._file, self.size = content, content.seek(0, os.SEEK_END)

    def read(self, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes from `start` to before `stop`."""
        return b"".join(self.chunks(start, stop))

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield the bytes from `start` to before `stop`, at most 1 MiB at a time."""
        end = self.size if stop is None else min(stop, self.size)
        if self._file is not None:
            self._file.seek(start)
        while start < end and (chunk := self._piece(start, min(start + CHUNK, end))):
            start += len(chunk)
            yield chunk

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def _piece(self, start: int, stop: int) -> bytes:
        if self._file is not None:
            return self._file.read(stop - start)
        assert self.data is not None
        return self.data[start:stop]

    def __enter__(self) -> Blob:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@frozen
class _CachedImage:
    generation: int
    image: Image


@frozen
class _CachedResolution:
    generation: int
    resolved: ResolvedImage


class _ResolutionKey(NamedTuple):
    """All that decides what an address means, beside the image and the moment."""

    path: str
    query: str
    accept: str
    viewer: AccountId | None

    @classmethod
    def of(cls, path: str, query: str, accept: str, viewer: Account | None) -> _ResolutionKey:
        """Return what was asked; `Accept` matters only where the format is left to the viewer.

        A query with escapes may spell `auto` in any way.
        """
        negotiable = AUTO in path or AUTO in query or "%" in query
        return cls(path, query, accept if negotiable else "", viewer.id if viewer else None)


@frozen
class ImageResolver:
    """The processing route of a host."""

    _context: HostContext = field(repr=False)
    _images: LRUCache[ImageId, _CachedImage] = field(
        factory=lambda: LRUCache[ImageId, _CachedImage](IMAGE_CACHE_SIZE, lambda _: 1), repr=False
    )
    _resolutions: LRUCache[_ResolutionKey, _CachedResolution] = field(
        factory=lambda: LRUCache[_ResolutionKey, _CachedResolution](RESOLUTION_CACHE_SIZE, lambda _: 1),
        repr=False,
    )

    def resolve(
        self, path: str, query: str = "", *, accept: str = "", viewer: Account | None = None
    ) -> ResolvedImage:
        """Return what an address means.

        Args:
            path: `<id>` or `<id>.<ext>`.
            query: The query string as it came.
            accept: The request's `Accept` header, or "".
            viewer: Who asks, or `None`.

        Raises:
            BadRequestError: A parameter is wrong.
            NotFoundError: There is no such image, extension, or none that may be seen.
            ForbiddenError: Transforms must be signed here, and this one is not.
        """
        image_id, extension = _split_path(path)
        transform = parse_transform(query, extension=extension)
        known = self._cached_image(image_id)
        # Contract 2: *similar time*. A refusal from memory would come sooner than one for want of a row.
        shown = known is not None and self._may_view(known.image, transform, query, viewer)
        image = known.image if known is not None and shown else self._read_image(image_id)
        return self._resolve(image, transform, query, accept, viewer)

    def resolve_cached(
        self, path: str, query: str = "", *, accept: str = "", viewer: Account | None = None
    ) -> tuple[ResolvedImage, Blob | None] | None:
        """Return what an address means, and its bytes, as far as memory has them; never waits.

        Returns:
            `None` where even the record is not in memory, and for whoever may not see it.

        Raises:
            ImageHostError: As `locate`.
        """
        asked = _ResolutionKey.of(path, query, accept, viewer)
        meant = self._resolutions.get(asked)
        if meant is None or meant.generation != self._context.generations.read(meant.resolved.image.id):
            meant = self._resolve_cached(asked, accept, viewer)
            if meant is None:
                return None
        delivery = meant.resolved
        data = delivery.key and self._context.variants.get_memory(delivery.image.id, delivery.key)
        return delivery, Blob(data) if isinstance(data, bytes) else None

    def open(self, delivery: ResolvedImage) -> Blob:
        """Return the bytes of a delivery, made now if they must be.

        Raises:
            NotFoundError: The image was deleted meanwhile.
            UnavailableError: The workers have too much to do, or the work took too long.
        """
        context, image, job = self._context, delivery.image, delivery.job
        if job is None or delivery.key is None:
            return Blob(context.blobs.open(image.id))
        return Blob(renders.get_or_render(context, image, delivery.key, job))

    def build(
        self, image: Image, transform: Transform, accept: str = "", *, whole: bool = False
    ) -> ResolvedImage:
        """Return what a transform of an image means, whoever asks.

        Args:
            image: Of which image.
            transform: What is asked for.
            accept: The request's `Accept` header, or "".
            whole: Whether the master itself will do where the format is the stored one.
        """
        fmt = _choose_format(transform, image, accept)
        varies = transform.format is AUTO
        if whole and fmt is image.format:
            return _resolved(image, None, None, fmt, image.sha256[:32], varies)
        animated = image.is_animated and FORMATS[fmt].animated
        steps = plan(
            Size(image.width, image.height),
            transform,
            frames=image.frames if animated else 1,
            max_side=FORMATS[fmt].max_side,
        )
        default = DEFAULT_QUALITY.get(fmt)
        quality = None if default is None else transform.quality or default
        job = RenderJob(plan=steps, format=fmt, quality=quality, animated=animated)
        key = renders.cache_key(job)
        return _resolved(image, key, job, fmt, f"{image.sha256[:16]}-{key}", varies)

    def _resolve_cached(
        self, asked: _ResolutionKey, accept: str, viewer: Account | None
    ) -> _CachedResolution | None:
        """Return what an address means, from the record in memory, and remember it.

        A signed address is understood each time anew: whether it holds depends on the moment.
        """
        image_id, extension = _split_path(asked.path)
        transform = parse_transform(asked.query, extension=extension)
        known = self._cached_image(image_id)
        if known is None or not self._may_view(known.image, transform, asked.query, viewer):
            return None
        delivery = self._resolve(known.image, transform, asked.query, accept, viewer)
        meant = _CachedResolution(known.generation, delivery)
        length = len(asked.path) + len(asked.query) + len(asked.accept)
        if "sig=" not in asked.query and length <= MAX_CACHED_URL:
            self._resolutions.put(asked, meant)
        return meant

    def _resolve(
        self, image: Image, transform: Transform, query: str, accept: str, viewer: Account | None
    ) -> ResolvedImage:
        delivery = self._context.settings.delivery
        signed = "sig=" in query and self._is_signed(image, transform, query)
        if not can_view(image, viewer, signed, delivery):
            raise NotFoundError(delivery_not_found_text(image.id))
        # Contract 7: *no parameters, and `ext` absent or the stored format's: the master itself*.
        whole = "=" not in query or parse_transform(query) == Transform()
        found = self.build(image, transform, accept, whole=whole)
        if found.key is not None:
            require_allowed_transform(transform, signed, delivery)
        return found

    def _may_view(self, image: Image, transform: Transform, query: str, viewer: Account | None) -> bool:
        signed = "sig=" in query and not image.is_public and self._is_signed(image, transform, query)
        return can_view(image, viewer, signed, self._context.settings.delivery)

    def _is_signed(self, image: Image, transform: Transform, query: str) -> bool:
        """Return whether an address carries a signature that holds.

        The stored format is meant by an address that names it, in its path or in `fm`, and by one
        that names none; so whichever of the two was signed will do.
        """
        given, now = dict(parse_qsl(query)), self._context.clock()
        meant = [transform]
        if transform.format is image.format:
            meant.append(evolve(transform, format=None))
        return any(verify_signed_url(self._context.secret, image.id, each, given, now) for each in meant)

    def _cached_image(self, image_id: ImageId) -> _CachedImage | None:
        known = self._images.get(image_id)
        if known is None or known.generation != self._context.generations.read(image_id):
            return None
        return known

    def _read_image(self, image_id: ImageId) -> Image:
        stamp = self._context.generations.read(image_id)
        image = self._context.images.get(image_id)
        if image is None:
            raise NotFoundError(delivery_not_found_text(image_id))
        if stamp is not None:
            self._images.put(image_id, _CachedImage(stamp, image))
        return image


def _split_path(path: str) -> tuple[ImageId, str | None]:
    """Return the id and the extension of a delivery address's path.

    Raises:
        NotFoundError: It is none.
    """
    name, dot, extension = path.partition(".")
    try:
        return parse_image_id(name), extension if dot else None
    except NotFoundError:
        raise NotFoundError(delivery_not_found_text(path)) from None


def _choose_format(transform: Transform, image: Image, accept: str) -> Format:
    if transform.format is AUTO:
        return negotiate(accept, image.format, animated=image.is_animated)
    return image.format if transform.format is None else Format(transform.format)


def _resolved(
    image: Image, key: str | None, job: RenderJob | None, fmt: Format, tag: str, varies: bool
) -> ResolvedImage:
    return ResolvedImage(
        image=image,
        key=key,
        job=job,
        format=fmt,
        etag=f'"{tag}"',
        last_modified=image.created_at,
        filename=with_extension(image.filename, fmt),
        varies=varies,
    )
