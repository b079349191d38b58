"""A typed client for imagehost, sync and async, with streaming uploads and safe retries.

```python
from imagehost_client import Client

with Client("https://images.example.com/v1", token="ihk_...") as client:
    image = client.upload("cat.png")
    print(client.image_url(image, w=300, fm="webp"))
```

```text
clients           Client AsyncClient
uploads of many   UploadResult UploadIterator AsyncUploadIterator UploadInterrupted BatchOptions BatchProgress
lists             Pager AsyncPager Page PageOptions ImageSort
records           Image PublicImage Album PublicAlbum AlbumShare Account AccountOverview ApiKey Session
                  Webhook WebhookDelivery
images            Rendered DownloadedImage ImageHead ImageStream AsyncImageStream DisplayedImage ImageRow
URLs              urls SignedUrl SignedImageUrl TransformParams SrcsetParams PictureParams PictureOptions
values            Format FormatName Fit Scope Role RoleName EventKind EventName UNSET Unset
arguments         Source Target Time Progress ImageRef AlbumRef KeyRef SessionRef AccountRef WebhookRef
                  DeliveryRef UploadOptions AccountProperties SignItem
errors            ImageHostError BadRequestError ValidationError NotFoundError ConflictError UnauthorizedError
                  ForbiddenError PayloadTooLargeError UnsupportedMediaTypeError MethodNotAllowedError
                  InsufficientStorageError RateLimitError ServerError UnavailableError
errors before     ConfigurationError APIConnectionError APITimeoutError SourceChangedError ChecksumError
a response
webhooks received webhooks WebhookVerificationError
tests             testing
responses         RawResponse ResponseMeta RateLimit Result ResultList
```

`help(Client)` shows one of these names whole. Results of single calls are in `imagehost_client.models`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imagehost_client import models as models
    from imagehost_client import testing as testing
    from imagehost_client import urls as urls
    from imagehost_client import webhooks as webhooks
    from imagehost_client._config import __version__ as __version__
    from imagehost_client._types import *
    from imagehost_client.aclient import *
    from imagehost_client.client import *
    from imagehost_client.downloads import *
    from imagehost_client.errors import *
    from imagehost_client.models import *
    from imagehost_client.pages import *
    from imagehost_client.uploads import *

_MODULES = ("models", "testing", "urls", "webhooks")
"""The public modules."""

_SOURCES = ("errors", "models", "_types", "client", "pages", "downloads", "aclient", "uploads", "_config")
"""The modules whose `__all__` are the public names of the package; a name is looked up in this order.

They are imported on first use (PEP 562), so that importing the package is fast. The package itself has no
`__all__`: for it, `help(imagehost_client)` would show all classes whole."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"imagehost_client.{name}")
    for source in () if name.startswith("_") and name != "__version__" else _SOURCES:
        module = import_module(f"imagehost_client.{source}")
        if name in module.__all__:
            value: object = getattr(module, name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'imagehost_client' has no attribute {name!r}")


def __dir__() -> list[str]:
    names = (import_module(f"imagehost_client.{source}").__all__ for source in _SOURCES)
    return sorted((*_MODULES, *(name for some in names for name in some)))
