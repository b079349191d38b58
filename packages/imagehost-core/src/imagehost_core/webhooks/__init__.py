"""Webhook rules: endpoint URLs, fields, signatures and the retry schedule.

Pure functions: the caller resolves host names and sends requests.

```python
>>> from imagehost_core.webhooks import parse_endpoint_url, sign_webhook
>>> endpoint = parse_endpoint_url("https://example.com/hooks?id=7")
>>> endpoint.authority, endpoint.target
('example.com', '/hooks?id=7')
>>> sign_webhook("whsec_c2VjcmV0", "msg_1", 1767225600, b"{}")
'v1,QGxpGbjRoL8txXelFWC4IEtME42gS+j6BV6K56kn8oo='

```
"""

from imagehost_core.webhooks.attempts import (
    RESPONSE_EXCERPT_BYTES,
    RETRY_SCHEDULE,
    Attempt,
    NextStep,
    after_attempt,
    new_webhook_secret,
    retry_delay,
    sign_webhook,
)
from imagehost_core.webhooks.concurrency import (
    MAX_IN_FLIGHT_PER_WEBHOOK,
    SenderLoad,
    WaitingDelivery,
    next_deliveries,
)
from imagehost_core.webhooks.endpoint import (
    MAX_URL,
    Endpoint,
    IPAddress,
    is_ip_address,
    parse_endpoint_url,
    require_public_address,
    require_public_addresses,
)
from imagehost_core.webhooks.validation import HostResolver, resolve_host, validate_webhook

__all__ = [
    "MAX_IN_FLIGHT_PER_WEBHOOK",
    "MAX_URL",
    "RESPONSE_EXCERPT_BYTES",
    "RETRY_SCHEDULE",
    "Attempt",
    "Endpoint",
    "HostResolver",
    "IPAddress",
    "NextStep",
    "SenderLoad",
    "WaitingDelivery",
    "after_attempt",
    "is_ip_address",
    "new_webhook_secret",
    "next_deliveries",
    "parse_endpoint_url",
    "require_public_address",
    "require_public_addresses",
    "resolve_host",
    "retry_delay",
    "sign_webhook",
    "validate_webhook",
]
