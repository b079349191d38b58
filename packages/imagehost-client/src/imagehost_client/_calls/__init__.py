"""The operations of the API: one pure function for each endpoint, which returns a `Call`.

Both clients derive their methods from these functions (`_methods`), with parameters and docstrings.
Arguments are validated here, before a request is sent.
"""

from imagehost_client._calls import access, albums, bulk, images, webhooks
from imagehost_client._calls._call import UNSET, Call, FilePart, Unset, next_page, with_meta
from imagehost_client._calls._refs import AlbumRef, DeliveryRef, ImageRef, KeyRef, WebhookRef
from imagehost_client._calls.bulk import SignItem
from imagehost_client._calls.images import ImageSort, StoredFormat, Time, UploadFormat

__all__ = [
    "UNSET",
    "AlbumRef",
    "Call",
    "DeliveryRef",
    "FilePart",
    "ImageRef",
    "ImageSort",
    "KeyRef",
    "SignItem",
    "StoredFormat",
    "Time",
    "Unset",
    "UploadFormat",
    "WebhookRef",
    "access",
    "albums",
    "bulk",
    "images",
    "next_page",
    "webhooks",
    "with_meta",
]
