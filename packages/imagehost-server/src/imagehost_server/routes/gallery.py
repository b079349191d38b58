"""The gallery route: public images of all accounts, without authentication."""

from __future__ import annotations

from litestar import Response

from imagehost_core.pagination import parse_page_request
from imagehost_server.api.envelope import Success, ok
from imagehost_server.api.operation import operation
from imagehost_server.api.pagination import PublicImageList, pagination
from imagehost_server.api.parameters import Cursor, Page, PerPage
from imagehost_server.api.request import ApiRequest


@operation("GET /v1/gallery", summary="List the public images of all accounts, newest first.")
async def list_gallery(
    request: ApiRequest, page: Page = None, per_page: PerPage = None, cursor: Cursor = None
) -> Response[Success[PublicImageList]]:
    """Respond with a page of public image records."""
    host, page_request = request.host, parse_page_request(page, per_page, cursor)
    images = await request.executors.database.run(host.gallery, page_request)
    records = list(map(host.urls.public_record, images))
    return ok(PublicImageList(images=records, pagination=pagination(images)))


ROUTES = (list_gallery,)
