"""Image hosting inside a Python program.

```python
from imagehost_core import ImageHost, render
from imagehost_core.testing import make_image

preview = render(make_image(), w=300, fm="webp")  # bytes in, bytes out: without a host

with ImageHost.open("data") as host:
    image = host.upload(make_image(), owner="admin", filename="cat.png")
    thumb = host.render(image.id, "w=200&h=200&fit=cover&fm=webp")
```

`transform`, `limits`, `lists`, `events`, `uploads`, `webhooks` and `settings` are pure functions and values,
and can be used alone. Names are imported from their modules on first use (PEP 562), so that these load
neither Pillow nor SQLite. What is not named here is imported from its own module.
"""

from importlib import import_module
from typing import TYPE_CHECKING

_EXPORTS = {
    "_util.clock": "to_rfc3339 utc_now",
    "delivery_app": "delivery_app delivery_wsgi_app",
    "errors": """
        BadRequestError BaseUrlError ConflictError FieldError ForbiddenError HostClosedError
        ImageHostError InstallationError InsufficientStorageError InternalError NotFoundError
        PayloadTooLargeError RateLimitError UnauthorizedError UnavailableError
        UnsupportedMediaTypeError ValidationError
    """,
    "events": "Event",
    "formats": "Format",
    "headers.camera": "CameraData",
    "host": "ImageHost",
    "limits": "Decision decide",
    "lists": "ImageListKeywords ImageSort PageKeywords",
    "maintenance.check.findings": "Finding",
    "maintenance.garbage": "GarbageReport",
    "maintenance.restore": "restore",
    "markup": "PictureKeywords SrcsetKeywords",
    "models": """
        Account AccountLimits AccountOverview AccountUsage Album AlbumShare ApiKey ApiKeyWithToken
        DeliveryStatus Image ImageChanges ImageInfo Links Page Principal PublicAlbum Role Scope Session
        SessionWithToken UrlBuilder Webhook WebhookDelivery WebhookWithSecret
    """,
    "services.rendering": "Rendered",
    "services.accounts": "AccountChanges",
    "services.keys": "KeyChanges",
    "services.webhooks": "WebhookChanges",
    "services.references": "AccountRef AlbumRef DeliveryRef ImageRef KeyRef Owner SessionRef WebhookRef",
    "services.standalone": "inspect render",
    "services.upload": "UploadSource",
    "settings": "Settings",
    "storage": "BlobStore LocalBlobStore MemoryBlobStore",
    "workers.executor": "ImageExecutor",
    "transform": "AUTO Auto Fit Plan Size Transform TransformKeywords parse_transform plan",
    "uploads": "UploadKeywords UploadOptions",
}
"""The names that the package exports, by their module; each is imported on its first use."""
_MODULES = {name: module for module, names in _EXPORTS.items() for name in names.split()}

if TYPE_CHECKING:
    # isort: off
    from imagehost_core._util.clock import to_rfc3339, utc_now
    from imagehost_core.delivery_app import delivery_app, delivery_wsgi_app
    from imagehost_core.errors import (
        BadRequestError, BaseUrlError, ConflictError, FieldError, ForbiddenError, HostClosedError,
        ImageHostError, InstallationError, InsufficientStorageError, InternalError, NotFoundError,
        PayloadTooLargeError,
        RateLimitError, UnauthorizedError, UnavailableError, UnsupportedMediaTypeError,
        ValidationError,
    )  # fmt: skip
    from imagehost_core.events import Event
    from imagehost_core.formats import Format
    from imagehost_core.headers.camera import CameraData
    from imagehost_core.host import ImageHost
    from imagehost_core.limits import Decision, decide
    from imagehost_core.lists import ImageListKeywords, ImageSort, PageKeywords
    from imagehost_core.maintenance.check.findings import Finding
    from imagehost_core.maintenance.garbage import GarbageReport
    from imagehost_core.maintenance.restore import restore
    from imagehost_core.markup import PictureKeywords, SrcsetKeywords
    from imagehost_core.models import (
        Account, AccountLimits, AccountOverview, AccountUsage, Album, AlbumShare, ApiKey, ApiKeyWithToken,
        DeliveryStatus, Image, ImageChanges, ImageInfo, Links, Page, Principal, PublicAlbum, Role, Scope,
        Session, SessionWithToken, UrlBuilder, Webhook, WebhookDelivery, WebhookWithSecret,
    )  # fmt: skip
    from imagehost_core.services.rendering import Rendered
    from imagehost_core.services.accounts import AccountChanges
    from imagehost_core.services.keys import KeyChanges
    from imagehost_core.services.webhooks import WebhookChanges
    from imagehost_core.services.references import (
        AccountRef, AlbumRef, DeliveryRef, ImageRef, KeyRef, Owner, SessionRef, WebhookRef,
    )  # fmt: skip
    from imagehost_core.services.standalone import inspect, render
    from imagehost_core.services.upload import UploadSource
    from imagehost_core.settings import Settings
    from imagehost_core.storage import BlobStore, LocalBlobStore, MemoryBlobStore
    from imagehost_core.workers.executor import ImageExecutor
    from imagehost_core.transform import (
        AUTO, Auto, Fit, Plan, Size, Transform, TransformKeywords, parse_transform, plan,
    )  # fmt: skip
    from imagehost_core.uploads import UploadKeywords, UploadOptions
    # isort: on

__all__ = [
    "AUTO", "Account", "AccountChanges", "AccountLimits", "AccountOverview", "AccountRef", "AccountUsage",
    "Album", "AlbumRef", "AlbumShare", "ApiKey", "ApiKeyWithToken", "Auto", "BadRequestError", "BaseUrlError",
    "BlobStore", "CameraData", "ConflictError", "Decision", "DeliveryRef", "DeliveryStatus", "Event",
    "FieldError", "Finding", "Fit", "ForbiddenError", "Format", "GarbageReport",
    "HostClosedError",
    "Image", "ImageChanges", "ImageExecutor", "ImageHost", "ImageHostError", "ImageInfo",
    "ImageListKeywords", "ImageRef", "ImageSort", "InstallationError",
    "InsufficientStorageError", "InternalError",
    "KeyChanges", "KeyRef", "Links", "LocalBlobStore", "MemoryBlobStore",
    "NotFoundError", "Owner", "Page", "PageKeywords", "PayloadTooLargeError", "PictureKeywords", "Plan",
    "Principal", "PublicAlbum", "RateLimitError", "Rendered", "Role", "Scope", "Session", "SessionRef",
    "SessionWithToken", "Settings", "Size", "SrcsetKeywords", "Transform", "TransformKeywords",
    "UnauthorizedError", "UnavailableError", "UnsupportedMediaTypeError", "UploadKeywords",
    "UploadOptions", "UploadSource", "UrlBuilder", "ValidationError", "Webhook", "WebhookChanges",
    "WebhookDelivery", "WebhookRef", "WebhookWithSecret", "decide", "delivery_app",
    "delivery_wsgi_app", "inspect", "parse_transform", "plan", "render", "restore", "to_rfc3339", "utc_now",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
