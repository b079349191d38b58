from pathlib import Path

from imagehost_client import Client
from imagehost_client.testing import make_png

with Client() as client:
    image = client.upload(make_png(64, 48), filename="cat.png", convert_to_webp=False, is_public=False)

    changed = client.images.update(image, description="A cat", filename="tom.png")
    print(changed.filename, changed.description, changed.is_public)

    # The bytes: as stored, or in any size and format. The token is sent, so private images work too.
    stored = client.render(image)
    Path("cat.png").write_bytes(stored.data)
    print(stored.media_type, len(stored.data) == image.size)
    print(client.render(image, w=32, fm="webp").meta.attempts)

    print(any(public.id == image.id for public in client.gallery()))  # public images of all accounts
    print(client.images.delete(image).deleted)
# tom.png A cat False
# image/png True
# 1
# False
# True
