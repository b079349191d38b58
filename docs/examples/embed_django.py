"""A Django site that stores and serves images in views of its own."""

import logging
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.test import Client
from django.urls import path

from imagehost_core import ImageHost, ImageHostError, Settings, delivery_wsgi_app
from imagehost_core.testing import make_image

# In a project, open it in `AppConfig.ready`; servers that fork call that in each process.
host = ImageHost.open("data", settings=Settings(cdn_url="http://testserver/photos"))


def upload(request: HttpRequest) -> JsonResponse:
    """Store the file of a form; without a user of your own, all images belong to `admin`."""
    image = host.upload(cast("BinaryIO", request.FILES["image"]), owner="admin")
    return JsonResponse({"id": image.id, "thumb_url": image.thumb_url}, status=201)


images = delivery_wsgi_app(host)


def photo(request: HttpRequest, name: str) -> HttpResponseBase:
    """Send an image or a variant of it, with the headers and in the pieces of the server."""
    started: list[Any] = []
    body = images({**request.META, "PATH_INFO": f"/{name}"}, lambda *start: started.extend(start))
    return StreamingHttpResponse(body, status=int(started[0][:3]), headers=dict(started[1]))


def image_host_errors(
    respond: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Respond to the errors of the host with their status; this is a middleware."""

    class Middleware:
        def __call__(self, request: HttpRequest) -> HttpResponseBase:
            return respond(request)

        def process_exception(self, _request: HttpRequest, error: Exception) -> HttpResponse | None:
            if not isinstance(error, ImageHostError):
                return None
            return JsonResponse({"code": error.code, "details": error.details}, status=error.status)

    return Middleware()


urlpatterns = [path("photos/", upload), path("photos/<str:name>", photo)]

if __name__ == "__main__":
    settings.configure(
        ROOT_URLCONF=__name__, ALLOWED_HOSTS=["testserver"], MIDDLEWARE=[f"{__name__}.image_host_errors"]
    )
    logging.disable(logging.WARNING)  # of Django, about responses with an error
    with host:
        visitor = Client()
        file = SimpleUploadedFile("cat.png", make_image(640, 480))
        image = visitor.post("/photos/", {"image": file}).json()
        variant = visitor.get(image["thumb_url"].removeprefix("http://testserver"))
        print(variant.status_code, variant.headers["content-type"], len(variant.getvalue()) > 0)
        text = SimpleUploadedFile("cat.png", b"no image")
        print(visitor.post("/photos/", {"image": text}).json()["code"])
        print(visitor.get("/photos/0000000000000000.webp").status_code)

# 200 image/webp True
# UNSUPPORTED_MEDIA_TYPE
# 404
