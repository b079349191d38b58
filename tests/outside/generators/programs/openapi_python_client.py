"""Upload, list, sign and delete with the package `generated`, which openapi-python-client wrote."""

from __future__ import annotations

import io
import os
import urllib.error
import urllib.request
from pathlib import Path

from generated.api.images import delete_image, get_image, list_images, sign_image
from generated.api.upload import upload_images
from generated.client import AuthenticatedClient
from generated.models import ErrorResponse, SignedUrlRequest, UploadedImageRecord, UploadForm, UploadResults
from generated.types import File

client = AuthenticatedClient(base_url=os.environ["BASE_URL"], token=os.environ["TOKEN"])
data = Path(os.environ["IMAGE"]).read_bytes()


def file(name: str) -> File:
    """Return the image as a file of a form."""
    return File(payload=io.BytesIO(data), file_name=name, mime_type="image/png")


def status_of(url: str) -> int:
    """Return the status of a GET request without a token."""
    try:
        with urllib.request.urlopen(url) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


one = upload_images.sync(client=client, body=UploadForm(image=file("one.png"), is_public=False))
assert not isinstance(one, ErrorResponse | None), one
image = one.data
assert isinstance(image, UploadedImageRecord)
assert (image.original_filename, image.is_public) == ("one.png", False)
several = upload_images.sync(client=client, body=UploadForm(files=[file("a.png"), file("b.png")]))
assert not isinstance(several, ErrorResponse | None), several
assert isinstance(several.data, UploadResults)
assert [item.original_filename for item in several.data.images] == ["a.png", "b.png"]
print("uploads")

page = list_images.sync(client=client, page=1, per_page=100)
assert not isinstance(page, ErrorResponse | None), page
assert {item.id for item in several.data.images} | {image.id} <= {item.id for item in page.data.images}
print("lists")

signed = sign_image.sync(image.id, client=client, body=SignedUrlRequest(w=20, expires_in=60))
assert not isinstance(signed, ErrorResponse | None), signed
assert (status_of(image.url), status_of(signed.data.url)) == (404, 200)
print("signs")

deleted = delete_image.sync(image.id, client=client)
assert not isinstance(deleted, ErrorResponse | None), deleted
missing = get_image.sync(image.id, client=client)
assert isinstance(missing, ErrorResponse)
assert missing.error.code == "NOT_FOUND"
print("deletes")
