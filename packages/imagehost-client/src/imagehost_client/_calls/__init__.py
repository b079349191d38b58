"""Every operation of the host as a value: one pure function per endpoint, from arguments to a `Call`.

Both clients take their methods from here (`_methods`), names, parameters and docstrings alike. Nothing
here sends anything; what cannot be right is refused here, before it is sent.
"""

from imagehost_client._calls import access, albums, images, webhooks
from imagehost_client._calls._call import UNSET, Call, FilePart, Unset, next_page, with_meta
from imagehost_client._calls._refs import AlbumRef, DeliveryRef, ImageRef, KeyRef, WebhookRef

__all__ = [
    "UNSET",
    "AlbumRef",
    "Call",
    "DeliveryRef",
    "FilePart",
    "ImageRef",
    "KeyRef",
    "Unset",
    "WebhookRef",
    "access",
    "albums",
    "images",
    "next_page",
    "webhooks",
    "with_meta",
]
