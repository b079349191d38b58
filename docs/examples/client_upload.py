import io
from pathlib import Path

from imagehost_client import Client
from imagehost_client.testing import make_png

Path("photos").mkdir(exist_ok=True)
for number in range(3):
    Path(f"photos/{number}.png").write_bytes(make_png(100 + number, 80))


def show(sent: int, total: int) -> None:
    assert 0 <= sent <= total


with Client() as client:
    album = client.albums.create("Holiday")

    # A path, bytes, an open file (from its position), or a pair of a name and any of these.
    client.upload("photos/0.png", album_id=album, is_public=False)
    client.upload(make_png(), description="Drawn by a program")
    client.upload(("red.png", io.BytesIO(make_png(2, 2, (255, 0, 0)))), convert_to_webp=False, checksum=True)
    client.upload(Path("photos/0.png"), progress=show)

    # Directories and patterns, some at a time. The journal lets an interrupted run continue.
    results = client.upload_many(["photos"], album_id=album, parallel=4, journal="photos.journal")
    for result in results:
        print("failed" if result.image is None else f"{result.image.width}x{result.image.height}")

    # Each result as soon as its file is finished.
    with client.upload_iter("photos/*.png", journal="photos.journal", album_id=album) as uploads:
        print(sum(result.resumed for result in uploads), "of", uploads.total, "already stored")

    print(client.albums.get(album).image_count, "in the album")
    client.albums.delete(album, delete_images=True)
# 100x80
# 101x80
# 102x80
# 3 of 3 already stored
# 4 in the album
