"""Services of the host: one module per resource, over the database, the blob store and the workers."""

from imagehost_core.db import Due
from imagehost_core.services.accounts import Accounts
from imagehost_core.services.albums import Albums, Membership, MemberStatus
from imagehost_core.services.delivery import Blob, Delivery
from imagehost_core.services.idempotency import Claim, Part
from imagehost_core.services.keys import Keys
from imagehost_core.services.rate_limiter import Limiter, WindowState
from imagehost_core.services.sessions import Sessions
from imagehost_core.services.webhooks import Webhooks

__all__ = [
    "Accounts",
    "Albums",
    "Blob",
    "Claim",
    "Delivery",
    "Due",
    "Keys",
    "Limiter",
    "MemberStatus",
    "Membership",
    "Part",
    "Sessions",
    "Webhooks",
    "WindowState",
]
