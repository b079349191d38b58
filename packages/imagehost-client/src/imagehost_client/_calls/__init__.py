"""The operations of the API: one pure function for each endpoint, which returns a `Call`.

Both clients derive their methods from these functions (`_methods`), with parameters and docstrings.
Arguments are validated here, before a request is sent.
"""

from imagehost_client._calls import (
    access,
    accounts,
    albums,
    bulk,
    downloads,
    generic,
    images,
    markup,
    webhooks,
)
from imagehost_client._calls._call import UNSET, Call, FilePart, OpenResponse, Unset, next_page, with_meta
from imagehost_client._calls._refs import (
    AccountRef,
    AlbumRef,
    DeliveryRef,
    ImageRef,
    KeyRef,
    SessionRef,
    WebhookRef,
)
from imagehost_client._calls.bulk import SignItem
from imagehost_client._calls.downloads import Target
from imagehost_client._calls.generic import RequestMethod
from imagehost_client._calls.images import ImageSort, StoredFormat, Time, UploadFormat

__all__ = [
    "UNSET",
    "AccountRef",
    "AlbumRef",
    "Call",
    "DeliveryRef",
    "FilePart",
    "ImageRef",
    "ImageSort",
    "KeyRef",
    "OpenResponse",
    "RequestMethod",
    "SessionRef",
    "SignItem",
    "StoredFormat",
    "Target",
    "Time",
    "Unset",
    "UploadFormat",
    "WebhookRef",
    "access",
    "accounts",
    "albums",
    "bulk",
    "downloads",
    "generic",
    "images",
    "markup",
    "next_page",
    "webhooks",
    "with_meta",
]
