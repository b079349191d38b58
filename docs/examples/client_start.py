from imagehost_client import Client, NotFoundError
from imagehost_client.testing import make_png

with Client() as client:  # IMAGEHOST_BASE_URL and IMAGEHOST_TOKEN
    image = client.upload(make_png(640, 480), filename="cat.png", description="A cat")
    print(image.width, image.height, client.images.get(image.id) == image)
    assert client.image_url(image, w=300, fm="avif").endswith("?w=300&fm=avif")
    client.images.delete(image)
    try:
        client.images.get(image)
    except NotFoundError as error:
        print(error.code)
# 640 480 True
# NOT_FOUND
