from imagehost_client import Client
from imagehost_client.testing import make_png

with Client(app_info="shop/1.2") as client:  # for the User-Agent
    image = client.upload(make_png(), filename="cat.png", convert_to_webp=False)

    raw = client.images.get.with_raw_response(image.id)
    print(raw.status, raw.headers["content-type"], raw.request_id is not None, raw.parsed == image)

    # Settings, headers and query parameters of one call.
    patient = client.with_options(timeout=None, extra_headers={"X-Trace": "7"}, extra_query={"sort": "size"})
    print(len(patient.images.list().first_page()) > 0)

    # An endpoint that has no method.
    print(client.request("GET", f"/images/{image.id}") == image.to_dict())
    print(image.to_json()[:7], "…")

    # A download only if the image has changed.
    first = client.render(image)
    print(client.render(image, if_none_match=first.etag).not_modified)
    client.images.delete(image)
# 200 application/json True True
# True
# True
# {"id":  …
# True
