import logging
import os
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2

from imagehost_client import Client
from imagehost_client.testing import make_png

logging.basicConfig(filename="uploads.log")
logging.getLogger("imagehost_client").setLevel(logging.DEBUG)  # each attempt, non-sensitive headers only

# Pass an httpx2 client for a proxy or a private CA. HTTPS_PROXY and SSL_CERT_FILE work too.
network = httpx2.Client(proxy=os.environ.get("MY_PROXY"), verify=ssl.create_default_context())

# Threads can share one client.
with network, Client(http_client=network) as client, ThreadPoolExecutor(4) as pool:
    images = list(pool.map(client.upload, [make_png(size, 1) for size in (1, 2, 3)]))
    print([image.width for image in images])

print(os.environ["IMAGEHOST_TOKEN"] in Path("uploads.log").read_text())
# [1, 2, 3]
# False
