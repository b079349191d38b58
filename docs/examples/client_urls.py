from imagehost_client import Client
from imagehost_client.testing import make_png

with Client() as client:
    image = client.upload(make_png(1000, 500), description='A "cat"')
    base = image.url

    print(client.image_url(image, w=300, h=200, fit="inside", fm="webp").removeprefix(base))
    print(client.srcset(image, [320, 640, 2000]).replace(base, ""))  # never wider than the image
    print(client.picture_html(image, [320, 640])[:9], "…")

    signed = client.images.signed_url(image, w=100, expires_in=600)  # works without a token, for a while
    print("sig=" in signed.url)
    client.images.delete(image)
# ?w=300&h=200&fit=inside&fm=webp
# ?w=320 320w, ?w=640 640w, ?w=1000 1000w
# <picture> …
# True
