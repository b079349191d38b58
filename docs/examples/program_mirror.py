"""Keep a folder equal to the images of an account: download what is new, delete what is gone."""

from pathlib import Path

from imagehost_client import Client, Image
from imagehost_client.testing import make_png


def mirror(client: Client, folder: Path) -> tuple[int, int]:
    """Return the numbers of files that were downloaded and deleted."""
    folder.mkdir(exist_ok=True)
    wanted = {file_name(image): image for image in client.images.list(per_page=100)}
    present = {path.name for path in folder.iterdir()}
    for name in wanted.keys() - present:  # the bytes of an image never change
        client.images.download(wanted[name], folder / name)
    for name in present - wanted.keys():
        (folder / name).unlink()
    return len(wanted.keys() - present), len(present - wanted.keys())


def file_name(image: Image) -> str:
    """Return a name that no other image has."""
    return image.url.rpartition("/")[2]


if __name__ == "__main__":
    with Client(app_info="mirror/1.0") as client:
        images = [client.upload(make_png(number + 1, 1)) for number in range(3)]
        print(mirror(client, Path("mirror")))
        client.images.delete(images[0])
        print(mirror(client, Path("mirror")), mirror(client, Path("mirror")))
# (3, 0)
# (0, 1) (0, 0)
