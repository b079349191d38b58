"""A Flask application that stores images in a route of its own, and has them served below `/photos`."""

from typing import BinaryIO, cast

from flask import Flask, request
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

from imagehost_core import ImageHost, ImageHostError, Settings, delivery_wsgi_app
from imagehost_core.testing import make_image

app = Flask(__name__)
host = ImageHost.open("data", settings=Settings(cdn_url="http://localhost/photos"))


@app.post("/upload")
def upload() -> dict[str, str | None]:
    """Store the body of a request."""
    image = host.upload(cast("BinaryIO", request.stream), owner="admin")
    return {"id": image.id, "url": image.url, "thumb_url": image.thumb_url}


@app.errorhandler(ImageHostError)
def respond_with_error(error: ImageHostError) -> tuple[dict[str, str], int]:
    """Respond with the status of the error; its message and details are for clients."""
    return {"code": error.code, "details": error.details}, error.status


# A server such as gunicorn calls this: images below `/photos` are the host's, all else is Flask's.
application = DispatcherMiddleware(app, {"/photos": delivery_wsgi_app(host)})

if __name__ == "__main__":
    with host:
        visitor = Client(application)
        image = visitor.post("/upload", data=make_image(640, 480)).json or {}
        variant = visitor.get(image["thumb_url"])
        print(variant.status_code, variant.headers["content-type"], len(variant.data) > 0)
        unchanged = visitor.get(image["thumb_url"], headers={"if-none-match": variant.headers["etag"]})
        print(unchanged.status_code)
        print((visitor.post("/upload", data=b"no image").json or {})["code"])
        print(visitor.get("/photos/0000000000000000.webp").status_code)

# 200 image/webp True
# 304
# UNSUPPORTED_MEDIA_TYPE
# 404
