from pathlib import Path

from imagehost_core import ImageHost, restore
from imagehost_core.testing import make_image

full, increment = Path("full.tar.zst"), Path("increment.tar.zst")

with ImageHost.open("data") as host:
    host.upload(make_image(), owner="admin")
    with full.open("wb") as file:
        result = host.backups.write(file)

    host.upload(make_image(), owner="admin")
    with increment.open("wb") as file:
        host.backups.write(file, since=result.info.created_at)

with full.open("rb") as first, increment.open("rb") as second:
    print(restore([first, second], "copy").image_count, "images")

with ImageHost.open("copy") as host:
    print(host.accounts.usage("admin").images, "images")

# 2 images
# 2 images
