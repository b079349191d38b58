"""The header scan: it rejects a file with its documented errors, or agrees with Pillow, in linear time."""

from __future__ import annotations

import io
import warnings

from PIL import Image
from tests.faults.fuzzing.samples import IMAGE_TOKENS, sample_images

from imagehost_core.errors import UnsupportedMediaTypeError, ValidationError
from imagehost_core.formats import SNIFF_BYTES, sniff
from imagehost_core.headers.header import ImageHeader, SourceLimits
from imagehost_core.headers.scanner import scan

LIMITS = SourceLimits(frame_pixels=250_000, total_pixels=1_000_000)
"""Small ones, as some of Pillow's decoders allocate a frame when they open a file."""
READS = 4
"""How often a byte of a small file may be read: the orientation is read after the rest."""
DICTIONARY = IMAGE_TOKENS
FINDINGS = ()

warnings.filterwarnings("ignore", module="PIL")


def seeds() -> tuple[bytes, ...]:
    return sample_images()


class CountingFile(io.BytesIO):
    """A file that counts the bytes that are read."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


def check(data: bytes) -> None:
    file = CountingFile(data)
    is_known = sniff(data[:SNIFF_BYTES]) is not None
    try:
        header = scan(file, len(data), LIMITS)
    except UnsupportedMediaTypeError:
        assert not is_known
        return
    except ValidationError:
        assert is_known
        return
    finally:
        assert file.count <= READS * len(data) + 64, f"{file.count} bytes read of {len(data)}"
    require_plausible(header, data)
    image = data[: header.end_offset]
    assert scan(io.BytesIO(image), len(image), LIMITS) == header
    try:
        with Image.open(io.BytesIO(image), formats=(header.format.value,)) as opened:
            size, frames = opened.size, getattr(opened, "n_frames", 1)
    except Exception:  # Pillow raises errors of many kinds for a damaged file.
        return
    assert size == (header.width, header.height), f"{size} by Pillow, {header}"
    if header.format != "jpeg":  # Pillow counts the further images of an MPO.
        assert frames <= header.frames, f"{frames} frames by Pillow, {header}"


def require_plausible(header: ImageHeader, data: bytes) -> None:
    """Assert that the offsets of a header are within the file, and its numbers within their ranges."""
    assert 0 < header.end_offset <= len(data)
    assert header.width > 0
    assert header.height > 0
    assert header.frames > 0
    assert 1 <= header.orientation <= 8
    assert header.canvas_extent >= (header.width, header.height)
    for kind, start, end in header.metadata_spans:
        assert kind in header.metadata
        assert 0 < start <= end <= len(data)
