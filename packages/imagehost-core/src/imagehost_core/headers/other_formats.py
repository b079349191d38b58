"""Names of the formats that uploads do not accept, for the errors that reject them.

They are found by the first bytes. The names are for people: nothing depends on them.
"""

from __future__ import annotations

import re

NAMED_BYTES = 1_024
"""The number of leading bytes of a file that `name_content` inspects."""

_SIGNATURES = (
    (rb"%PDF-", "PDF"),
    (rb"(?s)....ftyp(avif|avis|....(....)*?avi[fs])", "AVIF"),
    (rb"(?s)....ftyp(hei|hev|mif1|msf1)", "HEIC"),
    (rb"(?s)....ftyp|\x1aE\xdf\xa3", "a video"),
    (rb"II\*\0|MM\0\*|II\+\0|MM\0\+", "TIFF"),
    (rb"BM", "BMP"),
    (rb"\xff\x0a|\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
    (rb"\0\0\0\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51", "JPEG 2000"),
    (rb"8BPS", "PSD"),
    (rb"\0\0\x01\0", "ICO"),
    (rb"PK\x03\x04", "a ZIP archive"),
    (rb"(?i)(\xef\xbb\xbf)?\s*<(!doctype html|html|head|body)\b", "HTML"),
    (rb"(?si)(\xef\xbb\xbf)?\s*<(?=[!?s]).*?(?<=<)svg[\s>:/]", "SVG"),
)
"""Patterns of the first bytes, and the name of the format; the first that matches counts."""
_PATTERNS = tuple((re.compile(pattern), name) for pattern, name in _SIGNATURES)


def name_content(head: bytes) -> str:
    """Return the name of a format that uploads do not accept, for an error.

    Args:
        head: The first `NAMED_BYTES` bytes, fewer if the file is shorter.
    """
    if not head:
        return "0 bytes"
    return next((name for pattern, name in _PATTERNS if pattern.match(head)), "another format")
