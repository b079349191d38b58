"""The gallery route: public images of all accounts, without authentication."""

from __future__ import annotations

from litestar import Response

from imagehost_core.resources import PublicImageRecord
from imagehost_server.api.operation import PAGING, operation
from imagehost_server.api.pagination import Pagination, page_response
from imagehost_server.api.request import ApiRequest, ok


@operation(
    "GET /v1/gallery",
    summary="List the public images of all accounts, newest first.",
    query=PAGING,
    response={"images": list[PublicImageRecord], "pagination": Pagination},
)
async def list_gallery(request: ApiRequest) -> Response[bytes]:
    """Respond with a page of public image records."""
    host = request.host
    page = await request.executors.database.run(host.gallery, request.page_request())
    return ok(page_response("images", page, host.urls.public_record))


ROUTES = (list_gallery,)
