"""Image hosting inside a Python program.

```python
from imagehost_core import ImageHost, render
from imagehost_core.testing import make_image

preview = render(make_image(), w=300, fm="webp")  # bytes in, bytes out: without a host

with ImageHost.open("data") as host:
    image = host.upload(make_image(), owner="admin", filename="cat.png")
    thumb = host.render(image.id, "w=200&h=200&fit=cover&fm=webp")
```

```text
open a host           ImageHost Settings restore BlobStore LocalBlobStore MemoryBlobStore
render without a host render inspect Rendered ImageExecutor
serve images          delivery_app delivery_wsgi_app
records               Image Album Account ApiKey Session Webhook Page Event CameraData
types of values       Format Fit Role Scope ImageSort Owner ImageRef UploadSource
types of keywords     UploadKeywords TransformKeywords PageKeywords ImageListKeywords PictureKeywords
                      SrcsetKeywords ImageChanges AccountChanges KeyChanges WebhookChanges
rules alone           parse_transform plan Transform Plan Size AUTO Auto UploadOptions decide
errors                ImageHostError BadRequestError ValidationError NotFoundError ConflictError
                      UnauthorizedError ForbiddenError PayloadTooLargeError UnsupportedMediaTypeError
                      InsufficientStorageError RateLimitError UnavailableError InternalError
errors of a host      InstallationError BaseUrlError HostClosedError
times                 utc_now to_rfc3339
```

`help(ImageHost)` shows one of these names whole. Records that programs only receive are in
`imagehost_core.models`. Names are imported from their modules on first use (PEP 562): the rules load neither
Pillow nor SQLite.
"""

from importlib import import_module
from typing import TYPE_CHECKING

_EXPORTS = {
    "_util.clock": "to_rfc3339 utc_now",
    "delivery_app": "delivery_app delivery_wsgi_app",
    "errors": """
        BadRequestError BaseUrlError ConflictError ForbiddenError HostClosedError ImageHostError
        InstallationError InsufficientStorageError InternalError NotFoundError PayloadTooLargeError
        RateLimitError UnauthorizedError UnavailableError UnsupportedMediaTypeError ValidationError
    """,
    "events": "Event",
    "formats": "Format",
    "headers.camera": "CameraData",
    "host": "ImageHost",
    "limits": "decide",
    "lists": "ImageListKeywords ImageSort PageKeywords",
    "maintenance.restore": "restore",
    "markup": "PictureKeywords SrcsetKeywords",
    "models": "Account Album ApiKey Image ImageChanges Page Role Scope Session Webhook",
    "records": "Rendered",
    "services.accounts": "AccountChanges",
    "services.keys": "KeyChanges",
    "services.references": "ImageRef Owner",
    "services.standalone": "inspect render",
    "services.upload": "UploadSource",
    "services.webhooks": "WebhookChanges",
    "settings": "Settings",
    "storage": "BlobStore LocalBlobStore MemoryBlobStore",
    "transform": "AUTO Auto Fit Plan Size Transform TransformKeywords parse_transform plan",
    "uploads": "UploadKeywords UploadOptions",
    "workers.executor": "ImageExecutor",
}
"""The names that the package exports, by their module; each is imported on its first use."""
_MODULES = {name: module for module, names in _EXPORTS.items() for name in names.split()}

if TYPE_CHECKING:
    from imagehost_core._util.clock import to_rfc3339, utc_now
    from imagehost_core.delivery_app import delivery_app, delivery_wsgi_app
    from imagehost_core.errors import (
        BadRequestError,
        BaseUrlError,
        ConflictError,
        ForbiddenError,
        HostClosedError,
        ImageHostError,
        InstallationError,
        InsufficientStorageError,
        InternalError,
        NotFoundError,
        PayloadTooLargeError,
        RateLimitError,
        UnauthorizedError,
        UnavailableError,
        UnsupportedMediaTypeError,
        ValidationError,
    )
    from imagehost_core.events import Event
    from imagehost_core.formats import Format
    from imagehost_core.headers.camera import CameraData
    from imagehost_core.host import ImageHost
    from imagehost_core.limits import decide
    from imagehost_core.lists import ImageListKeywords, ImageSort, PageKeywords
    from imagehost_core.maintenance.restore import restore
    from imagehost_core.markup import PictureKeywords, SrcsetKeywords
    from imagehost_core.models import (
        Account,
        Album,
        ApiKey,
        Image,
        ImageChanges,
        Page,
        Role,
        Scope,
        Session,
        Webhook,
    )
    from imagehost_core.records import Rendered
    from imagehost_core.services.accounts import AccountChanges
    from imagehost_core.services.keys import KeyChanges
    from imagehost_core.services.references import ImageRef, Owner
    from imagehost_core.services.standalone import inspect, render
    from imagehost_core.services.upload import UploadSource
    from imagehost_core.services.webhooks import WebhookChanges
    from imagehost_core.settings import Settings
    from imagehost_core.storage import BlobStore, LocalBlobStore, MemoryBlobStore
    from imagehost_core.transform import (
        AUTO,
        Auto,
        Fit,
        Plan,
        Size,
        Transform,
        TransformKeywords,
        parse_transform,
        plan,
    )
    from imagehost_core.uploads import UploadKeywords, UploadOptions
    from imagehost_core.workers.executor import ImageExecutor

    # At run time there is none: for it, `help(imagehost_core)` would show all classes whole.
    __all__ = [
        "AUTO", "Account", "AccountChanges", "Album", "ApiKey", "Auto", "BadRequestError", "BaseUrlError",
        "BlobStore", "CameraData", "ConflictError", "Event", "Fit", "ForbiddenError", "Format",
        "HostClosedError", "Image", "ImageChanges", "ImageExecutor", "ImageHost", "ImageHostError",
        "ImageListKeywords", "ImageRef", "ImageSort", "InstallationError", "InsufficientStorageError",
        "InternalError", "KeyChanges", "LocalBlobStore", "MemoryBlobStore", "NotFoundError", "Owner", "Page",
        "PageKeywords", "PayloadTooLargeError", "PictureKeywords", "Plan", "RateLimitError", "Rendered",
        "Role", "Scope", "Session", "Settings", "Size", "SrcsetKeywords", "Transform", "TransformKeywords",
        "UnauthorizedError", "UnavailableError", "UnsupportedMediaTypeError", "UploadKeywords",
        "UploadOptions", "UploadSource", "ValidationError", "Webhook", "WebhookChanges", "decide",
        "delivery_app", "delivery_wsgi_app", "inspect", "parse_transform", "plan", "render", "restore",
        "to_rfc3339", "utc_now",
    ]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_MODULES)
