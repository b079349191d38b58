"""Rendering and inspection of image files without a host: no directory, no database."""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Unpack, cast

from attrs import evolve

from imagehost_core._util.sources import require_source, unwrapped
from imagehost_core.formats import FORMATS, SNIFF_BYTES, detect
from imagehost_core.headers.exif import TRANSPOSED
from imagehost_core.headers.header import ImageHeader, MetadataKind
from imagehost_core.headers.scanner import scan
from imagehost_core.limits import MAX_FILE_BYTES, require_file_size
from imagehost_core.pixels import log_missing_native_modules
from imagehost_core.pixels.render import render_upload
from imagehost_core.records import ImageInfo, Rendered
from imagehost_core.services.render_jobs import new_job
from imagehost_core.transform import (
    Size,
    TransformKeywords,
    TransformSource,
    parse_transform,
    transform_parameters,
)
from imagehost_core.workers.costs import render_cost

if TYPE_CHECKING:
    from imagehost_core.workers.executor import ImageExecutor  # slow to import

FileSource = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO
"""An image file; text is a path. A file object is read from its position to its end."""


def inspect(source: FileSource) -> ImageInfo:
    """Return what the headers of an image file say; nothing is decoded.

    Args:
        source: A path, bytes, or a binary file.

    Raises:
        OSError: The file cannot be read.
        PayloadTooLargeError: It has more than 50 MB.
        UnsupportedMediaTypeError: The content is not JPEG, PNG, WebP or GIF.
        ValidationError: The image is damaged, or exceeds a limit of uploads.
    """
    data = _read(source)
    return _describe(scan(BytesIO(data), len(data)), len(data))


def render(
    source: FileSource,
    params: TransformSource = "",
    *,
    sandbox: bool | ImageExecutor = False,
    **keywords: Unpack[TransformKeywords],
) -> Rendered:
    """Return a variant of an image file, with the geometry, colours, encoders and limits of a host.

    The variant has no metadata. `fm=auto` is a format that every program shows.

    Args:
        source: A path, bytes, or a binary file.
        params: A query string such as `w=300&fm=webp`, its names and values, or a `Transform`.
        sandbox: Whether to decode in a sandboxed worker process, as a host does, because the file is not
            trusted; one process is started for all such calls. Or the `ImageExecutor` to use.
        keywords: The same parameters as keywords, in place of `params`.

    Raises:
        OSError: The file cannot be read.
        BadRequestError: A parameter is not allowed, or the output is too large.
        PayloadTooLargeError: The file has more than 50 MB.
        UnsupportedMediaTypeError: The content is not JPEG, PNG, WebP or GIF.
        ValidationError: The image is damaged, or exceeds a limit of uploads.
        UnavailableError: No worker process was free in time.
    """
    _log_missing_native_modules_once()
    transform = parse_transform(transform_parameters(params, keywords))
    data = _read(source)
    header = scan(BytesIO(data), len(data))
    info, data = _describe(header, len(data)), data[: header.end_offset]
    job = new_job(info, transform)
    if not header.is_displayable:
        job = evolve(job, keeps_file=False)
    if sandbox is False:
        result, (variant,) = render_upload(job, header.format, data)
    else:
        from imagehost_core.settings import RenderingSettings  # slow to import

        executor = _executor(os.getpid()) if sandbox is True else sandbox
        cost = render_cost(job, header.format, Size(*header.canvas_extent), header.frames)
        request = cost.request(RenderingSettings().render_timeout_seconds)
        result, variant = executor.render_upload(job, header.format, data, request)
    etag = f'"{sha256(variant).hexdigest()[:32]}"'
    fmt = detect(variant[:SNIFF_BYTES]) or job.format
    return Rendered(
        data=variant,
        media_type=FORMATS[fmt].media_type,
        width=result.size.width,
        height=result.size.height,
        etag=etag,
    )


_log_missing_native_modules_once = cache(log_missing_native_modules)


@cache
def _executor(_pid: int) -> ImageExecutor:
    """Return the executor of this process; a fork starts another."""
    from imagehost_core.workers.executor import ImageExecutor

    return ImageExecutor(1)


def _read(source: FileSource) -> bytes:
    source = cast("FileSource", unwrapped(source))
    require_source(source)
    name = "the file"
    if isinstance(source, bytes | bytearray | memoryview):
        data = bytes(source)
    elif isinstance(source, str | os.PathLike):
        path = Path(source)
        require_file_size(path.name, path.stat().st_size)
        name, data = path.name, path.read_bytes()
    else:
        data = source.read(MAX_FILE_BYTES + 1)
    require_file_size(name, len(data))
    return data


def _describe(header: ImageHeader, size: int) -> ImageInfo:
    width, height = header.canvas_extent
    if header.orientation in TRANSPOSED:
        width, height = height, width
    return ImageInfo(
        format=header.format,
        width=width,
        height=height,
        size=size,
        frames=header.frames,
        has_alpha=header.has_alpha,
        has_metadata=bool(header.metadata - {MetadataKind.ICC}),
    )
