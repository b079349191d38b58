"""What the samples of a PNG mean: its colour chunks, as an ICC profile and a table of samples.

Of cICP, iCCP, sRGB, and gAMA with cHRM, the first that is usable counts (PNG, third edition, section 4.3);
without any, an image is sRGB. The transfer function is replaced by that of sRGB, so that 8 bits suffice for
the stored image; primaries that are not those of sRGB become its ICC profile.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from math import exp, log

from attrs import frozen

from imagehost_core.headers.metadata_blocks import inflate
from imagehost_core.pixels.linear_light import to_srgb

Primaries = tuple[float, ...]
"""The chromaticities x and y of white, red, green and blue."""

SDR_WHITE, HDR_PEAK = 203.0, 1_000.0
"""The luminance of white, and of the brightest level that is told apart, in candelas a square metre."""

_D65 = (0.3127, 0.329)
_PRIMARIES: dict[int, Primaries] = {
    1: (*_D65, 0.64, 0.33, 0.3, 0.6, 0.15, 0.06),
    4: (0.31, 0.316, 0.67, 0.33, 0.21, 0.71, 0.14, 0.08),
    5: (*_D65, 0.64, 0.33, 0.29, 0.6, 0.15, 0.06),
    6: (*_D65, 0.63, 0.34, 0.31, 0.595, 0.155, 0.07),
    7: (*_D65, 0.63, 0.34, 0.31, 0.595, 0.155, 0.07),
    9: (*_D65, 0.708, 0.292, 0.17, 0.797, 0.131, 0.046),
    11: (0.314, 0.351, 0.68, 0.32, 0.265, 0.69, 0.15, 0.06),
    12: (*_D65, 0.68, 0.32, 0.265, 0.69, 0.15, 0.06),
}
"""Colour primaries (ITU-T H.273, table 2)."""
_SRGB_PRIMARIES = _PRIMARIES[1]
_PRIMARIES_TOLERANCE = 0.001
_SRGB_GAMMA, _GAMMA_TOLERANCE = 0.45455, 0.05
"""The gAMA of sRGB images, and the relative difference that libpng takes as the same."""


def _power(exponent: float) -> Callable[[float], float]:
    return lambda sample: sample**exponent


def _tone_map(luminance: float) -> float:
    """Return the light, 0–1, of a luminance in candelas a square metre.

    Up to white it is proportional, and white is half of the light. Above, each doubling adds the same.
    """
    ratio = luminance / SDR_WHITE
    return ratio / 2 if ratio <= 1 else min(1.0, 0.5 + 0.5 * log(ratio) / log(HDR_PEAK / SDR_WHITE))


def _pq(sample: float) -> float:
    """Return the light of a sample in the perceptual quantiser (SMPTE ST 2084)."""
    root = sample ** (1 / 78.84375)
    return _tone_map(
        10_000 * (max(0.0, root - 0.8359375) / (18.8515625 - 18.6875 * root)) ** (1 / 0.1593017578125)
    )


def _hlg(sample: float) -> float:
    """Return the light of a sample in hybrid log-gamma (ITU-R BT.2100), on a display of `HDR_PEAK`."""
    scene = sample**2 / 3 if sample <= 0.5 else (exp((sample - 0.55991073) / 0.17883277) + 0.28466892) / 12
    return _tone_map(HDR_PEAK * scene**1.2)


_TRANSFERS: dict[int, Callable[[float], float] | None] = {
    **dict.fromkeys((1, 6, 14, 15), _power(2.4)),
    4: _power(2.2),
    5: _power(2.8),
    8: _power(1),
    13: None,
    16: _pq,
    17: lambda sample: min(1.0, sample**2.6 * 52.37 / 48),
    18: _hlg,
}
"""Transfer characteristics (ITU-T H.273, table 3), from samples to light; those of video by the display's
(BT.1886), as in browsers. `None` is sRGB."""


@frozen
class PngColour:
    """What the samples of a PNG mean.

    Attributes:
        transfer: Maps a sample, 0–1, to linear light, 0–1; `None` for that of sRGB.
        profile: The ICC profile of the image after that, or `None` for sRGB.
    """

    transfer: Callable[[float], float] | None = None
    profile: bytes | None = None

    def lut(self, samples: int) -> list[int]:
        """Return the 8-bit sRGB level of each sample, of as many as the depth allows."""
        values = (sample / (samples - 1) for sample in range(samples))
        transfer = self.transfer
        if transfer is None:
            return [round(255 * value) for value in values]
        return [round(255 * to_srgb(transfer(value))) for value in values]


def read_colour(chunks: Mapping[bytes, bytes], *, is_grey: bool) -> PngColour:
    """Return what the samples mean.

    Args:
        chunks: The content of the chunks before the pixels by their types.
        is_grey: Whether the image has no colours, so that primaries do not matter.
    """
    cicp = chunks.get(b"cICP", b"")
    if len(cicp) == 4 and cicp[0] in _PRIMARIES and cicp[1] in _TRANSFERS and cicp[2:] == b"\0\1":
        return PngColour(_TRANSFERS[cicp[1]], None if is_grey else _profile(_PRIMARIES[cicp[0]]))
    compressed = chunks.get(b"iCCP", b"").partition(b"\0")[2]
    if compressed[:1] == b"\0" and (profile := inflate(compressed[1:])):
        return PngColour(profile=profile)
    if len(chunks.get(b"sRGB", b"")) == 1 or len(chunks.get(b"gAMA", b"")) != 4:
        return PngColour()
    gamma = struct.unpack(">I", chunks[b"gAMA"])[0] / 100_000
    primaries = chunks.get(b"cHRM", b"")
    if not gamma:
        return PngColour()
    if len(primaries) != 32:
        is_srgb = abs(gamma / _SRGB_GAMMA - 1) < _GAMMA_TOLERANCE
        return PngColour(None if is_srgb else _power(1 / gamma))
    values = tuple(value / 100_000 for value in struct.unpack(">8I", primaries))
    return PngColour(_power(1 / gamma), None if is_grey else _profile(values))


_BRADFORD = ((0.8951, 0.2664, -0.1614), (-0.7502, 1.7135, 0.0367), (0.0389, -0.0685, 1.0296))
_D50 = (0.9642, 1.0, 0.8249)
_Vector = tuple[float, ...]
_Matrix = tuple[_Vector, ...]


def _profile(primaries: Primaries) -> bytes | None:
    """Return an ICC profile (ICC.1:2022) with the transfer function of sRGB; `None` for sRGB itself."""
    if all(
        abs(one - other) <= _PRIMARIES_TOLERANCE
        for one, other in zip(primaries, _SRGB_PRIMARIES, strict=True)
    ):
        return None
    try:
        colourants = _colourants(primaries)
        tags = dict(zip((b"wtpt", b"rXYZ", b"gXYZ", b"bXYZ"), map(_xyz, (_D50, *colourants)), strict=True))
    except (ArithmeticError, struct.error):
        return None
    curve = (
        b"para\0\0\0\0" + struct.pack(">HH", 3, 0) + _fixed(2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
    )
    tags |= dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve)
    tags |= {b"desc": _text("RGB of a PNG"), b"cprt": _text("CC0")}
    table, body = struct.pack(">I", len(tags)), b""
    for name, content in tags.items():
        table += struct.pack(">4sII", name, 132 + 12 * len(tags) + len(body), len(content))
        body += content + bytes(-len(content) % 4)
    size = 128 + len(table) + len(body)
    head = struct.pack(">I4xI4s4s4s12x4s28x", size, 0x0440_0000, b"mntr", b"RGB ", b"XYZ ", b"acsp") + _fixed(
        *_D50
    )
    return head.ljust(128, b"\0") + table + body


def _colourants(primaries: Primaries) -> _Matrix:
    """Return red, green and blue of a colour space in XYZ, adapted to D50."""
    white, *colours = (
        (x / y, 1.0, (1 - x - y) / y) for x, y in zip(primaries[::2], primaries[1::2], strict=True)
    )
    columns = tuple(zip(*colours, strict=True))
    scaled = tuple(
        tuple(scale * value for value in colour)
        for scale, colour in zip(_solve(columns, white), colours, strict=True)
    )
    ratios = [to / by for to, by in zip(_apply(_BRADFORD, _D50), _apply(_BRADFORD, white), strict=True)]
    adapted = (
        tuple(ratio * value for ratio, value in zip(ratios, _apply(_BRADFORD, colour), strict=True))
        for colour in scaled
    )
    return tuple(_solve(_BRADFORD, colour) for colour in adapted)


def _apply(matrix: _Matrix, vector: _Vector) -> _Vector:
    return tuple(sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)


def _solve(matrix: _Matrix, vector: _Vector) -> _Vector:
    """Return the vector that a 3×3 matrix maps to another (Cramer's rule)."""
    whole = _determinant(matrix)
    return tuple(
        _determinant(
            tuple((*row[:i], value, *row[i + 1 :]) for row, value in zip(matrix, vector, strict=True))
        )
        / whole
        for i in range(3)
    )


def _determinant(matrix: _Matrix) -> float:
    (a, b, c), (d, e, f), (g, h, i) = matrix
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)


def _fixed(*values: float) -> bytes:
    return struct.pack(f">{len(values)}i", *(round(65_536 * value) for value in values))


def _xyz(values: _Vector) -> bytes:
    return b"XYZ \0\0\0\0" + _fixed(*values)


def _text(text: str) -> bytes:
    # The sandbox of a worker process can load no codec.
    encoded = b"".join(b"\0%c" % character for character in text.encode("ascii"))
    return b"mluc\0\0\0\0" + struct.pack(">II4sII", 1, 12, b"enUS", len(encoded), 28) + encoded
