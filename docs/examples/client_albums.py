from imagehost_client import Client
from imagehost_client.testing import make_png

with Client() as client:
    album = client.albums.create("Cats", description="All of them", is_public=False)
    image = client.upload(make_png(), album_id=album)
    other = client.upload(make_png(3, 3))

    changed = client.albums.add_images(album, [other, "0" * 16])
    print([str(member.status) for member in changed.results], changed.album.image_count)
    client.albums.remove_images(album, other)
    print(client.albums.update(album, name="One cat").name)
    print([one.id == image.id for one in client.images.list(album_id=album)])

    client.albums.delete(album)  # keeps its images; delete_images=True deletes them too
    print(client.images.get(image).album_id)
# ['added', 'not_found'] 2
# One cat
# [True]
# None
