"""The host: everything that a program can ask of it, over records, bytes and workers."""

from imagehost_core.host.accounts import Accounts
from imagehost_core.host.albums import Albums
from imagehost_core.host.delivery import Blob, Delivery
from imagehost_core.host.facade import ImageHost, Rendered
from imagehost_core.host.keys import Keys

__all__ = ["Accounts", "Albums", "Blob", "Delivery", "ImageHost", "Keys", "Rendered"]
