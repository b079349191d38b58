"""The gallery route: public images of all accounts or of one album, by default without authentication."""

from __future__ import annotations

from litestar import Response
from msgspec import UNSET

from imagehost_server.api.envelope import Success, ok
from imagehost_server.api.operation import operation
from imagehost_server.api.pagination import PublicImageList, is_short_read, pagination
from imagehost_server.api.parameters import Cursor, Page, PerPage, PublicAlbumFilter
from imagehost_server.api.records import public_records
from imagehost_server.api.request import ApiRequest


# The core reads the parameters from the URL, repeated ones too; the annotations are for the OpenAPI document.
@operation(
    "GET /v1/gallery", summary="List the public images of all accounts, newest first.", errors=(401, 404)
)
async def list_gallery(
    request: ApiRequest,
    page: Page = None,  # noqa: ARG001
    per_page: PerPage = None,  # noqa: ARG001
    cursor: Cursor = None,  # noqa: ARG001
    album_id: PublicAlbumFilter = None,  # noqa: ARG001
) -> Response[Success[PublicImageList]]:
    """Respond with a page of public image records, and the album if one is given.

    An image in a private album is not listed. A setting of the host can require a token.
    """
    if request.settings.gallery.require_sign_in:
        request.identity.require_principal()
    host, parameters = request.host, list(request.query_params.multi_items())
    executor = request.executors.reads if is_short_read(parameters) else request.executors.database
    images = await executor.run(host.images.list_public_by_parameters, parameters)
    album = UNSET if images.album is None else host.urls.public_album_record(images.album)
    records = public_records(host.urls, images)
    return ok(PublicImageList(images=records, pagination=pagination(images), album=album))


ROUTES = (list_gallery,)
