"""A typed client for imagehost, sync and async, with streaming uploads and safe retries.

Names are loaded when they are first used, so importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imagehost_client import models, testing, urls, webhooks
    from imagehost_client._calls import UNSET, Unset
    from imagehost_client._many import UploadOptions, UploadResult
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
        Album,
        ApiKey,
        Format,
        Image,
        NewApiKey,
        NewWebhook,
        Page,
        PublicImage,
        RateLimit,
        Rendered,
        ResponseMeta,
        SignedUrl,
        Webhook,
        WebhookDelivery,
    )
    from imagehost_client.pages import AsyncPager, Pager

_HOMES: dict[str, tuple[str, ...]] = {
    "_calls": ("UNSET", "Unset"),
    "_many": ("UploadOptions", "UploadResult"),
    "_version": ("__version__",),
    "aclient": ("AsyncClient",),
    "client": ("Client",),
    "errors": (
        "BadRequestError",
        "ChecksumError",
        "ConfigurationError",
        "ConflictError",
        "APIConnectionError",
        "ForbiddenError",
        "ImageHostError",
        "InsufficientStorageError",
        "MethodNotAllowedError",
        "NotFoundError",
        "PayloadTooLargeError",
        "RateLimitError",
        "ServerError",
        "SourceChangedError",
        "APITimeoutError",
        "UnauthorizedError",
        "UnavailableError",
        "UnsupportedMediaTypeError",
        "ValidationError",
        "WebhookVerificationError",
    ),
    "files": ("Source",),
    "models": (
        "Account",
        "Album",
        "ApiKey",
        "WebhookDelivery",
        "Format",
        "Image",
        "ResponseMeta",
        "NewApiKey",
        "NewWebhook",
        "Page",
        "PublicImage",
        "RateLimit",
        "Rendered",
        "SignedUrl",
        "Webhook",
    ),
    "pages": ("AsyncPager", "Pager"),
}
_MODULES = ("models", "testing", "urls", "webhooks")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "UNSET",
    "APIConnectionError",
    "APITimeoutError",
    "Account",
    "Album",
    "ApiKey",
    "AsyncClient",
    "AsyncPager",
    "BadRequestError",
    "ChecksumError",
    "Client",
    "ConfigurationError",
    "ConflictError",
    "ForbiddenError",
    "Format",
    "Image",
    "ImageHostError",
    "InsufficientStorageError",
    "MethodNotAllowedError",
    "NewApiKey",
    "NewWebhook",
    "NotFoundError",
    "Page",
    "Pager",
    "PayloadTooLargeError",
    "PublicImage",
    "RateLimit",
    "RateLimitError",
    "Rendered",
    "ResponseMeta",
    "ServerError",
    "SignedUrl",
    "Source",
    "SourceChangedError",
    "UnauthorizedError",
    "UnavailableError",
    "Unset",
    "UnsupportedMediaTypeError",
    "UploadOptions",
    "UploadResult",
    "ValidationError",
    "Webhook",
    "WebhookDelivery",
    "WebhookVerificationError",
    "__version__",
    "models",
    "testing",
    "urls",
    "webhooks",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"imagehost_client.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'imagehost_client' has no attribute {name!r}")
    value: object = getattr(import_module(f"imagehost_client.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
