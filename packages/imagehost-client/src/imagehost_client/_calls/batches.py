"""Uploads of several files in one request (form 1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from attrs import frozen

from imagehost_client import _wire
from imagehost_client._calls._call import Call
from imagehost_client.errors import BY_CODE, BY_STATUS, ImageHostError, ServerError
from imagehost_client.models import Image, Result, ResultList

MAX_FILES = 20
"""The maximum number of files in a request."""

_STATUSES = {kind: status for status, kind in reversed(BY_STATUS.items())}


@frozen(kw_only=True)
class FailedFile(Result):
    """A file of a request that was not stored, while others were.

    Attributes:
        index: The file's position in the request, from 0.
    """

    index: int
    code: str
    message: str
    details: str = ""

    def error(self) -> ImageHostError:
        """Return the error that the file alone would have raised."""
        kind = BY_CODE.get(self.code, ImageHostError)
        return kind(
            self.details,
            message=self.message,
            code=self.code,
            status=_STATUSES.get(kind),
            request_id=self.meta.request_id,
            rate_limit=self.meta.rate_limit,
        )


UploadedBatch = ResultList[Image | FailedFile]
"""The image or the error of each file, in the order of the request."""


def upload_batch(calls: Sequence[Call[Image]], key: str = "") -> Call[UploadedBatch]:
    """Return one call for several uploads with the same options.

    Args:
        calls: The uploads, at most `MAX_FILES`.
        key: The idempotency key; random by default.
    """
    return Call(
        method="POST",
        path="/upload",
        decode=partial(_decode_batch, len(calls)),
        fields=calls[0].fields,
        files=tuple(call.file for call in calls if call.file is not None),
        key=key,
    )


def _decode_batch(count: int, data: object) -> UploadedBatch:
    """Return the images and errors of `count` files in their order.

    Raises:
        ServerError: The response has not one image or error for each file.
    """
    images = _wire.decode_list(Image, "images", data).items
    failures = {failure.index: failure for failure in _wire.decode_list(FailedFile, "errors", data).items}
    if len(images) + len(failures) != count or not failures.keys() <= set(range(count)):
        raise ServerError(
            f"expected an image or an error for each of {count} files but received {len(images)} images and "
            f"{len(failures)} errors",
            message="The response cannot be decoded",
            code="INVALID_RESPONSE",
        )
    stored = iter(images)
    return ResultList(
        items=tuple(failures[index] if index in failures else next(stored) for index in range(count))
    )
