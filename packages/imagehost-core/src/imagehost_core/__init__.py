"""Host images inside a Python program.

```python
from imagehost_core import ImageHost
from imagehost_core.testing import make_image

with ImageHost.open("data") as host:
    image = host.upload(make_image(), owner="admin", filename="cat.png")
    thumb = host.render(image.id, "w=200&h=200&fit=cover&fm=webp")
```

The pure functions stand alone: `parse_transform`, `plan`, `decide`, `scan`.
"""

from imagehost_core.errors import (
    BadRequestError,
    ConflictError,
    FieldError,
    ForbiddenError,
    ImageHostError,
    InsufficientStorageError,
    InternalError,
    MethodNotAllowedError,
    NotFoundError,
    PayloadTooLargeError,
    RateLimitError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedMediaTypeError,
    ValidationError,
)
from imagehost_core.events import (
    AlbumCreated,
    AlbumUpdated,
    DeletedImage,
    Event,
    ImageDeleted,
    ImageUploaded,
    deserialize_event,
    serialize_event,
)
from imagehost_core.events.schemas import event_schemas
from imagehost_core.formats import Format, sniff
from imagehost_core.headers import ImageHeader, SourceLimits, scan
from imagehost_core.host import ImageHost, Rendered
from imagehost_core.ids import AlbumId, ImageId, KeyId
from imagehost_core.limits import Decision, Window, decide
from imagehost_core.models import Account, Album, ApiKey, ApiKeyWithToken, Image, Page, Principal, Scope
from imagehost_core.pagination import PageRequest, parse_page_request
from imagehost_core.services import Blob, ResolvedImage
from imagehost_core.settings import Settings
from imagehost_core.transform import AUTO, Fit, Transform, parse_transform
from imagehost_core.transform.geometry import Plan, Size, plan
from imagehost_core.uploads.options import UploadOptions, parse_upload_options

__all__ = [
    "AUTO",
    "Account",
    "Album",
    "AlbumCreated",
    "AlbumId",
    "AlbumUpdated",
    "ApiKey",
    "ApiKeyWithToken",
    "BadRequestError",
    "Blob",
    "ConflictError",
    "Decision",
    "DeletedImage",
    "Event",
    "FieldError",
    "Fit",
    "ForbiddenError",
    "Format",
    "Image",
    "ImageDeleted",
    "ImageHeader",
    "ImageHost",
    "ImageHostError",
    "ImageId",
    "ImageUploaded",
    "InsufficientStorageError",
    "InternalError",
    "KeyId",
    "MethodNotAllowedError",
    "NotFoundError",
    "Page",
    "PageRequest",
    "PayloadTooLargeError",
    "Plan",
    "Principal",
    "RateLimitError",
    "Rendered",
    "ResolvedImage",
    "Scope",
    "Settings",
    "Size",
    "SourceLimits",
    "Transform",
    "UnauthorizedError",
    "UnavailableError",
    "UnsupportedMediaTypeError",
    "UploadOptions",
    "ValidationError",
    "Window",
    "decide",
    "deserialize_event",
    "event_schemas",
    "parse_page_request",
    "parse_transform",
    "parse_upload_options",
    "plan",
    "scan",
    "serialize_event",
    "sniff",
]
