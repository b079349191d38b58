"""WebP: chunks of metadata, lossless bitstreams, and the alpha flag of animations."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from attrs import evolve

from imagehost_core.formats import FORMATS, Format
from imagehost_core.pixels.animation import Animation
from imagehost_core.pixels.colour import is_icc_profile
from imagehost_core.pixels.formats.codec import EXIF, HUGE_PIXELS, ICC, SHOWN, Codec, IsKept
from imagehost_core.pixels.save import Metadata, save
from imagehost_core.pixels.source import PillowImage, SourceImage

_FLAGS_OFFSET = 20
"""The offset of the VP8X flags: after `RIFF`, size, `WEBP`, `VP8X`, size."""
_ALPHA = 0b0001_0000
_ANIMATION = 0b0000_0010
_WEBP_KINDS = {
    **dict.fromkeys((b"VP8X", b"VP8 ", b"VP8L", b"ALPH", b"ANIM", b"ANMF"), SHOWN),
    b"ICCP": ICC,
    b"EXIF": EXIF,
}
_WEBP_FLAGS = {b"ICCP": 0b0010_0000, b"EXIF": 0b0000_1000, b"XMP ": 0b0000_0100}
"""The VP8X flags of what a file has (RFC 9649, section 2.7)."""
WEBP_HEADER_BYTES = 12
"""Bytes before the first chunk: `RIFF`, size, `WEBP`."""
_WEBP_FRAME_HEADER_BYTES = 16
"""Bytes of an ANMF chunk before those of its frame."""


class WebpCodec(Codec):
    """Lossy or without loss, also for each frame of an animation; metadata is in chunks."""

    format = Format.WEBP
    plugin = "WEBP"
    options = MappingProxyType({"method": 2})
    chroma_mode = "RGB"
    small_options = MappingProxyType({"method": 4})
    lossless_options = MappingProxyType({"lossless": True})
    mixed_options = MappingProxyType({"allow_mixed": True})

    def open(self, data: bytes) -> SourceImage:
        source = super().open(set_alpha_flag(data))
        assert isinstance(source, PillowImage)
        return evolve(source, frame_count=int(getattr(source.opened, "n_frames", 1)))

    def drop_malformed(self, data: bytes) -> bytes:
        chunks = iter_riff_chunks(memoryview(data), WEBP_HEADER_BYTES)
        profile = next((bytes(content) for fourcc, content in chunks if fourcc == b"ICCP"), None)
        if profile is None or is_icc_profile(profile):
            return data
        return self.filter(data, lambda kind, _size: kind != ICC)

    def filter(self, data: bytes, is_kept: IsKept) -> bytes:
        container = memoryview(data)[: 8 + int.from_bytes(data[4:8], "little")]
        parts = _filter_riff_chunks(container, WEBP_HEADER_BYTES, is_kept)
        size = len(b"WEBP") + sum(map(len, parts))
        return b"".join((b"RIFF", struct.pack("<I", size), b"WEBP", *parts))

    def is_lossy(self, data: bytes) -> bool:
        return not self.is_lossless(data)

    def is_lossless(self, data: bytes) -> bool:
        return all(kind == b"VP8L" for kind in webp_bitstreams(data))

    def animation_options(self, pixels: int) -> Mapping[str, object]:
        """Return the encoder options of an animation with that many pixels over all frames."""
        return {**self.options, "method": 1} if pixels > HUGE_PIXELS else self.options

    def encode_animation(
        self, animation: Animation, quality: int | None, metadata: Metadata, options: Mapping[str, object]
    ) -> bytes:
        width, height = animation.frames[0].size
        encoder_options = {
            **self.animation_options(width * height * len(animation.frames)),
            **self.metadata_options(metadata),
            **options,
            "duration": list(animation.durations),
            "loop": animation.loop_count,
            "quality": FORMATS[self.format].default_quality if quality is None else quality,
            "background": (0, 0, 0, 0),
        }
        data = save(animation.frames, self.plugin, encoder_options)
        return set_alpha_flag(data) if any(frame.mode == "RGBA" for frame in animation.frames) else data


def set_alpha_flag(data: bytes) -> bytes:
    """Return an animated WebP with its alpha flag set; any other file unchanged.

    Where every frame is an opaque rectangle, libwebp's encoder clears the flag even if the frames leave
    parts of the canvas transparent (RFC 9649, section 2.7.1.1). libwebp's decoder returns the alpha
    regardless, but Pillow discards it where the flag is not set.
    """
    flags = data[_FLAGS_OFFSET : _FLAGS_OFFSET + 1]
    if data[12:16] != b"VP8X" or not flags or not flags[0] & _ANIMATION:
        return data
    return data[:_FLAGS_OFFSET] + bytes([flags[0] | _ALPHA]) + data[_FLAGS_OFFSET + 1 :]


def _filter_riff_chunks(data: memoryview, offset: int, is_kept: IsKept) -> list[bytes | memoryview]:
    """Return the parts of the chunks from an offset that are kept, also within the frames of an animation."""
    chunks = [
        (fourcc, content)
        for fourcc, content in iter_riff_chunks(data, offset)
        if is_kept(_WEBP_KINDS.get(fourcc, fourcc), len(content) + 8)
    ]
    present = {fourcc for fourcc, _ in chunks}
    missing = sum(flag for fourcc, flag in _WEBP_FLAGS.items() if fourcc not in present)
    parts: list[bytes | memoryview] = []
    for fourcc, content in chunks:
        if fourcc == b"ANMF" and offset == WEBP_HEADER_BYTES:
            frame = _filter_riff_chunks(content, _WEBP_FRAME_HEADER_BYTES, is_kept)
            content = memoryview(b"".join((content[:_WEBP_FRAME_HEADER_BYTES], *frame)))
        elif fourcc == b"VP8X":
            content = memoryview(bytes([content[0] & ~missing]) + content[1:])
        parts += fourcc, struct.pack("<I", len(content)), content, bytes(len(content) % 2)
    return parts


def iter_riff_chunks(data: memoryview, offset: int) -> Iterator[tuple[bytes, memoryview]]:
    """Yield the type and the content of each chunk from an offset on."""
    while offset + 8 <= len(data):
        length = int.from_bytes(data[offset + 4 : offset + 8], "little")
        yield bytes(data[offset : offset + 4]), data[offset + 8 : offset + 8 + length]
        offset += 8 + length + length % 2


def webp_bitstreams(data: bytes | memoryview, offset: int = WEBP_HEADER_BYTES) -> Iterator[bytes]:
    """Yield `VP8 ` or `VP8L` for each frame of a WebP: whether it was encoded with or without losses."""
    for fourcc, content in iter_riff_chunks(memoryview(data), offset):
        if fourcc == b"ANMF":
            yield from webp_bitstreams(content, _WEBP_FRAME_HEADER_BYTES)
        elif fourcc in (b"VP8 ", b"VP8L"):
            yield fourcc
