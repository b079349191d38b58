from imagehost_core import ImageHost, Settings
from imagehost_core.testing import make_image

settings = Settings(base_url="https://img.example/v1", cdn_url="https://cdn.example")

with ImageHost.open(":memory:", settings=settings) as host:
    image = host.upload(make_image(1000, 750), owner="admin", filename="cat.png")
    assert image.url == f"https://cdn.example/{image.id}.webp"
    assert image.thumb_url == f"{image.url}?w=320&h=320&fit=inside"
    print(host.image_url(image, w=300).removeprefix(image.url))
    print(host.srcset(image, [320, 640], fm="avif").replace(image.url, "…"))
    print(host.picture(image, [320, 640], alt="a cat").count("fm=auto"), "URLs of the best format")

# ?w=300
# …?w=320&fm=avif 320w, …?w=640&fm=avif 640w
# 3 URLs of the best format
