"""Webhook rules: fields, signatures, the retry schedule and the order of deliveries.

The rules are pure functions: the caller sends requests. `imagehost_core.endpoints` has those of their URLs.

```python
>>> from imagehost_core.webhooks import sign_webhook
>>> sign_webhook("whsec_c2VjcmV0", "msg_1", 1767225600, b"{}")
'v1,QGxpGbjRoL8txXelFWC4IEtME42gS+j6BV6K56kn8oo='

```
"""

from imagehost_core.webhooks.fields import validate_webhook
from imagehost_core.webhooks.retries import (
    JITTER,
    RESPONSE_EXCERPT_BYTES,
    RETRY_SCHEDULE,
    Attempt,
    NextStep,
    after_attempt,
    retry_delay,
)
from imagehost_core.webhooks.sender_queue import (
    MAX_IN_FLIGHT_PER_WEBHOOK,
    SenderLoad,
    WaitingDelivery,
    next_deliveries,
)
from imagehost_core.webhooks.signatures import new_webhook_secret, sign_webhook

__all__ = [
    "JITTER",
    "MAX_IN_FLIGHT_PER_WEBHOOK",
    "RESPONSE_EXCERPT_BYTES",
    "RETRY_SCHEDULE",
    "Attempt",
    "NextStep",
    "SenderLoad",
    "WaitingDelivery",
    "after_attempt",
    "new_webhook_secret",
    "next_deliveries",
    "retry_delay",
    "sign_webhook",
    "validate_webhook",
]
