"""Move a folder of images to the host: each subfolder is an album, and a table has the new URLs."""

import csv
import sys
from pathlib import Path

from imagehost_client import Client
from imagehost_client.testing import make_png


def migrate(client: Client, folder: Path, table: Path) -> int:
    """Upload the images below a folder, and return the number of failures.

    An interrupted run is repeated: each journal has what is stored, and no file is uploaded twice.
    """
    albums, failures = {album.name: album for album in client.albums.list()}, 0
    with table.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        for subfolder in sorted(path for path in folder.iterdir() if path.is_dir()):
            album = albums.get(subfolder.name) or client.albums.create(subfolder.name)
            for result in client.upload_iter(subfolder, journal=f"{subfolder}.journal", album_id=album):
                if result.image is None:
                    print(result.source, result.error, file=sys.stderr)
                    failures += 1
                else:
                    rows.writerow([result.source, result.image.url])
    return failures


if __name__ == "__main__":
    for name in ("cats/1.png", "cats/2.png", "dogs/1.png"):
        Path("old", name).parent.mkdir(parents=True, exist_ok=True)
        Path("old", name).write_bytes(make_png(len(name), 9))
    with Client(pace=True) as client:  # waits for the rate limit instead of failing
        for _ in range(2):
            failures = migrate(client, Path("old"), Path("urls.csv"))
            print(failures, len(Path("urls.csv").read_text("utf-8").splitlines()))
        print(sum(album.image_count for album in client.albums.list()))
# 0 3
# 0 3
# 3
