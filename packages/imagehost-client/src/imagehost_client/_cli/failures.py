"""The report of a batch upload's failures."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from imagehost_client._cli.errors import describe_content
from imagehost_client._cli.output import Console, counted
from imagehost_client._many import UploadResult
from imagehost_client._types import Source
from imagehost_client.errors import ImageHostError, UnsupportedMediaTypeError

NOT_ATTEMPTED = "not attempted"

SUPPORTED = "JPEG, PNG, WebP or GIF"
"""The formats that hosts accept."""


def describe_failure(result: UploadResult) -> str:
    """Return the message for a failed file: its name and error, and what it is if it is no image."""
    name, error = _source_name(result.source), result.error
    if not result.attempted:
        return f"{name}: {NOT_ATTEMPTED}"
    if isinstance(error, OSError) and error.strerror:
        return f"{name}: {error.strerror}"
    if not isinstance(error, UnsupportedMediaTypeError):
        return f"{name}: {error}"
    content = describe_content(name)
    return f"{name}: {error}" + (f"; the file is {content}" if content else "")


def print_summary(console: Console, results: Sequence[UploadResult]) -> None:
    """Print which files were not attempted, why the batch stopped, and the counts by kind of failure."""
    if not results:
        console.error(f"no images found; folders are searched for {SUPPORTED}")
    failed = [result for result in results if result.error is not None]
    untried = [result for result in failed if not result.attempted]
    for result in untried:
        console.error(describe_failure(result))
    for reason in dict.fromkeys(str(result.error) for result in untried):
        console.error(f"stopped: {reason}")
    if failed:
        counts = Counter(_kind_of(result) for result in failed)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        kinds = "; ".join(f"{count} × {kind}" for kind, count in ordered)
        console.error(f"{len(failed)} of {counted(len(results), 'file')} failed: {kinds}")


def _kind_of(result: UploadResult) -> str:
    error = result.error
    if not result.attempted:
        return NOT_ATTEMPTED
    if isinstance(error, ImageHostError):
        return error.message
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__


def _source_name(source: Source) -> str:
    content = source[1] if isinstance(source, tuple) else source
    if isinstance(content, (str, os.PathLike)):
        return os.fspath(content)
    return source[0] if isinstance(source, tuple) else "file"
