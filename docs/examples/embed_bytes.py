from imagehost_core import inspect, render
from imagehost_core.testing import make_image

photo = make_image(640, 480)  # or a path, or a binary file
info = inspect(photo)
print(info.format, info.width, info.height)

variant = render(photo, "w=300&fm=webp")
print(variant.media_type, variant.width, variant.height, variant.data[8:12])
print(render(photo, w=100, h=100, fm="jpg").width)

untrusted = render(photo, w=300, fm="webp", sandbox=True)
print(untrusted.data == variant.data)

# png 640 480
# image/webp 300 225 b'WEBP'
# 100
# True
