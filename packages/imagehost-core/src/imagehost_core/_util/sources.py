"""What programs give as the source of an image: a path, bytes, or a binary file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from inspect import iscoroutinefunction
from io import TextIOBase

from imagehost_core.errors import ValidationError, quote_value


def unwrapped(source: object) -> object:
    """Return the binary file in an `UploadFile` of Starlette or FastAPI; any other value as it is."""
    is_wrapper = iscoroutinefunction(getattr(source, "read", None))
    return getattr(source, "file", source) if is_wrapper else source


def require_source(source: object) -> None:
    """Raise ValidationError unless a value can be the source of an image."""
    is_file = hasattr(source, "read") and not isinstance(source, TextIOBase)
    if not is_file and not isinstance(source, str | os.PathLike | bytes | bytearray | memoryview):
        expected = f"a path, bytes or a binary file{_advice(source)}"
        raise ValidationError.of("source", expected, quote_value(source))


def _advice(source: object) -> str:
    """Return what a program writes in place of a value that is no source; nothing if that is unknown."""
    package = type(source).__module__.partition(".")[0]
    if package in {"PIL", "numpy"}:
        image = "image" if package == "PIL" else "PIL.Image.fromarray(array)"
        return f" (buffer.getvalue() after {image}.save(buffer := io.BytesIO(), 'PNG'))"
    return " (b''.join(chunks))" if isinstance(source, Iterator) else ""
