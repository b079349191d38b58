from imagehost_core import ImageHost
from imagehost_core.testing import make_image

with ImageHost.open("data") as host:
    image = host.upload(make_image(), owner="admin", filename="cat.png")
    thumb = host.render(image.id, "w=200&h=200&fit=cover&fm=webp")
