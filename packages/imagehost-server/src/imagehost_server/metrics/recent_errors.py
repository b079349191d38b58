"""The latest failed requests of a process: rings of a fixed size in its slot of the table of metrics.

They say what an operator looks up in the log: the time, the route and the request id, and no path, name or
other text of a client. Failures (500) have a ring of their own, so that requests that were refused (503 and
507), of which clients can cause many, do not push them out. Nothing is allocated or written to a disk,
however many there are.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime

from attrs import frozen

KEPT = 32
"""The number of errors that a ring keeps."""
_METHOD_BYTES, _ID_BYTES, _ROUTE_BYTES = 8, 32, 96
_FIELDS = struct.Struct(f"=dHxx{_METHOD_BYTES}s{_ID_BYTES}s{_ROUTE_BYTES}s")
_CHECKSUM = struct.Struct("=I")
_ENTRY_BYTES = _CHECKSUM.size + _FIELDS.size
_COUNT = struct.Struct("=Q")
_RING_BYTES = _COUNT.size + KEPT * _ENTRY_BYTES
RINGS_BYTES = 2 * _RING_BYTES
"""Bytes of the rings of a process; a multiple of 8."""


@frozen
class RecentError:
    """A request that got a response of the statuses 500 to 599.

    Attributes:
        at: The end of the request, in UTC.
        status: The status of the response.
        method: The HTTP method.
        route: The template of its route.
        request_id: The request id, under which the log has the cause.
    """

    at: datetime
    status: int
    method: str
    route: str
    request_id: str


@frozen
class RecentErrors:
    """The rings of a process in a buffer of `RINGS_BYTES` bytes, which other processes read meanwhile.

    The checksum of an entry tells one that is being written, or was when the process was killed.
    """

    _buffer: memoryview[int]

    def add(self, status: int, method: str, route: str, request_id: str) -> None:
        """Add an error, in place of the oldest one of its ring; by one thread of the process only."""
        ring = 0 if status == 500 else _RING_BYTES
        (count,) = _COUNT.unpack_from(self._buffer, ring)
        texts = (method.encode(), request_id.encode(), route.encode())
        fields = _FIELDS.pack(time.time(), status, *texts)
        start = ring + _COUNT.size + count % KEPT * _ENTRY_BYTES
        self._buffer[start : start + _ENTRY_BYTES] = _CHECKSUM.pack(zlib.crc32(fields)) + fields
        _COUNT.pack_into(self._buffer, ring, count + 1)

    def __iter__(self) -> Iterator[RecentError]:
        """Yield the errors, in any order."""
        for ring in (0, _RING_BYTES):
            (count,) = _COUNT.unpack_from(self._buffer, ring)
            for index in range(min(count, KEPT)):
                start = ring + _COUNT.size + index * _ENTRY_BYTES
                entry = bytes(self._buffer[start : start + _ENTRY_BYTES])
                fields = entry[_CHECKSUM.size :]
                if _CHECKSUM.unpack_from(entry) != (zlib.crc32(fields),):
                    continue
                seconds, status, *texts = _FIELDS.unpack(fields)
                method, request_id, route = (text.rstrip(b"\0").decode("utf-8", "replace") for text in texts)
                yield RecentError(datetime.fromtimestamp(seconds, UTC), status, method, route, request_id)
