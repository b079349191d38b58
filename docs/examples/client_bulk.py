from imagehost_client import Client
from imagehost_client.testing import make_png

with Client() as client:
    images = [client.upload(make_png(10 + number, 10)) for number in range(3)]
    album = client.albums.create("Together")

    # Images, ids or URLs; any number, in requests of 100. Each has a result, in order.
    for result in client.images.update_many([images[0], images[1].id, "0" * 16], album_id=album):
        print(result.status, result.error and result.error.code)
    print(client.albums.get(album).image_count)

    # Signed URLs, in one size for all, or each in its own.
    signed = client.images.signed_urls([images[0], (images[1], {"w": 20})], w=300, expires_in=600)
    print(["w=300" in signed[0].url, "w=20" in signed[1].url])

    print([str(result.status) for result in client.images.delete_many([image.url for image in images])])
    client.albums.delete(album)
# updated None
# updated None
# not_found NOT_FOUND
# 2
# [True, True]
# ['deleted', 'deleted', 'deleted']
