"""A FastAPI application that stores and serves images in routes of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import SpooledTemporaryFile

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from imagehost_core import Image, ImageHost, ImageHostError, Settings, delivery_app
from imagehost_core.testing import make_image

MAX_BYTES = 52_428_800


@asynccontextmanager
async def open_host(app: FastAPI) -> AsyncIterator[None]:
    """Open the host in the process that serves, after any fork; it is thread-safe."""
    settings = Settings(cdn_url="http://testserver/photos")
    with ImageHost.open("data", settings=settings) as app.state.host:
        yield


app = FastAPI(lifespan=open_host)


@app.exception_handler(ImageHostError)
def respond_with_error(_request: Request, error: ImageHostError) -> JSONResponse:
    """Respond with the status of the error; its message and details are for clients."""
    return JSONResponse({"code": error.code, "details": error.details}, error.status)


@app.post("/photos", status_code=201)
async def upload(request: Request) -> dict[str, str | None]:
    """Store the body of a request, such as `fetch("/photos", {method: "POST", body: file})` sends it."""
    with SpooledTemporaryFile(max_size=1_000_000) as file:
        async for chunk in request.stream():
            file.write(chunk)
            if file.tell() > MAX_BYTES:
                break  # the host refuses the file
        file.seek(0)
        image = await run_in_threadpool(request.app.state.host.upload, file, owner="admin")
    return {"id": image.id, "url": image.url, "thumb_url": image.thumb_url}


class Photo(BaseModel, from_attributes=True):
    """What clients see of an image, as the OpenAPI document of the application says."""

    id: str
    url: str
    thumb_url: str
    description: str


@app.get("/library", response_model=list[Photo])
def library(request: Request) -> list[Image]:
    """Return the newest images."""
    host: ImageHost = request.app.state.host
    return list(host.images.list(owner="admin"))


async def photos(scope: Scope, receive: Receive, send: Send) -> None:
    """Send images and variants; the host is open when the first request comes."""
    await delivery_app(app.state.host)(scope, receive, send)


app.mount("/photos", photos)


if __name__ == "__main__":
    with TestClient(app) as visitor:
        image = visitor.post("/photos", content=make_image(640, 480)).json()
        variant = visitor.get(image["thumb_url"])
        print(variant.status_code, variant.headers["content-type"], len(variant.content) > 0)
        print(visitor.get("/library").json()[0] == {**image, "description": ""})
        unchanged = visitor.get(image["thumb_url"], headers={"if-none-match": variant.headers["etag"]})
        part = visitor.get(image["url"], headers={"range": "bytes=0-9"})
        print(unchanged.status_code, part.status_code, part.headers["content-range"][:10])
        print(visitor.post("/photos", content=b"no image").json()["code"])
        print(visitor.get("/photos/0000000000000000.webp").json()["error"]["code"])

# 200 image/webp True
# True
# 304 206 bytes 0-9/
# UNSUPPORTED_MEDIA_TYPE
# NOT_FOUND
