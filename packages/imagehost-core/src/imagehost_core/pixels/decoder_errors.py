"""What Pillow's decoders raise and warn of for damaged files: an error 422, and nothing."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from PIL import Image

from imagehost_core.errors import FieldError, ValidationError
from imagehost_core.formats import Format

DECODER_ERRORS = (
    OSError,  # with UnidentifiedImageError
    ValueError,
    SyntaxError,
    EOFError,
    struct.error,
    LookupError,
    ArithmeticError,
    TypeError,
    AttributeError,
    AssertionError,
    RuntimeError,
    Image.DecompressionBombError,
)
"""The exceptions that Pillow's decoders raise for damaged files. `MemoryError` is not among them: it may be
caused by the machine instead of the file, so the worker's caller handles it."""


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Suppress Pillow's warnings, which are about the uploaded file, in the worker's output."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def decoder_errors(fmt: Format) -> Iterator[None]:
    """Raise ValidationError for any decoder error. To be used around decoding only, not encoding.

    Raises:
        ValidationError: The decoder rejected the file; the decoder's exception is the cause.
    """
    try:
        yield
    except DECODER_ERRORS as error:
        field_error = FieldError("the image", f"a {fmt.name} file that can be decoded", "a damaged one")
        raise ValidationError(errors=[field_error]) from error
