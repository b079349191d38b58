"""The metrics in the text format of Prometheus."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest, start_http_server
from prometheus_client.registry import Collector, CollectorRegistry

from imagehost_core import HostStatistics, ImageHost
from imagehost_server.metrics import families
from imagehost_server.metrics.families import FAMILIES, Family, Kind
from imagehost_server.metrics.processes import (
    image_workers,
    parent_is_supervisor,
    process_usage,
    total_memory,
)
from imagehost_server.metrics.table import MetricTable, SeriesKey

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""The media type of the text format."""

log = logging.getLogger("imagehost.server")

Sample = tuple[tuple[str, ...], float]
"""The values of a series' labels, and its value."""


def render_metrics(table: MetricTable, host: ImageHost) -> bytes:
    """Return all metrics, in the text format.

    Args:
        table: The table of metrics.
        host: The host whose state is shown.
    """
    collectors = CollectorRegistry(auto_describe=False)
    collectors.register(_Collector(table, host))
    return generate_latest(collectors)


def serve_metrics(table: MetricTable, port: int) -> Callable[[], None]:
    """Serve the metrics that one process has counted, to clients on this machine, in a thread.

    Args:
        table: The table of metrics.
        port: The port on 127.0.0.1.

    Returns:
        A function that ends the thread.

    Raises:
        OSError: The port is in use.
    """
    collectors = CollectorRegistry(auto_describe=False)
    collectors.register(_Collector(table))
    server, thread = start_http_server(port, "127.0.0.1", collectors)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


class _Collector(Collector):
    def __init__(self, table: MetricTable, host: ImageHost | None = None) -> None:
        self._table, self._host = table, host

    def collect(self) -> Iterator[Metric]:
        """Yield every family, also those without a series; without a host, those with one."""
        totals: dict[str, dict[SeriesKey, list[float]]] = {name: {} for name in FAMILIES}
        for key, values in self._table.totals().items():
            totals[key[0]][key[1:]] = values
        state = dict(self._state())
        for family in FAMILIES.values():
            if self._host is None and not (totals[family.name] or family.name in state):
                continue
            if family.kind in (Kind.STATE, Kind.STATE_COUNTER):
                yield _metric(family, state.get(family.name, ()))
            elif family.kind is Kind.HISTOGRAM:
                yield _histogram(family, totals[family.name])
            else:
                counted = totals[family.name].items()
                yield _metric(family, ((labels, values[-1]) for labels, values in counted))

    def _state(self) -> Iterator[tuple[str, Iterable[Sample]]]:
        """Yield the series of what is read now."""
        build = (version("imagehost-server"), platform.python_version())
        yield families.BUILD_INFO.name, [(build, 1.0)]
        if self._host is None:
            yield from self._processes()
            return
        try:
            statistics = self._host.maintenance.statistics()
        except Exception:
            log.exception("statistics for the metrics cannot be read")
            yield families.HOST_UP.name, [((), 0.0)]
            yield from self._processes()
            return
        yield families.HOST_UP.name, [((), 1.0)]
        for family, value in _totals(statistics, self._host).items():
            yield family.name, [((), float(value))]
        yield from self._processes()

    def _processes(self) -> Iterator[tuple[str, Iterable[Sample]]]:
        pids = {process.name: process.pid for process in self._table.processes()}
        workers = [worker for pid in pids.values() for worker in image_workers(pid)]
        if parent_is_supervisor():
            pids["supervisor"] = os.getppid()
        usages = {name: usage for name, pid in pids.items() if (usage := process_usage(pid)) is not None}
        memory = {name: usage.resident_bytes for name, usage in usages.items()}
        memory["image_workers"] = total_memory(workers)
        yield families.PROCESS_MEMORY.name, [((name,), float(size)) for name, size in memory.items()]
        yield families.PROCESS_CPU.name, [((name,), usage.cpu_seconds) for name, usage in usages.items()]
        yield (
            families.PROCESS_FILES.name,
            [((name,), float(usage.open_files)) for name, usage in usages.items()],
        )


def _totals(statistics: HostStatistics, host: ImageHost) -> dict[Family, float]:
    database, purges_enabled = statistics.database, host.cache_purges.is_enabled
    return {
        families.ACCOUNTS: database.accounts,
        families.IMAGES: database.images,
        families.ALBUMS: database.albums,
        families.MASTER_BYTES: database.master_bytes,
        families.UNFINISHED_DELETIONS: database.unfinished_deletions,
        families.DATABASE_BYTES: database.database_bytes,
        families.DISK_BYTES: statistics.disk_bytes,
        families.DISK_FREE: statistics.disk_free_bytes,
        families.DISK_MIN_FREE: host.settings.storage.min_free_bytes,
        families.DELIVERIES_DUE: database.due_deliveries,
        families.OLDEST_DUE: database.oldest_due_seconds,
        families.PURGES_PENDING: database.pending_purges if purges_enabled else 0,
        families.OLDEST_PURGE: database.oldest_purge_seconds if purges_enabled else 0,
    }


def _metric(family: Family, samples: Iterable[Sample]) -> Metric:
    is_counter = family.kind in (Kind.COUNTER, Kind.STATE_COUNTER)
    metric = (CounterMetricFamily if is_counter else GaugeMetricFamily)(
        family.name, family.help, labels=family.labels
    )
    for labels, value in sorted(samples):
        metric.add_metric(labels, value)
    return metric


def _histogram(family: Family, series: dict[SeriesKey, list[float]]) -> Metric:
    metric = HistogramMetricFamily(family.name, family.help, labels=family.labels)
    for labels, values in sorted(series.items()):
        count, buckets = 0.0, []
        for bound, value in zip((*map(str, family.buckets), "+Inf"), values, strict=False):
            count += value
            buckets.append((bound, count))
        metric.add_metric(labels, buckets, values[-1])
    return metric
