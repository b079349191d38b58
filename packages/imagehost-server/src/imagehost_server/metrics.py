"""Metrics: the names of docs/operate.md, counted with prometheus_client in one process or in several.

Several server processes count in files of a folder in memory: prometheus_client's multiprocess mode, where a
count takes 3 µs. So requests are counted in plain numbers, and added to the files once a second. Each process
has the files of a number that no running process has. One that replaces another goes on from its counters: no
counter goes backwards, and however many processes die, the files are as many.

Names and units follow https://prometheus.io/docs/practices/naming/. Every label has few values: a route is
its template, never a path that a client has sent.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
import shutil
import tempfile
from bisect import bisect_left
from collections import Counter as Counts
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attrs import Factory, asdict, define, frozen
from prometheus_client import Counter, Gauge, Histogram, values
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest, start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from imagehost_core import ImageHost, observer
from imagehost_core.coordination.locks import lock_existing_file, lock_file
from imagehost_core.errors import BY_CODE, InternalError
from imagehost_core.maintenance.service import HostStatistics
from imagehost_core.observer import Measurement, PoolLoad

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""The media type of the text format."""
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
OTHER_METHOD = "other"
"""The label of all other methods: clients can make up any number of them."""
UNROUTED = "unrouted"
"""The label of requests that no route has handled."""
IMAGE_ROUTE = "image"
"""The label of the delivery route, under each of its prefixes."""
FOLD_SECONDS = 1.0
"""How long a request is counted in this process alone."""
ERRORS_KEPT = 32
"""Failed requests that a process keeps, and as many refused ones."""
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable that names the folder of the processes, for prometheus_client as well."""
FOLDER_PREFIX = "imagehost-metrics-"
FILES_COUNTED = "files_counted"
"""The member of a request's state that says that its files are counted one by one."""
_CODES = {kind.status: kind.code for kind in BY_CODE.values()}

log = logging.getLogger("imagehost.server")


class FoldedHistogram(Histogram):
    """A histogram that can add many observations at once."""

    def add(self, counts: Iterable[int], total: float) -> None:
        """Add observations.

        Args:
            counts: Their number in each bucket, the one without a bound included.
            total: Their sum.
        """
        for bucket, number in zip(self._buckets, counts, strict=True):
            if number:
                bucket.inc(number)
        self._sum.inc(total)


@frozen(eq=False)
class Family:
    """A metric family.

    Attributes:
        name: The name, without the suffix `_total` of a counter.
        type: The type: `counter`, `gauge` or `histogram`.
        help: What it says.
        labels: The names of its labels.
        options: Further arguments of prometheus_client's class.
        is_counted: Whether it is counted, instead of read when the metrics are shown.
    """

    name: str
    type: str
    help: str
    labels: tuple[str, ...] = ()
    options: dict[str, Any] = Factory(dict)
    is_counted: bool = True

    @property
    def shown_name(self) -> str:
        """The name with the suffix of a counter."""
        return f"{self.name}_total" if self.type == "counter" else self.name

    def create(self, registry: CollectorRegistry) -> Any:
        """Return the metric of prometheus_client, registered."""
        kind = {"counter": Counter, "gauge": Gauge, "histogram": FoldedHistogram}[self.type]
        return kind(self.name, self.help, self.labels, registry=registry, **self.options)

    def metric(self, samples: Mapping[tuple[str, ...], float]) -> Metric:
        """Return what is shown, with the values of samples by their labels."""
        metric = Metric(self.name, self.help, self.type)
        for labels, value in samples.items():
            metric.add_sample(self.shown_name, dict(zip(self.labels, labels, strict=True)), value)
        return metric


_REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_TASK_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 60.0)
_TRANSACTION_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_DELIVERY_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)


def _counter(name: str, help_: str, *labels: str) -> Family:
    return Family(name, "counter", help_, labels)


def _histogram(name: str, help_: str, buckets: tuple[float, ...], *labels: str) -> Family:
    return Family(name, "histogram", help_, labels, {"buckets": buckets})


def _gauge(name: str, help_: str, *labels: str, mode: str = "livesum") -> Family:
    return Family(name, "gauge", help_, labels, {"multiprocess_mode": mode})


def _state(name: str, help_: str, *labels: str) -> Family:
    return Family(name, "gauge", help_, labels, is_counted=False)


def _process(name: str, type_: str, help_: str) -> Family:
    return Family(f"imagehost_process_{name}", type_, help_, ("process",), is_counted=False)


HTTP_REQUESTS = _counter(
    "imagehost_http_requests",
    "Requests, by the template of their route; `unrouted` are unknown paths, and requests that were refused "
    "before routing. The status `none` is a request that got no response.",
    *("method", "route", "status"),
)
HTTP_SECONDS = _histogram(
    "imagehost_http_request_duration_seconds",
    "Time from the start of a request to the end of its response.",
    _REQUEST_SECONDS,
    "route",
)
HTTP_RECEIVED = _counter(
    "imagehost_http_request_body_bytes", "Bytes of request bodies that were read.", "route"
)
HTTP_SENT = _counter(
    "imagehost_http_response_body_bytes", "Bytes of response bodies that were sent.", "route"
)
HTTP_CUT = _counter(
    "imagehost_http_responses_cut",
    "Responses that ended before their last byte: the client read too slowly (`slow`), closed the connection "
    "(`disconnected`), or lost its right to it (`revoked`).",
    "reason",
)
LOOP_LAG = _histogram(
    "imagehost_event_loop_lag_seconds",
    "How late the event loop of a process did what was due, measured once a second.",
    _TRANSACTION_SECONDS,
)
THREADS_IN_USE = _gauge(
    "imagehost_threads_in_use", "Threads of the server processes that are in use, by their work.", "work"
)
HTTP_CONNECTIONS = _gauge("imagehost_http_connections", "Open connections of clients.")
IMAGE_LOOKUPS = _counter(
    "imagehost_image_lookups",
    "Images and variants by where they came from: the variant cache in `memory` or on `disk`; "
    "`render`, made now; `coalesced`, made meanwhile for another request; `master`, the stored file; "
    "`client`, whose copy was current.",
    "tier",
)
QUEUE_WAIT = _histogram(
    "imagehost_image_queue_wait_seconds",
    "Time that tasks waited for an image worker process, rejected ones included.",
    _TASK_SECONDS,
    "lane",
)
QUEUE_REJECTIONS = _counter(
    "imagehost_image_queue_rejections",
    "Tasks that got no image worker process (503): the queue was full, or too slow for their deadline.",
    "lane",
)
TASK_SECONDS = _histogram(
    "imagehost_image_task_duration_seconds",
    "Time that image workers took for tasks, by the format of the variant (render) or of the file (ingest).",
    _TASK_SECONDS,
    *("task", "lane", "format"),
)
TASKS = _counter(
    "imagehost_image_tasks",
    "Tasks of image worker processes; all outcomes but `ok` and `error` (of the image) cost a process.",
    *("task", "outcome"),
)
WORKER_STARTS = _counter("imagehost_image_worker_starts", "Image worker processes that were started.")
WORKER_EXITS = _counter(
    "imagehost_image_worker_exits",
    "Image worker processes that have ended: `ended` by the server, `killed` from outside, or `crashed`.",
    "cause",
)
UPLOADS = _counter(
    "imagehost_uploads",
    "Uploaded files, and requests that were refused before their first, by `ok` or the code of the error.",
    "result",
)
UPLOAD_RECEIVED = _counter("imagehost_upload_received_bytes", "Bytes of uploaded files.")
UPLOAD_STORED = _counter("imagehost_upload_stored_bytes", "Bytes of the masters that uploads have stored.")
TRANSACTION_SECONDS = _histogram(
    "imagehost_database_transaction_duration_seconds",
    "Time of write transactions from their first statement to the end of the commit or rollback.",
    _TRANSACTION_SECONDS,
    "result",
)
TRANSACTION_WAIT = _histogram(
    "imagehost_database_write_wait_seconds",
    "Time that write transactions waited for other writes.",
    _TRANSACTION_SECONDS,
)
CONNECTIONS_USED = _gauge(
    "imagehost_database_connections_used", "Connections of the pools to PostgreSQL that are in use."
)
CONNECTIONS_WAITING = _gauge(
    "imagehost_database_connections_waiting", "Threads that wait for a connection to PostgreSQL."
)
LEASE_AGE = _gauge(
    "imagehost_cache_lease_age_seconds",
    "How long ago the lease began that lets a process serve from memory; of the oldest. It lasts 3 seconds.",
    mode="livemax",
)
INVALIDATIONS_WAITING = _gauge(
    "imagehost_cache_invalidations_waiting", "Changes that wait until other hosts have acknowledged them."
)
INVALIDATION_WAIT = _histogram(
    "imagehost_cache_invalidation_wait_seconds",
    "Time that changes waited for other hosts: all have `acknowledged` them, or their leases have `expired`.",
    _TRANSACTION_SECONDS,
    "result",
)
STORE_SECONDS = _histogram(
    "imagehost_object_store_request_duration_seconds",
    "Time of requests to the object store, each attempt and probe on its own, by `ok` or `failed`.",
    _REQUEST_SECONDS,
    *("operation", "result"),
)
STORE_BYTES = _counter(
    "imagehost_object_store_bytes",
    "Bytes of objects that were sent to the object store (`create`, `put`) or received from it (`get`).",
    "operation",
)
DELIVERY_SECONDS = _histogram(
    "imagehost_webhook_attempt_duration_seconds",
    "Time of attempts to deliver webhooks, by `ok` or `failed`.",
    _DELIVERY_SECONDS,
    "result",
)
PURGE_SECONDS = _histogram(
    "imagehost_cache_purge_duration_seconds",
    "Time of requests that remove an image from the shared cache, by `ok` or `failed`.",
    _DELIVERY_SECONDS,
    "result",
)
PURGES_GIVEN_UP = _counter(
    "imagehost_cache_purges_given_up",
    "Images that the shared cache may still have: the requests have failed for too long.",
)
VARIANT_EVICTIONS = _counter(
    "imagehost_variant_evictions",
    "Variants that were deleted from the disk because of a limit: the bytes of the whole `cache`, or the "
    "number of variants of an `image`.",
    "limit",
)
VARIANT_EVICTED_BYTES = _counter(
    "imagehost_variant_evicted_bytes", "Bytes of the variants that were deleted because of a limit.", "limit"
)
VARIANT_BYTES = _gauge(
    "imagehost_variant_cache_bytes",
    "Bytes of the variant cache on the disk when it was last measured, which is rare.",
    mode="mostrecent",
)
ORPHANS_REMOVED = _counter(
    "imagehost_orphans_removed", "Images whose files were removed because a crashed upload had left them."
)
PROCESS_STARTS = _counter("imagehost_process_starts", "Starts of the server's own processes.", "process")

HOST_UP = _state(
    "imagehost_host_up", "1 if the database has responded to the query of these metrics, else 0."
)
BUILD_INFO = _state("imagehost_build_info", "1, with the versions in its labels.", "version", "python")
_STATES: dict[Family, Callable[[HostStatistics, ImageHost], float]] = {
    _state("imagehost_accounts", "Accounts."): lambda now, _: now.database.accounts,
    _state("imagehost_images", "Stored images."): lambda now, _: now.database.images,
    _state("imagehost_albums", "Albums."): lambda now, _: now.database.albums,
    _state("imagehost_master_bytes", "Bytes of all masters."): lambda now, _: now.database.master_bytes,
    _state(
        "imagehost_unfinished_deletions",
        "Deleted images whose files are not known to be removed from the disk.",
    ): lambda now, _: now.database.unfinished_deletions,
    _state(
        "imagehost_database_size_bytes", "Bytes of the database and its write-ahead log."
    ): lambda now, _: now.database.database_bytes,
    _state("imagehost_disk_size_bytes", "Bytes of the file system of the data directory."): lambda now, _: (
        now.disk_bytes
    ),
    _state(
        "imagehost_disk_free_bytes", "Free bytes of the file system of the data directory."
    ): lambda now, _: now.disk_free_bytes,
    _state(
        "imagehost_storage_up", "1 if the image store has responded to a request for these metrics, else 0."
    ): lambda now, _: float(now.storage_responds),
    _state(
        "imagehost_disk_min_free_bytes", "Free bytes below which uploads get 507 (storage.min_free_bytes)."
    ): lambda _, host: host.settings.storage.min_free_bytes,
    _state(
        "imagehost_webhook_deliveries_due", "Webhook deliveries that are due, at most 10,000 of each webhook."
    ): lambda now, _: now.database.due_deliveries,
    _state(
        "imagehost_webhook_oldest_due_seconds",
        "How long the delivery that is due for the longest time has been due; 0 if none is.",
    ): lambda now, _: now.database.oldest_due_seconds,
    _state(
        "imagehost_cache_purges_pending",
        "Images that the shared cache has not confirmed to have removed, at most 10,000.",
    ): lambda now, host: now.database.pending_purges if host.cache_purges.is_enabled else 0,
    _state(
        "imagehost_cache_purge_oldest_seconds",
        "How long the one of them that waits for the longest time has waited; 0 if none does.",
    ): lambda now, host: now.database.oldest_purge_seconds if host.cache_purges.is_enabled else 0,
}
"""How the values of the host are read."""
WORKERS = _gauge("imagehost_image_workers", "Image worker processes that are `busy` or `idle`.", "state")
QUEUE_LENGTH = _gauge("imagehost_image_queue_length", "Tasks that wait for an image worker process.")
PROCESS_MEMORY = _process(
    "resident_memory_bytes",
    "gauge",
    "Resident memory; of image workers, the sum. Shared pages count in each process.",
)
PROCESS_CPU = _process(
    "cpu_seconds",
    "counter",
    "CPU time of the process that has this name now; image workers come and go, and are not included.",
)
PROCESS_FILES = _process("open_fds", "gauge", "Open file descriptors.")
FAMILIES: dict[str, Family] = {
    family.name: family for family in (*globals().values(), *_STATES) if isinstance(family, Family)
}
"""All families by name."""


@frozen
class RecentError:
    """A request that got a response of the statuses 500 to 599.

    Attributes:
        at: The end of the request, in RFC 3339 and UTC.
        status: The status of the response.
        method: The HTTP method.
        route: The template of its route.
        request_id: The request id, under which the log has the cause.
    """

    at: str
    status: int
    method: str
    route: str
    request_id: str


@define
class _Requests:
    """The requests of a method, route and status since the last fold."""

    buckets: list[int] = Factory(lambda: [0] * (len(_REQUEST_SECONDS) + 1))
    seconds: float = 0.0
    received_bytes: int = 0
    sent_bytes: int = 0


@frozen
class Slot:
    """The files of this process in the folder of all; another may claim them when it has ended."""

    folder: Path
    number: int

    @property
    def errors(self) -> Path:
        """The file of the process's latest errors."""
        return self.folder / f"errors_{self.number}.json"

    @classmethod
    def claim(cls) -> Slot | None:
        """Claim the files of a number, for all metrics that this process creates from now on.

        Returns:
            `None` if no parent process has created a folder.
        """
        if FOLDER_VARIABLE not in os.environ:
            return None
        folder = Path(os.environ[FOLDER_VARIABLE])
        number = 0
        while (lock := lock_file(folder / f"{number}.pid", wait=False)) is None:
            number += 1
        os.ftruncate(lock, 0)
        os.write(lock, b"%d" % os.getpid())
        mark_process_dead(number, folder)  # type: ignore[no-untyped-call]
        values.ValueClass = values.MultiProcessValue(lambda: number)  # type: ignore[no-untyped-call]
        return cls(folder, number)

    def processes(self) -> dict[str, int]:
        """Return the process IDs of the server processes and of their parent; end the gauges of dead ones."""
        pids = {"supervisor": os.getppid()}
        for path in self.folder.glob("*.pid"):
            with lock_existing_file(path) as is_dead:
                if is_dead:
                    mark_process_dead(path.stem, self.folder)  # type: ignore[no-untyped-call]
                else:
                    # The file is empty while a process is claiming it.
                    pids[f"server-{path.stem}"] = int(path.read_text(encoding="ascii") or 0)
        return pids


def create_folder() -> Path:
    """Create the folder of the server processes that this process starts, which it keeps locked.

    It is in memory where there is such a file system: touching a mapped page on a full disk is fatal. Folders
    of killed servers are removed.
    """
    memory = Path("/dev/shm")  # noqa: S108 - `mkdtemp` creates a folder that is this user's alone
    parent = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    for folder in parent.glob(f"{FOLDER_PREFIX}*"):
        with suppress(OSError), lock_existing_file(folder / "lock") as is_unused:
            if is_unused:
                shutil.rmtree(folder)
    # It has its name when it is locked, so that no other server takes it for one that is left.
    unnamed = Path(tempfile.mkdtemp(prefix=f".{FOLDER_PREFIX}", dir=parent))
    lock = lock_file(unnamed / "lock")
    assert lock is not None
    os.set_inheritable(lock, True)
    created = unnamed.rename(parent / unnamed.name.removeprefix("."))
    os.environ[FOLDER_VARIABLE] = str(created)
    return created


class Recorder:
    """The metrics of this process.

    Args:
        process: The kind of this process.
        slot: The files that it shares with other processes; without them it counts alone.
    """

    def __init__(self, process: str = "server", slot: Slot | None = None) -> None:
        self.process, self.slot = process, slot
        self._registry = CollectorRegistry()
        self._metrics = {
            family: family.create(self._registry) for family in FAMILIES.values() if family.is_counted
        }
        self._requests: dict[tuple[str, str, int], _Requests] = {}
        self._lookups = Counts[str]()
        self._timer: asyncio.TimerHandle | None = None
        # Refused requests, of which clients can cause many, do not push out failures.
        self._errors = {is_failure: deque[RecentError](maxlen=ERRORS_KEPT) for is_failure in (True, False)}
        self._has_new_errors = False
        if slot is not None and slot.errors.exists():
            for error in _read_errors(slot.errors):
                self._errors[error.status == 500].append(error)
        self._inc(PROCESS_STARTS, process)

    def request(
        self,
        method: str,
        route: str,
        status: int,
        seconds: float,
        received_bytes: int,
        sent_bytes: int,
        request_id: str = "",
    ) -> None:
        """Count a request, and keep a failed one; on the event loop only.

        Args:
            method: The HTTP method.
            route: The template of its route, or `UNROUTED`.
            status: The status of the response; 0 = none was sent.
            seconds: How long it took.
            received_bytes: Bytes of its body that were read.
            sent_bytes: Bytes of the response's body.
            request_id: The request id.
        """
        if method not in METHODS:
            method = OTHER_METHOD
        key = method, route, status
        requests = self._requests.get(key)
        if requests is None:
            requests = self._requests[key] = _Requests()
            self._fold_later()
        requests.buckets[bisect_left(_REQUEST_SECONDS, seconds)] += 1
        requests.seconds += seconds
        requests.received_bytes += received_bytes
        requests.sent_bytes += sent_bytes
        if status >= 500:
            now = datetime.now(UTC).isoformat(timespec="microseconds")
            self._errors[status == 500].append(RecentError(now, status, method, route, request_id))
            self._has_new_errors = True

    def lookup(self, tier: str) -> None:
        """Count an image by where it came from; on the event loop only, with a request."""
        self._lookups[tier] += 1

    def fold(self) -> None:
        """Add the requests since the last time to the metrics; on the event loop only."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for (method, route, status), requests in self._requests.items():
            self._inc(HTTP_REQUESTS, method, route, str(status or "none"), amount=sum(requests.buckets))
            self._metrics[HTTP_SECONDS].labels(route).add(requests.buckets, requests.seconds)
            self._inc(HTTP_RECEIVED, route, amount=requests.received_bytes)
            self._inc(HTTP_SENT, route, amount=requests.sent_bytes)
        for tier, number in self._lookups.items():
            self._inc(IMAGE_LOOKUPS, tier, amount=number)
        self._requests, self._lookups = {}, Counts()
        if self._has_new_errors and self.slot is not None:
            new = self.slot.errors.with_suffix(".new")
            new.write_text(json.dumps([asdict(error) for kept in self._errors.values() for error in kept]))
            new.replace(self.slot.errors)
            self._has_new_errors = False

    def response_cut(self, reason: str) -> None:
        """Count a response that ended before its last byte."""
        self._inc(HTTP_CUT, reason)

    def upload_refused(self, status: int) -> None:
        """Count an upload request that was refused before any of its files was processed."""
        self._inc(UPLOADS, _CODES.get(status, InternalError.code))

    def connections(self, number: int) -> None:
        """Set the number of open connections of this process."""
        self._metrics[HTTP_CONNECTIONS].set(number)

    def load(self, loop_lag_seconds: float, threads_in_use: Mapping[str, int]) -> None:
        """Count how late the event loop was, and set the number of threads in use by their work."""
        self._time(LOOP_LAG, loop_lag_seconds)
        for work, number in threads_in_use.items():
            self._metrics[THREADS_IN_USE].labels(work).set(number)

    def orphans_removed(self, images: int) -> None:
        """Count images whose files a crashed upload had left."""
        self._inc(ORPHANS_REMOVED, amount=images)

    def observe(self, measurement: Measurement) -> None:
        """Count a measurement of the host, in any thread."""
        match measurement:
            case observer.TransactionEnded(waited, seconds, committed):
                self._time(TRANSACTION_SECONDS, seconds, "commit" if committed else "rollback")
                self._time(TRANSACTION_WAIT, waited)
            case observer.VariantFound(tier):
                # `DeliveryRoute` has looked into the memory just before, and has counted what it found.
                self._inc(IMAGE_LOOKUPS, "coalesced" if tier == "memory" else tier)
            case observer.WorkerAcquired(lane, waited, admitted):
                self._time(QUEUE_WAIT, waited, lane)
                if not admitted:
                    self._inc(QUEUE_REJECTIONS, lane)
            case PoolLoad(busy, idle, waiting):
                self._metrics[WORKERS].labels("busy").set(busy)
                self._metrics[WORKERS].labels("idle").set(idle)
                self._metrics[QUEUE_LENGTH].set(waiting)
            case observer.TaskEnded(task, lane, format_, seconds, outcome):
                self._time(TASK_SECONDS, seconds, task, lane, format_)
                self._inc(TASKS, task, outcome)
            case observer.WorkerStarted():
                self._inc(WORKER_STARTS)
            case observer.WorkerExited(cause):
                self._inc(WORKER_EXITS, cause)
            case observer.UploadEnded(code, received_bytes, stored_bytes):
                self._inc(UPLOADS, code)
                self._inc(UPLOAD_RECEIVED, amount=received_bytes)
                self._inc(UPLOAD_STORED, amount=stored_bytes)
            case observer.SharedDatabaseLoad(used, waiting, lease_age_seconds, changes_waiting):
                self._metrics[CONNECTIONS_USED].set(used)
                self._metrics[CONNECTIONS_WAITING].set(waiting)
                self._metrics[LEASE_AGE].set(lease_age_seconds)
                self._metrics[INVALIDATIONS_WAITING].set(changes_waiting)
            case observer.InvalidationEnded(seconds, acknowledged):
                self._time(INVALIDATION_WAIT, seconds, "acknowledged" if acknowledged else "expired")
            case observer.StoreRequestEnded(operation, succeeded, seconds):
                self._time(STORE_SECONDS, seconds, operation, "ok" if succeeded else "failed")
            case observer.StoreBytesTransferred(operation, size_bytes):
                self._inc(STORE_BYTES, operation, amount=size_bytes)
            case observer.DeliveryAttempted(succeeded, seconds):
                self._time(DELIVERY_SECONDS, seconds, "ok" if succeeded else "failed")
            case observer.CachePurgeAttempted(succeeded, seconds, given_up):
                self._time(PURGE_SECONDS, seconds, "ok" if succeeded else "failed")
                self._inc(PURGES_GIVEN_UP, amount=given_up)
            case observer.VariantsEvicted(limit, number, size_bytes):
                self._inc(VARIANT_EVICTIONS, limit, amount=number)
                self._inc(VARIANT_EVICTED_BYTES, limit, amount=size_bytes)
            case observer.VariantsSwept(stored_bytes):
                self._metrics[VARIANT_BYTES].set(stored_bytes)

    def counted(self) -> dict[str, Metric]:
        """Return what all processes have counted, by the names of the families that have samples."""
        collector: Collector = self._registry
        if self.slot is not None:
            collector = MultiProcessCollector(None, str(self.slot.folder))  # type: ignore[no-untyped-call]
        metrics = {metric.name: metric for metric in collector.collect()}
        for metric in metrics.values():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
        return metrics

    def recent_errors(self) -> list[RecentError]:
        """Return the latest errors of all processes, the newest first."""
        if self.slot is None:
            errors = [error for kept in self._errors.values() for error in kept]
        else:
            paths = self.slot.folder.glob("errors_*.json")
            errors = [error for path in paths for error in _read_errors(path)]
        return sorted(errors, key=lambda error: error.at, reverse=True)

    def _fold_later(self) -> None:
        """Fold in a second; alone, this process folds when its metrics are shown."""
        if self.slot is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FOLD_SECONDS, self.fold)

    def _inc(self, family: Family, *labels: str, amount: float = 1) -> None:
        metric = self._metrics[family]
        (metric.labels(*labels) if labels else metric).inc(amount)

    def _time(self, family: Family, seconds: float, *labels: str) -> None:
        metric = self._metrics[family]
        (metric.labels(*labels) if labels else metric).observe(seconds)


def _read_errors(path: Path) -> list[RecentError]:
    return [RecentError(**error) for error in json.loads(path.read_text(encoding="utf-8"))]


def serve_metrics(recorder: Recorder, port: int) -> None:
    """Serve the metrics that one process has counted, to clients on this machine, in a thread.

    Args:
        recorder: The metrics of the process.
        port: The port on 127.0.0.1.

    Raises:
        OSError: The port is in use.
    """
    collectors = CollectorRegistry()
    collectors.register(HostCollector(recorder))
    start_http_server(port, "127.0.0.1", collectors)


def render_metrics(recorder: Recorder, host: ImageHost) -> bytes:
    """Return all metrics, in the text format.

    Args:
        recorder: Has what was counted.
        host: The host whose state is shown.
    """
    return generate_latest(HostCollector(recorder, host))


@frozen
class HostCollector(Collector):
    """Collects every family; without a host, those that have samples."""

    _recorder: Recorder
    _host: ImageHost | None = None

    def collect(self) -> Iterator[Metric]:
        """Yield the families in the order of this module."""
        read = dict(self._read())
        counted = self._recorder.counted()
        for family in FAMILIES.values():
            metric = counted.get(family.name) or family.metric(read.get(family, {}))
            if metric.samples or self._host is not None:
                yield metric

    def _read(self) -> Iterator[tuple[Family, dict[tuple[str, ...], float]]]:
        """Yield the samples of what is read now."""
        yield BUILD_INFO, {(version("imagehost-server"), platform.python_version()): 1.0}
        if self._host is not None:
            try:
                now = self._host.maintenance.statistics()
            except Exception:
                log.exception("statistics for the metrics cannot be read")
                yield HOST_UP, {(): 0.0}
            else:
                yield HOST_UP, {(): 1.0}
                for family, read in _STATES.items():
                    yield family, {(): float(read(now, self._host))}
        slot = self._recorder.slot
        pids = {self._recorder.process: os.getpid()} if slot is None else slot.processes()
        usages = {name: _usage(pid) for name, pid in pids.items()}
        workers = [_usage(worker) for name, pid in pids.items() for worker in _image_workers(name, pid)]
        memory = PROCESS_MEMORY.name
        usages["image_workers"] = {memory: sum(usage.get(memory, 0.0) for usage in workers)}
        for family in (PROCESS_MEMORY, PROCESS_CPU, PROCESS_FILES):
            yield (
                family,
                {(name,): usage[family.name] for name, usage in usages.items() if family.name in usage},
            )


def _usage(pid: int) -> dict[str, float]:
    """Return the usage of a process by the names of its families; nothing if it has exited."""
    metrics = ProcessCollector("imagehost", lambda: pid, registry=None).collect()
    return {metric.name: metric.samples[0].value for metric in metrics}


def _image_workers(name: str, pid: int) -> list[int]:
    """Return the process IDs of the image workers of a server process (*children* in proc(5))."""
    children: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children") if name != "supervisor" else ():
        with suppress(OSError):
            children += map(int, path.read_text(encoding="ascii").split())
    return children
