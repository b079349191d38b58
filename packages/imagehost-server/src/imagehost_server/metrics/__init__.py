"""Metrics: counted in memory that all processes of a server share, and shown in the format of Prometheus."""

from imagehost_server.metrics.families import FAMILIES, Family, Kind
from imagehost_server.metrics.recent_errors import RecentError
from imagehost_server.metrics.recorder import Recorder
from imagehost_server.metrics.table import MetricTable, create_table_file, slots_for

__all__ = [
    "FAMILIES",
    "Family",
    "Kind",
    "MetricTable",
    "RecentError",
    "Recorder",
    "create_table_file",
    "slots_for",
]
