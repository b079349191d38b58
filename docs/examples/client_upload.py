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

    # A path, bytes, an open file from where it stands, or a name and any of these.
    client.upload("photos/0.png", album_id=album, is_public=False)
    client.upload(make_png(), description="Made on the spot")
    client.upload(("red.png", io.BytesIO(make_png(2, 2, (255, 0, 0)))), convert_to_webp=False, checksum=True)
    client.upload(Path("photos/0.png"), progress=show)

    # Folders and patterns, a few at a time. The journal lets a stopped run go on where it was.
    results = client.upload_many(["photos"], album_id=album, parallel=4, journal="photos.journal")
    for result in results:
        print("failed" if result.image is None else f"{result.image.width}x{result.image.height}")

    print(client.albums.get(album).image_count, "in the album")
    client.albums.delete(album, delete_images=True)
# 100x80
# 101x80
# 102x80
# 4 in the album
