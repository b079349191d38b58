"""An image host in memory, for the tests of programs that use this client."""

from imagehost_client.testing._fake import FakeImageHost
from imagehost_client.testing._pictures import make_gif, make_png

__all__ = ["FakeImageHost", "make_gif", "make_png"]
