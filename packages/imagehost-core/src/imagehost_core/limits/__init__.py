"""Rate limit windows, quotas and request bounds as pure functions."""

from imagehost_core.limits.windows import (
    DAY,
    HOUR,
    MAX_FILE_BYTES,
    MAX_FILES_PER_REQUEST,
    MINUTE,
    Decision,
    RateLimitPolicy,
    Window,
    decide,
    require_file_count,
    require_file_size,
    require_quota,
)

__all__ = [
    "DAY",
    "HOUR",
    "MAX_FILES_PER_REQUEST",
    "MAX_FILE_BYTES",
    "MINUTE",
    "Decision",
    "RateLimitPolicy",
    "Window",
    "decide",
    "require_file_count",
    "require_file_size",
    "require_quota",
]
