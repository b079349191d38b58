"""Upload, render, delete, back up and restore with what Windows has. The argument is the data directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import other_system  # type: ignore[import-not-found]

other_system.become_windows()

from imagehost_core import ImageHost, restore  # noqa: E402
from imagehost_core.errors import NotFoundError  # noqa: E402
from imagehost_core.testing import make_image  # noqa: E402

data = Path(sys.argv[1])
with ImageHost.open(data) as host:
    kept = host.upload(make_image(640, 480), owner="admin", filename="kept.png")
    image = host.upload(make_image(300, 200), owner="admin", filename="cat.png")
    for params in ("w=100&fm=avif", "w=50&h=50&fit=cover"):
        rendered = host.render(image.id, params)
        assert rendered.width in (100, 50)
        assert host.render(image.id, params).data == rendered.data
    with host.delivery.open(host.delivery.resolve(f"{image.id}")) as opened:
        assert opened.read(4)
    album = host.albums.create(owner="admin", name="all")
    host.images.update(image.id, album_id=album.id)
    assert len(host.gallery().items) >= 2
    host.images.delete(image.id)
    try:
        host.images.get(image.id)
    except NotFoundError:
        pass
    else:
        raise AssertionError("expected that the image is deleted")
    assert list(data.rglob(f"*{image.id}*")) == []
backup, copy = data.with_name("backup"), data.with_name("copy")
with ImageHost.open(data) as host, backup.open("wb") as file:
    images = host.backups.write(file).info.image_count
with backup.open("rb") as file:
    assert restore([file], copy).image_count == images
with ImageHost.open(copy) as host:
    assert host.render(kept.id, "w=20").width == 20
other_system.shutil.rmtree(copy)
staging = [path for path in (data / "staging").iterdir() if path.is_dir()]
assert staging == [], staging
# A process that ends without closing leaves files, which the next one removes.
host = ImageHost.open(data)
assert host.images.get(kept.id).width == 640
assert len([path for path in (data / "staging").iterdir() if path.is_dir()]) == 1
print("done", flush=True)
os._exit(0)
