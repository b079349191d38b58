"""The operations of the API: one pure function for each endpoint, which returns a `Call`.

Both clients derive their methods from these functions (`_methods`), with parameters and docstrings.
Arguments are validated here, before a request is sent.
"""

from imagehost_client._calls import access, accounts, albums, bulk, images, webhooks
from imagehost_client._calls._call import UNSET, Call, FilePart, Unset, next_page, with_meta
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
    "SessionRef",
    "SignItem",
    "StoredFormat",
    "Time",
    "Unset",
    "UploadFormat",
    "WebhookRef",
    "access",
    "accounts",
    "albums",
    "bulk",
    "images",
    "next_page",
    "webhooks",
    "with_meta",
]
