"""Rate limit windows, quotas and request bounds as pure functions."""

from imagehost_core.limits.windows import (
    DAY,
    FILE_BYTES,
    FILES_PER_REQUEST,
    HOUR,
    MINUTE,
    Decision,
    Policy,
    Window,
    check_file_count,
    check_file_size,
    check_quota,
    decide,
)

__all__ = [
    "DAY",
    "FILES_PER_REQUEST",
    "FILE_BYTES",
    "HOUR",
    "MINUTE",
    "Decision",
    "Policy",
    "Window",
    "check_file_count",
    "check_file_size",
    "check_quota",
    "decide",
]
