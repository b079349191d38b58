from imagehost_client import Client
from imagehost_client.testing import make_png

with Client() as client:
    album = client.albums.create("List")
    for number in range(5):
        client.upload(make_png(10 + number, 10), album_id=album, description=f"Number {number}")

    # Pages are requested during iteration, by cursor: nothing is skipped or repeated.
    print([image.width for image in client.images.list(album_id=album, per_page=2)])
    print([len(page) for page in client.images.list(album_id=album, per_page=2).pages()])

    newest = client.images.list(album_id=album, per_page=1).first_page()
    print(newest.total, newest.items[0].width)

    # Filters and an order. The host does not count what a search finds.
    found = client.images.list(album_id=album, q="number 3", is_public=True, sort="-size")
    print([image.width for image in found], found.first_page().total)
    print([image.description for image in client.images.list(album_id=album, sort="created_at", per_page=3)])
    client.images.update(newest.items[0], description="The newest", album_id=None)
    client.albums.delete(album, delete_images=True)
# [14, 13, 12, 11, 10]
# [2, 2, 1]
# 5 14
# [13] None
# ['Number 0', 'Number 1', 'Number 2', 'Number 3', 'Number 4']
