"""The recorder: counts requests, and the measurements of the host, in the table of metrics."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, cast

from imagehost_core import Measurement
from imagehost_core.observer import (
    CachePurgeAttempted,
    DeliveryAttempted,
    PoolLoad,
    TaskEnded,
    TransactionEnded,
    UploadEnded,
    VariantFound,
    VariantsEvicted,
    VariantsSwept,
    WorkerAcquired,
    WorkerExited,
    WorkerStarted,
)
from imagehost_server.metrics import families
from imagehost_server.metrics.families import Family
from imagehost_server.metrics.table import MetricTable

METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
OTHER_METHOD = "other"
"""The label of all other methods: clients can make up any number of them."""
UNROUTED = "unrouted"
"""The label of requests that no route has handled."""
IMAGE_ROUTE = "image"
"""The label of the delivery route, under each of its prefixes."""
_REQUEST_BUCKETS = families.HTTP_SECONDS.buckets
_SUM = len(_REQUEST_BUCKETS) + 1
_RequestSeries = tuple[int, int, int, int]
"""The positions of a request's series: number of requests, seconds, received bytes and sent bytes."""


class Recorder:
    """The counters of this process.

    Requests are counted on the event loop without a lock, all else under one: series of requests must not be
    changed elsewhere.

    Args:
        table: The table of metrics.
        process: The kind of this process.
    """

    def __init__(self, table: MetricTable, process: str = "server") -> None:
        self.table = table
        self._values = table.values
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, str, int], _RequestSeries] = {}
        self._record = cast(
            "dict[type[Measurement], Callable[[Any], None]]",
            {
                TransactionEnded: self._transaction,
                VariantFound: self._lookup,
                WorkerAcquired: self._wait,
                PoolLoad: self._pool,
                TaskEnded: self._task,
                WorkerStarted: self._worker_started,
                WorkerExited: self._worker_exited,
                UploadEnded: self._upload,
                DeliveryAttempted: self._delivery,
                CachePurgeAttempted: self._purge,
                VariantsEvicted: self._evicted,
                VariantsSwept: self._swept,
            },
        )
        self._add(families.PROCESS_STARTS, process)
        if process == "server":
            self._connections = table.series(families.HTTP_CONNECTIONS)
            self._client_copies = table.series(families.IMAGE_LOOKUPS, "client")
            self._memory_hits = table.series(families.IMAGE_LOOKUPS, "memory")
            self._masters = table.series(families.IMAGE_LOOKUPS, "master")

    def request(
        self, method: str, route: str, status: int, seconds: float, received_bytes: int, sent_bytes: int
    ) -> None:
        """Count a request; on the event loop only.

        Args:
            method: The HTTP method.
            route: The template of its route, or `UNROUTED`.
            status: The status of the response; 0 = none was sent.
            seconds: How long it took.
            received_bytes: Bytes of its body that were read.
            sent_bytes: Bytes of the response's body.
        """
        values = self._values
        series = self._requests.get((method, route, status))
        count_at, seconds_at, received_at, sent_at = series or self._request_series(method, route, status)
        values[count_at] += 1.0
        values[seconds_at + bisect_left(_REQUEST_BUCKETS, seconds)] += 1.0
        values[seconds_at + _SUM] += seconds
        if received_bytes:
            values[received_at] += received_bytes
        if sent_bytes:
            values[sent_at] += sent_bytes

    def error(self, method: str, route: str, status: int, request_id: str) -> None:
        """Keep a request that got a response of 500 to 599; on the event loop only.

        Args:
            method: The HTTP method.
            route: The template of its route, or `UNROUTED`.
            status: The status of the response.
            request_id: The request id.
        """
        self.table.errors.add(status, method if method in METHODS else OTHER_METHOD, route, request_id)

    def response_cut(self, reason: str) -> None:
        """Count a response that ended before its last byte."""
        self._add(families.HTTP_CUT, reason)

    def image_in_memory(self) -> None:
        """Count an image that was sent from memory; on the event loop only."""
        self._values[self._memory_hits] += 1.0

    def client_copy(self) -> None:
        """Count an image of which the client has a current copy; on the event loop only."""
        self._values[self._client_copies] += 1.0

    def master(self) -> None:
        """Count a master that was sent from its file; on the event loop only."""
        self._values[self._masters] += 1.0

    def connections(self, count: int) -> None:
        """Set the number of open connections of this process; on the event loop only."""
        self._values[self._connections] = count

    def orphans_removed(self, images: int) -> None:
        """Count images whose files a crashed upload had left."""
        self._add(families.ORPHANS_REMOVED, amount=images)

    def observe(self, measurement: Measurement) -> None:
        """Count a measurement of the host, in any thread."""
        record = self._record.get(type(measurement))
        if record is not None:
            record(measurement)

    def _request_series(self, method: str, route: str, status: int) -> _RequestSeries:
        known, label = method if method in METHODS else OTHER_METHOD, str(status) if status else "none"
        kinds = families.HTTP_SECONDS, families.HTTP_RECEIVED, families.HTTP_SENT
        count = self.table.series(families.HTTP_REQUESTS, known, route, label)
        seconds, received, sent = (self.table.series(family, route) for family in kinds)
        series = count, seconds, received, sent
        if known == method:
            self._requests[method, route, status] = series
        return series

    def _add(self, family: Family, *labels: str, amount: float = 1.0) -> None:
        position = self.table.series(family, *labels)
        with self._lock:
            self._values[position] += amount

    def _set(self, family: Family, value: float, *labels: str) -> None:
        self._values[self.table.series(family, *labels)] = value

    def _measure(self, family: Family, seconds: float, *labels: str) -> None:
        position, buckets = self.table.series(family, *labels), family.buckets
        with self._lock:
            self._values[position + bisect_left(buckets, seconds)] += 1.0
            self._values[position + len(buckets) + 1] += seconds

    def _transaction(self, measured: TransactionEnded) -> None:
        result = "commit" if measured.committed else "rollback"
        self._measure(families.TRANSACTION_SECONDS, measured.seconds, result)
        self._measure(families.TRANSACTION_WAIT, measured.waited_seconds)

    def _lookup(self, measured: VariantFound) -> None:
        # `DeliveryRoute` has looked into the memory just before, and has counted what it found.
        tier = "coalesced" if measured.tier == "memory" else measured.tier
        self._add(families.IMAGE_LOOKUPS, tier)

    def _wait(self, measured: WorkerAcquired) -> None:
        self._measure(families.QUEUE_WAIT, measured.waited_seconds, measured.lane)
        if not measured.admitted:
            self._add(families.QUEUE_REJECTIONS, measured.lane)

    def _pool(self, load: PoolLoad) -> None:
        self._set(families.WORKERS, load.busy, "busy")
        self._set(families.WORKERS, load.idle, "idle")
        self._set(families.QUEUE_LENGTH, load.waiting)

    def _task(self, measured: TaskEnded) -> None:
        labels = measured.task, measured.lane, measured.format
        self._measure(families.TASK_SECONDS, measured.seconds, *labels)
        self._add(families.TASKS, measured.task, measured.outcome)

    def _worker_started(self, _measured: WorkerStarted) -> None:
        self._add(families.WORKER_STARTS)

    def _worker_exited(self, measured: WorkerExited) -> None:
        self._add(families.WORKER_EXITS, measured.cause)

    def _upload(self, measured: UploadEnded) -> None:
        self._add(families.UPLOADS, measured.code)
        self._add(families.UPLOAD_RECEIVED, amount=measured.received_bytes)
        self._add(families.UPLOAD_STORED, amount=measured.stored_bytes)

    def _delivery(self, measured: DeliveryAttempted) -> None:
        self._measure(families.DELIVERY_SECONDS, measured.seconds, "ok" if measured.succeeded else "failed")

    def _purge(self, measured: CachePurgeAttempted) -> None:
        self._measure(families.PURGE_SECONDS, measured.seconds, "ok" if measured.succeeded else "failed")
        if measured.given_up:
            self._add(families.PURGES_GIVEN_UP)

    def _evicted(self, measured: VariantsEvicted) -> None:
        self._add(families.VARIANT_EVICTIONS, measured.limit, amount=measured.count)
        self._add(families.VARIANT_EVICTED_BYTES, measured.limit, amount=measured.size_bytes)

    def _swept(self, measured: VariantsSwept) -> None:
        position = self.table.series(families.VARIANT_BYTES)
        with self._lock:
            self._values[position] = time.time()
            self._values[position + 1] = measured.stored_bytes
