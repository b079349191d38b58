"""What the worker processes are asked to do, and what they say about the result.

A job is data: it crosses a pipe as JSON, beside the picture's bytes. A worker needs neither the
catalog nor the file system; it gets bytes and gives bytes back.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

from imagehost_core.formats import Format
from imagehost_core.transform.geometry import Plan, Size

DERIVATIVE_SIDES = (2048, 1024, 512)
"""The lengths of the longer side of the reductions that are made at upload, in pixels.

From EVIDENCE: a 52-Mpixel WebP to 720 px costs 1,450 ms from the master and 92–118 ms from a
2,048-px reduction.
"""

PRIORITY_SIDE = 1024
"""The rung that is worth most, being the start for most thumbnails and pages; it gets its bytes first."""

MIN_DOWNSCALE = (5, 4)
"""A rung serves targets that it exceeds by at least this much, on both axes: 5 to 4.

Measured in `docs/decisions/0004`: being reduced in linear light, a rung of 1,024 px gives
an 820-px JPEG within half a point of SSIMULACRA2 of one made from the whole picture.
"""

PREFERRED_DOWNSCALE = (2, 1)
"""What a target gets where it costs little, which is from rungs of at most `KEY_SIDE`: 2 to 1.

Measured in `docs/decisions/0004`: worth 0.9 points of SSIMULACRA2 at 320 px.
"""


def pick_derivative(rungs: Iterable[Size], target: Size) -> Size | None:
    """Return the rung that a variant is made of, or `None` where none is large enough.

    It is the smallest one of twice the target's sides, if it is no larger than `KEY_SIDE`; else the
    smallest one that exceeds the target by a quarter.

    Args:
        rungs: The sizes of those that there are.
        target: What the whole picture is brought to.
    """
    by_size = sorted(rungs, key=lambda rung: rung.pixels)
    large_enough = [rung for rung in by_size if _exceeds(rung, target, MIN_DOWNSCALE)]
    comfortable = (
        rung
        for rung in large_enough
        if max(rung.width, rung.height) <= PRIORITY_SIDE and _exceeds(rung, target, PREFERRED_DOWNSCALE)
    )
    return next(comfortable, next(iter(large_enough), None))


def _exceeds(rung: Size, target: Size, margin: tuple[int, int]) -> bool:
    above, below = margin
    return rung.width * below >= target.width * above and rung.height * below >= target.height * above


@frozen
class IngestJob:
    """Decode an upload once; make of it what is stored.

    Attributes:
        format: What the bytes are, by their headers.
        wanted: The format that was asked for by name, or `None`.
        convert_to_webp: Whether WebP is tried where no format was asked for; kept only where it is
            smaller (contract 4).
        quality: 1–100 as asked for, or `None`.
        remove_exif: Whether EXIF, XMP and IPTC go. ICC stays.
        ladder: The longer sides of the reductions to make, in pixels, descending.
    """

    format: Format
    wanted: Format | None = None
    convert_to_webp: bool = True
    quality: int | None = None
    remove_exif: bool = False
    derivative_sides: tuple[int, ...] = DERIVATIVE_SIDES


@frozen
class IngestResult:
    """What came of an `IngestJob`. The blobs beside it are the master, then the rungs in order.

    Attributes:
        format: The master's format.
        size: The upright size of one frame, in pixels.
        frames: How many frames the master has.
        has_alpha: Whether a pixel of it is not opaque.
        placeholder: The ThumbHash, in base64.
        unchanged: Whether the master is the upload's own bytes; its blob is then empty.
        rungs: The sizes of the reductions, largest first. Each is an upright sRGB picture.
    """

    format: Format
    size: Size
    frames: int
    has_alpha: bool
    placeholder: str
    unchanged: bool
    derivatives: tuple[Size, ...] = ()


@frozen
class RenderJob:
    """Make one variant. The only blob beside its answer is the variant.

    Attributes:
        plan: The steps for the upright master, in the master's pixels.
        format: The format of the output.
        quality: 1–100, or `None` where the format has none.
        animated: Whether all frames are wanted, and not just the first.
    """

    plan: Plan
    format: Format
    quality: int | None = field()
    animated: bool = False

    @quality.validator
    def _in_range(self, _attribute: object, value: int | None) -> None:
        if value is not None and not 1 <= value <= 100:
            raise ValueError(f"expected 1 to 100 for quality but received {value}")


@frozen
class RenderResult:
    """What came of a `RenderJob`: the size of the output, in pixels, and its frames."""

    size: Size
    frames: int


Job = IngestJob | RenderJob
Outcome = IngestResult | RenderResult
