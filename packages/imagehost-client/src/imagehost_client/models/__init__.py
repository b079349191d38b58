"""Results of calls, as frozen values.

Unknown fields are dropped and unknown enum values stay strings, so a client works with newer hosts.
Every result has a `meta` attribute with the request id and the rate limit.
"""

from imagehost_client.models.accounts import (
    Account,
    AccountLimits,
    AccountSummary,
    AccountUsage,
    ApiKey,
    ApiKeyWithToken,
    ManagedAccount,
    PasswordChanged,
    Quota,
    RateLimitWindow,
    Role,
    Scope,
    Session,
    SessionWithToken,
    SignedOut,
)
from imagehost_client.models.albums import Album, DeletedAlbum, Member, Membership, MemberStatus, PublicAlbum
from imagehost_client.models.images import (
    BulkError,
    BulkResult,
    BulkStatus,
    DownloadedImage,
    Format,
    Image,
    ImageHead,
    Links,
    PublicImage,
    Rendered,
    SignedImageUrl,
    SignedUrl,
)
from imagehost_client.models.pages import Page
from imagehost_client.models.results import Deleted, RateLimit, RawResponse, ResponseMeta, Result, ResultList
from imagehost_client.models.webhooks import EventKind, EventName, Webhook, WebhookDelivery, WebhookWithSecret

__all__ = [
    "Account",
    "AccountLimits",
    "AccountSummary",
    "AccountUsage",
    "Album",
    "ApiKey",
    "ApiKeyWithToken",
    "BulkError",
    "BulkResult",
    "BulkStatus",
    "Deleted",
    "DeletedAlbum",
    "DownloadedImage",
    "EventKind",
    "EventName",
    "Format",
    "Image",
    "ImageHead",
    "Links",
    "ManagedAccount",
    "Member",
    "MemberStatus",
    "Membership",
    "Page",
    "PasswordChanged",
    "PublicAlbum",
    "PublicImage",
    "Quota",
    "RateLimit",
    "RateLimitWindow",
    "RawResponse",
    "Rendered",
    "ResponseMeta",
    "Result",
    "ResultList",
    "Role",
    "Scope",
    "Session",
    "SessionWithToken",
    "SignedImageUrl",
    "SignedOut",
    "SignedUrl",
    "Webhook",
    "WebhookDelivery",
    "WebhookWithSecret",
]
