"""A typed client for imagehost, sync and async, with streaming uploads and safe retries.

Public names are loaded lazily on first use (PEP 562), so that importing the package is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imagehost_client import models, testing, urls, webhooks
    from imagehost_client._calls import (
        UNSET,
        AlbumRef,
        DeliveryRef,
        ImageRef,
        ImageSort,
        KeyRef,
        StoredFormat,
        Time,
        Unset,
        UploadFormat,
        WebhookRef,
    )
    from imagehost_client._many import BatchProgress, UploadOptions, UploadResult
    from imagehost_client._multipart import Progress
    from imagehost_client._version import __version__
    from imagehost_client.aclient import AsyncClient
    from imagehost_client.client import Client
    from imagehost_client.errors import (
        APIConnectionError,
        APITimeoutError,
        BadRequestError,
        ChecksumError,
        ConfigurationError,
        ConflictError,
        ForbiddenError,
        ImageHostError,
        InsufficientStorageError,
        MethodNotAllowedError,
        NotFoundError,
        PayloadTooLargeError,
        RateLimitError,
        ServerError,
        SourceChangedError,
        UnauthorizedError,
        UnavailableError,
        UnsupportedMediaTypeError,
        ValidationError,
        WebhookVerificationError,
    )
    from imagehost_client.files import Source
    from imagehost_client.models import (
        Account,
        AccountSummary,
        AccountUsage,
        Album,
        ApiKey,
        ApiKeyWithToken,
        Deleted,
        DeletedAlbum,
        EventKind,
        Format,
        Image,
        Links,
        Member,
        Membership,
        MemberStatus,
        Page,
        PublicAlbum,
        PublicImage,
        Quota,
        RateLimit,
        RateLimitWindow,
        Rendered,
        ResponseMeta,
        SessionWithToken,
        SignedOut,
        SignedUrl,
        Webhook,
        WebhookDelivery,
        WebhookWithSecret,
    )
    from imagehost_client.pages import AsyncPager, Pager
    from imagehost_client.urls import Params

_MODULE_NAMES: dict[str, tuple[str, ...]] = {
    "_calls": (
        "AlbumRef",
        "DeliveryRef",
        "ImageRef",
        "ImageSort",
        "KeyRef",
        "StoredFormat",
        "Time",
        "UNSET",
        "Unset",
        "UploadFormat",
        "WebhookRef",
    ),
    "_many": (
        "BatchProgress",
        "UploadOptions",
        "UploadResult",
    ),
    "_multipart": ("Progress",),
    "_version": ("__version__",),
    "aclient": ("AsyncClient",),
    "client": ("Client",),
    "errors": (
        "APIConnectionError",
        "APITimeoutError",
        "BadRequestError",
        "ChecksumError",
        "ConfigurationError",
        "ConflictError",
        "ForbiddenError",
        "ImageHostError",
        "InsufficientStorageError",
        "MethodNotAllowedError",
        "NotFoundError",
        "PayloadTooLargeError",
        "RateLimitError",
        "ServerError",
        "SourceChangedError",
        "UnauthorizedError",
        "UnavailableError",
        "UnsupportedMediaTypeError",
        "ValidationError",
        "WebhookVerificationError",
    ),
    "files": ("Source",),
    "models": (
        "Account",
        "AccountSummary",
        "AccountUsage",
        "Album",
        "ApiKey",
        "ApiKeyWithToken",
        "Deleted",
        "DeletedAlbum",
        "EventKind",
        "Format",
        "Image",
        "Links",
        "Member",
        "Membership",
        "MemberStatus",
        "Page",
        "PublicAlbum",
        "PublicImage",
        "Quota",
        "RateLimit",
        "RateLimitWindow",
        "Rendered",
        "ResponseMeta",
        "SessionWithToken",
        "SignedOut",
        "SignedUrl",
        "Webhook",
        "WebhookDelivery",
        "WebhookWithSecret",
    ),
    "pages": (
        "AsyncPager",
        "Pager",
    ),
    "urls": ("Params",),
}
_MODULES = ("models", "testing", "urls", "webhooks")
_MODULE_OF = {name: module for module, names in _MODULE_NAMES.items() for name in names}

__all__ = [
    "UNSET",
    "APIConnectionError",
    "APITimeoutError",
    "Account",
    "AccountSummary",
    "AccountUsage",
    "Album",
    "AlbumRef",
    "ApiKey",
    "ApiKeyWithToken",
    "AsyncClient",
    "AsyncPager",
    "BadRequestError",
    "BatchProgress",
    "ChecksumError",
    "Client",
    "ConfigurationError",
    "ConflictError",
    "Deleted",
    "DeletedAlbum",
    "DeliveryRef",
    "EventKind",
    "ForbiddenError",
    "Format",
    "Image",
    "ImageHostError",
    "ImageRef",
    "ImageSort",
    "InsufficientStorageError",
    "KeyRef",
    "Links",
    "Member",
    "MemberStatus",
    "Membership",
    "MethodNotAllowedError",
    "NotFoundError",
    "Page",
    "Pager",
    "Params",
    "PayloadTooLargeError",
    "Progress",
    "PublicAlbum",
    "PublicImage",
    "Quota",
    "RateLimit",
    "RateLimitError",
    "RateLimitWindow",
    "Rendered",
    "ResponseMeta",
    "ServerError",
    "SessionWithToken",
    "SignedOut",
    "SignedUrl",
    "Source",
    "SourceChangedError",
    "StoredFormat",
    "Time",
    "UnauthorizedError",
    "UnavailableError",
    "Unset",
    "UnsupportedMediaTypeError",
    "UploadFormat",
    "UploadOptions",
    "UploadResult",
    "ValidationError",
    "Webhook",
    "WebhookDelivery",
    "WebhookRef",
    "WebhookVerificationError",
    "WebhookWithSecret",
    "__version__",
    "models",
    "testing",
    "urls",
    "webhooks",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"imagehost_client.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'imagehost_client' has no attribute {name!r}")
    value: object = getattr(import_module(f"imagehost_client.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
