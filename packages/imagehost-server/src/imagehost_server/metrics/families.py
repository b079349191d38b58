"""The metric families: name, kind, labels and meaning of each, as `/metrics` and `docs/operate.md` show them.

Names and units follow https://prometheus.io/docs/practices/naming/. Every label has few values: a route is
its template, never a path that a client has sent.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen


class Kind(Enum):
    """How the values of a family's series in several processes become one."""

    COUNTER = "counter"
    """The sum; it continues when a process is replaced."""
    HISTOGRAM = "histogram"
    """The sums of all buckets; they continue too."""
    GAUGE = "gauge"
    """The sum of the processes that run."""
    LATEST = "latest"
    """A gauge with the value that was set last, by any process."""
    STATE = "state"
    """A gauge that is read when the metrics are shown."""
    STATE_COUNTER = "state counter"
    """A counter that is read when the metrics are shown."""


@frozen
class Family:
    """A metric family.

    Attributes:
        name: The name, without the suffix `_total` of a counter.
        kind: The kind.
        help: What it says.
        labels: The names of its labels.
        buckets: Upper bounds of a histogram's buckets.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """The number of values of a series: the buckets, the one without a bound, and the sum."""
        return len(self.buckets) + 2 if self.kind is Kind.HISTOGRAM else 2 if self.kind is Kind.LATEST else 1

    @property
    def shown_name(self) -> str:
        """The name with the suffix of a counter."""
        is_counter = self.kind in (Kind.COUNTER, Kind.STATE_COUNTER)
        return f"{self.name}_total" if is_counter else self.name


_REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_TASK_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 60.0)
_TRANSACTION_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_DELIVERY_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)


def _counter(name: str, help_: str, *labels: str) -> Family:
    return Family(name, Kind.COUNTER, help_, labels)


def _histogram(name: str, help_: str, buckets: tuple[float, ...], *labels: str) -> Family:
    return Family(name, Kind.HISTOGRAM, help_, labels, buckets)


def _state(name: str, help_: str, *labels: str) -> Family:
    return Family(name, Kind.STATE, help_, labels)


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
    "Responses that ended before their last byte: the client read too slowly (`slow`), or closed the "
    "connection (`disconnected`).",
    "reason",
)
HTTP_CONNECTIONS = Family("imagehost_http_connections", Kind.GAUGE, "Open connections of clients.")
IMAGE_LOOKUPS = _counter(
    "imagehost_image_lookups",
    "Images and variants by where they came from: the variant cache in `memory`, on `disk` or `shared`; "
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
UPLOADS = _counter("imagehost_uploads", "Uploaded files, by `ok` or the code of the error.", "result")
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
VARIANT_BYTES = Family(
    "imagehost_variant_cache_bytes",
    Kind.LATEST,
    "Bytes of the variant cache on the disk when it was last measured, which is rare.",
)
ORPHANS_REMOVED = _counter(
    "imagehost_orphans_removed", "Images whose files were removed because a crashed upload had left them."
)
PROCESS_STARTS = _counter("imagehost_process_starts", "Starts of the server's own processes.", "process")

HOST_UP = _state(
    "imagehost_host_up", "1 if the database has responded to the query of these metrics, else 0."
)
BUILD_INFO = _state("imagehost_build_info", "1, with the versions in its labels.", "version", "python")
ACCOUNTS = _state("imagehost_accounts", "Accounts.")
IMAGES = _state("imagehost_images", "Stored images.")
ALBUMS = _state("imagehost_albums", "Albums.")
MASTER_BYTES = _state("imagehost_master_bytes", "Bytes of all masters.")
UNFINISHED_DELETIONS = _state(
    "imagehost_unfinished_deletions", "Deleted images whose files are not known to be removed from the disk."
)
DATABASE_BYTES = _state("imagehost_database_size_bytes", "Bytes of the database and its write-ahead log.")
DISK_BYTES = _state("imagehost_disk_size_bytes", "Bytes of the file system of the data directory.")
DISK_FREE = _state("imagehost_disk_free_bytes", "Free bytes of the file system of the data directory.")
DISK_MIN_FREE = _state(
    "imagehost_disk_min_free_bytes", "Free bytes below which uploads get 507 (storage.min_free_bytes)."
)
DELIVERIES_DUE = _state(
    "imagehost_webhook_deliveries_due", "Webhook deliveries that are due, at most 10,000 of each webhook."
)
OLDEST_DUE = _state(
    "imagehost_webhook_oldest_due_seconds",
    "How long the delivery that is due for the longest time has been due; 0 if none is.",
)
PURGES_PENDING = _state(
    "imagehost_cache_purges_pending",
    "Images that the shared cache has not confirmed to have removed, at most 10,000.",
)
OLDEST_PURGE = _state(
    "imagehost_cache_purge_oldest_seconds",
    "How long the one of them that waits for the longest time has waited; 0 if none does.",
)
WORKERS = Family(
    "imagehost_image_workers", Kind.GAUGE, "Image worker processes that are `busy` or `idle`.", ("state",)
)
QUEUE_LENGTH = Family(
    "imagehost_image_queue_length", Kind.GAUGE, "Tasks that wait for an image worker process."
)
PROCESS_MEMORY = _state(
    "imagehost_process_resident_memory_bytes",
    "Resident memory; of image workers, the sum. Shared pages count in each process.",
    "process",
)
PROCESS_CPU = Family(
    "imagehost_process_cpu_seconds",
    Kind.STATE_COUNTER,
    "CPU time of the process that has this name now; image workers come and go, and are not included.",
    ("process",),
)
PROCESS_FILES = _state("imagehost_process_open_fds", "Open file descriptors.", "process")

FAMILIES: dict[str, Family] = {
    family.name: family for family in list(globals().values()) if isinstance(family, Family)
}
"""All families by name."""
