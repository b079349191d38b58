from imagehost_core import Event, ImageHost
from imagehost_core.testing import make_image

with ImageHost.open(":memory:") as host:
    events: list[Event] = []
    unsubscribe = host.subscribe(events.append)
    image = host.upload(make_image(), owner="admin", filename="cat.png")
    host.images.delete(image.id)
    unsubscribe()

for event in events:
    print(event.type, event.data.id == image.id)

# image.uploaded True
# image.deleted True
