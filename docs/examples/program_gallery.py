"""Write an HTML page of a private album, whose images can be seen for a day."""

from html import escape
from pathlib import Path

from imagehost_client import Client
from imagehost_client.testing import make_png


def write_gallery(client: Client, album_id: int, path: Path) -> int:
    """Write the page, and return the number of images on it."""
    name, day = escape(client.albums.get(album_id).name), 86_400
    figures = [
        client.images.signed_picture(image, [320, 640], sizes="(min-width: 60em) 33vw, 100vw", expires_in=day)
        for image in client.images.list(album_id=album_id, sort="filename", per_page=100)
    ]
    path.write_text("\n".join([f"<!doctype html><title>{name}</title>", *figures]), encoding="utf-8")
    return len(figures)


if __name__ == "__main__":
    with Client() as client:
        album = client.albums.create("Family & friends", is_public=False)
        for number in (1, 2):
            client.upload(make_png(800, 600), album_id=album, description=f"Photo {number}", is_public=False)
        page = Path("gallery.html")
        print(write_gallery(client, album.id, page), "images")
        print(
            page.read_text("utf-8").count("&amp;sig=") > 2, "Family &amp; friends" in page.read_text("utf-8")
        )
        client.albums.delete(album, delete_images=True)
# 2 images
# True True
