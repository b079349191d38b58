"""Check an installed wheel of imagehost-core with its C extensions; cibuildwheel runs it on each platform."""

from __future__ import annotations

import tempfile
from importlib import import_module

from imagehost_core import ImageHost
from imagehost_core.testing import make_image

if __name__ == "__main__":
    for name in ("_resample", "_chroma"):
        print(import_module(f"imagehost_core.pixels.{name}").__file__)
    with tempfile.TemporaryDirectory() as directory, ImageHost.open(directory) as host:
        image = host.upload(make_image(640, 480), owner="admin")
        rendered = host.render(image.id, "w=100&h=100&fm=jpg")
        assert (rendered.width, rendered.height) == (100, 100)
        print(f"rendered {len(rendered.data)} bytes")
