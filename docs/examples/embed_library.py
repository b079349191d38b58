from imagehost_core import ImageHost, NotFoundError
from imagehost_core.testing import make_image

with ImageHost.open("data") as host:
    anna = host.accounts.get_or_create("anna")
    album = host.albums.create(owner=anna, name="Cats")
    image = host.upload(
        make_image(640, 480),
        owner=anna,
        filename="cat.png",
        album_id=album.id,
        description="Asleep on the sofa",
    )
    print(image.filename, image.width, image.height)

    host.images.update(image.id, description="Awake", is_public=False)
    for found in host.images.list(owner=anna, album_id=album.id):
        print(found.description, found.is_public)

    host.images.delete(image.id)
    try:
        host.images.get(image.id)
    except NotFoundError as error:
        print(error.code)

# cat.webp 640 480
# Awake False
# NOT_FOUND
