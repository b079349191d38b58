from imagehost_client import Client
from imagehost_client.testing import make_png

with Client() as client:
    image = client.upload(make_png(640, 480), filename="cat.png", is_public=False)

    # To a file, which is written completely or not at all.
    first = client.images.download(image, "cat.png")
    print(first.path, first.size == image.size, first.sha256 == image.sha256)
    second = client.images.download(image, "cat.png", if_none_match=first.etag)
    print(second.not_modified)

    # In chunks, for a response of a web framework or a file that does not fit into memory.
    with client.images.stream(image, w=300) as stream:
        print(stream.media_type.startswith("image/"), sum(map(len, stream)) == stream.size)
    client.images.delete(image)
# cat.png True True
# True
# True True
