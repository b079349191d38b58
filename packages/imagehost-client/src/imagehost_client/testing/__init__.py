"""An in-memory image host, for the tests of programs that use this client."""

from imagehost_client.testing._fake import FakeImageHost
from imagehost_client.testing._image_files import make_gif, make_png

__all__ = ["FakeImageHost", "make_gif", "make_png"]
