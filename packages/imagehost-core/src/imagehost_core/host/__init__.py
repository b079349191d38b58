"""The host: everything that a program can ask of it, over records, bytes and workers."""

from imagehost_core.catalog import Due
from imagehost_core.host.accounts import Accounts
from imagehost_core.host.albums import Albums, Membership, MemberStatus
from imagehost_core.host.delivery import Blob, Delivery
from imagehost_core.host.facade import ImageHost, Rendered
from imagehost_core.host.keys import Keys
from imagehost_core.host.limiter import Limiter, WindowState
from imagehost_core.host.once import Claim, Part
from imagehost_core.host.sessions import Sessions
from imagehost_core.host.webhooks import Webhooks

__all__ = [
    "Accounts",
    "Albums",
    "Blob",
    "Claim",
    "Delivery",
    "Due",
    "ImageHost",
    "Keys",
    "Limiter",
    "MemberStatus",
    "Membership",
    "Part",
    "Rendered",
    "Sessions",
    "Webhooks",
    "WindowState",
]
