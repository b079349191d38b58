"""Print the measures of the image workers' sandbox that could not be applied; upload and render an image."""

from __future__ import annotations

import sys

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_core.workers.executor import ImageExecutor

if __name__ == "__main__":
    with ImageExecutor(1) as executor:
        print(executor.status().unavailable)
    with ImageHost.open(sys.argv[1]) as host:
        image = host.upload(make_image(), owner="admin")
        print(host.render(image.id, "w=100&fm=avif").width)
