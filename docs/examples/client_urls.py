from imagehost_client import Client
from imagehost_client.testing import make_png

with Client() as client:
    image = client.upload(make_png(1000, 500), description='A "cat"')
    base = image.url

    print(client.image_url(image, w=300, h=200, fit="inside", fm="webp").removeprefix(base))
    print(client.srcset(image, [320, 640, 2000]).replace(base, ""))  # never wider than the image
    print(client.picture(image, [320, 640], sizes="50vw", attributes={"class": "hero"})[:9], "…")

    # These work without a token, for a while. Each line is one request.
    signed = client.images.signed_url(image, w=100, expires_in=600)
    many = client.images.signed_urls([image, (image, {"w": 200})], fm="webp")
    markup = client.images.signed_picture(image, [320, 640], loading="eager", expires_in=600)
    candidates = client.images.signed_srcset(image, [320, 640])
    print("sig=" in signed.url, len(many), markup.count("sig="), candidates.count("sig="))
    client.images.delete(image)
# ?w=300&h=200&fit=inside&fm=webp
# ?w=320 320w, ?w=640 640w, ?w=1000 1000w
# <picture> …
# True 2 3 2
