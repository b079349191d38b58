"""An in-memory image host, for the tests of programs that use this client."""

from imagehost_client.testing._fake import FakeImageHost
from imagehost_client.testing._image_files import make_gif, make_png
from imagehost_client.testing._state import SignedEvent

__all__ = ["FakeImageHost", "SignedEvent", "make_gif", "make_png"]
