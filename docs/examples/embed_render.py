from imagehost_core import ImageHost
from imagehost_core.testing import make_image

with ImageHost.open(":memory:") as host:
    image = host.upload(make_image(640, 480), owner="admin", filename="cat.png")
    for query in ("w=200", "w=200&h=200&fm=jpg", "w=200&h=200&fit=inside&fm=avif"):
        variant = host.render(image.id, query)
        print(variant.media_type, variant.width, variant.height)

# image/webp 200 150
# image/jpeg 200 200
# image/avif 200 150
