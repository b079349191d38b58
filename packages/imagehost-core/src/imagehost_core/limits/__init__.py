"""Rate limit windows, quotas and size limits as pure functions.

The functions decide; counting requests and bytes is left to the caller.

```python
>>> from datetime import UTC, datetime
>>> from imagehost_core.limits import MINUTE, Window, decide
>>> policy = (Window("api_per_minute", MINUTE, limit=60),)
>>> decision = decide(policy, {"api_per_minute": 59}, datetime(2026, 1, 1, tzinfo=UTC))
>>> decision.admitted, decision.remaining
(True, 0)

```
"""

from imagehost_core.limits.keys import account_key, ip_address_key, sign_in_keys
from imagehost_core.limits.sizes import (
    MAX_FILE_BYTES,
    MAX_FILES_PER_REQUEST,
    require_file_count,
    require_file_size,
    require_quota,
)
from imagehost_core.limits.windows import (
    DAY,
    HOUR,
    MINUTE,
    Decision,
    RateLimitPolicy,
    Window,
    decide,
    first_hits,
    raise_limit_command,
    sign_in_delay,
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
    "account_key",
    "decide",
    "first_hits",
    "ip_address_key",
    "raise_limit_command",
    "require_file_count",
    "require_file_size",
    "require_quota",
    "sign_in_delay",
    "sign_in_keys",
]
