"""A web application that stores the pictures of its visitors, and shows them in a size of its own."""

from litestar import Litestar, Request, Response, get, post
from litestar.testing import TestClient

from imagehost_client import AsyncClient, ImageHostError
from imagehost_client.testing import make_png


async def start(app: Litestar) -> None:
    """Open one client for all requests, which share its connections."""
    app.state.host = AsyncClient(deadline=30)


async def stop(app: Litestar) -> None:
    await app.state.host.close()


@post("/avatars")
async def upload(request: Request) -> dict[str, str]:  # type: ignore[type-arg]
    # The body is an asynchronous iterable of bytes: it is never in memory as a whole.
    image = await request.app.state.host.upload(("avatar", request.stream()), is_public=False)
    return {"id": image.id}


@get("/avatars/{image_id:str}")
async def show(request: Request) -> Response[bytes]:  # type: ignore[type-arg]
    image_id = request.path_params["image_id"]
    avatar = await request.app.state.host.render(image_id, w=64, h=64, fm="webp")
    return Response(avatar.data, media_type=avatar.media_type)


def fail(_: Request, error: ImageHostError) -> Response[str]:  # type: ignore[type-arg]
    """Respond with the status of the host, or 502 if it was not reached."""
    return Response(error.message, status_code=error.status or 502, media_type="text/plain")


if __name__ == "__main__":
    app = Litestar(
        [upload, show],
        on_startup=[start],
        on_shutdown=[stop],
        logging_config=None,
        exception_handlers={ImageHostError: fail},
    )
    with TestClient(app) as visitor:
        avatar = visitor.post("/avatars", content=make_png(600, 400)).json()["id"]
        response = visitor.get(f"/avatars/{avatar}")
        print(response.status_code, response.headers["content-type"].startswith("image/"))
        print(visitor.post("/avatars", content=b"no image").status_code)
        print(visitor.get("/avatars/0000000000000000").status_code)
# 200 True
# 415
# 404
