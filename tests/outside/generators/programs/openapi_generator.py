"""Upload, list, sign and delete with the package `generated`, which openapi-generator's `python` wrote."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from pathlib import Path

from generated import (
    ApiClient,
    Configuration,
    ImagesApi,
    SignedUrlRequest,
    UploadApi,
    UploadedImageRecord,
    UploadResults,
)
from generated.exceptions import NotFoundException

client = ApiClient(Configuration(host=os.environ["BASE_URL"], access_token=os.environ["TOKEN"]))
images, uploads = ImagesApi(client), UploadApi(client)
data = Path(os.environ["IMAGE"]).read_bytes()


def status_of(url: str) -> int:
    """Return the status of a GET request without a token."""
    try:
        with urllib.request.urlopen(url) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


image = uploads.upload_images(image=("one.png", data), is_public=False).data.actual_instance
assert isinstance(image, UploadedImageRecord)
assert (image.original_filename, image.is_public) == ("one.png", False)
several = uploads.upload_images(files=[("a.png", data), ("b.png", data)]).data.actual_instance
assert isinstance(several, UploadResults)
assert [item.original_filename for item in several.images] == ["a.png", "b.png"]
print("uploads")

page = images.list_images(page=1, per_page=100).data
assert {item.id for item in several.images} | {image.id} <= {item.id for item in page.images}
print("lists")

signed = images.sign_image(image.id, SignedUrlRequest(w=20, expires_in=60)).data
assert (status_of(image.url), status_of(signed.url)) == (404, 200)
print("signs")

assert images.delete_image(image.id).data.id == image.id
try:
    images.get_image(image.id)
except NotFoundException as error:
    missing = error.data
assert missing is not None
assert missing.error.code == "NOT_FOUND"
print("deletes")
