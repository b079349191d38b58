"""Services of the host: one module per resource, over the database, the blob store and the workers."""

from imagehost_core.db import LeasedDelivery
from imagehost_core.services.accounts import AccountService
from imagehost_core.services.albums import AlbumService, MembershipResult, MemberStatus
from imagehost_core.services.delivery import Blob, ResolvedImage
from imagehost_core.services.idempotency import IdempotentRequest, SubOperation
from imagehost_core.services.keys import KeyService
from imagehost_core.services.rate_limiter import RateLimiter, SignInAttempt, WindowState
from imagehost_core.services.rendering import Rendered
from imagehost_core.services.sessions import SessionService
from imagehost_core.services.webhooks import WebhookService

__all__ = [
    "AccountService",
    "AlbumService",
    "Blob",
    "IdempotentRequest",
    "KeyService",
    "LeasedDelivery",
    "MemberStatus",
    "MembershipResult",
    "RateLimiter",
    "Rendered",
    "ResolvedImage",
    "SessionService",
    "SignInAttempt",
    "SubOperation",
    "WebhookService",
    "WindowState",
]
