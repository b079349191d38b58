"""Album routes: create, list, get, update, delete, and the images and share links of an album."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any

from attrs import evolve, field, frozen
from litestar import Response
from litestar.params import JSONBody, PathParameter
from msgspec import UNSET, UnsetType, json

from imagehost_core.authorization import authorize
from imagehost_core.errors import BadRequestError, ErrorCollector, FieldError, ValidationError, quote_value
from imagehost_core.limits import account_key
from imagehost_core.models import (
    Account,
    AlbumShare,
    Deleted,
    DeletedAlbum,
    Membership,
    MemberStatus,
    Scope,
)
from imagehost_core.resources import AlbumRecord
from imagehost_core.services.album_rules import MAX_ALBUM_NAME
from imagehost_core.services.albums import MAX_IMAGES_PER_REQUEST
from imagehost_core.services.idempotency import IdempotentRequest
from imagehost_core.services.keys import expiry_errors
from imagehost_core.uploads import BOOLEANS
from imagehost_server._executors import Standing
from imagehost_server.auth.passwords import MAX_PASSWORD, MIN_PASSWORD, hash_password, new_password_errors
from imagehost_server.http.responses import RawResponse, Success, envelope, ok, record_of, success_response
from imagehost_server.routes.body import KEEPS_PUBLIC, Description, IsPublic, JsonBody, member, set_fields
from imagehost_server.routes.handler import ApiRequest, operation
from imagehost_server.routes.idempotency import fingerprint, run_idempotent
from imagehost_server.routes.keys import ExpiresAt, parse_key_members
from imagehost_server.routes.lists import Cursor, Page, Pagination, PerPage, pagination, query

AlbumIdPath = Annotated[str, PathParameter(description="The album's id: a positive integer.")]

ShareIdPath = Annotated[str, PathParameter(description="The share's id.")]

SharePassword = Annotated[
    str,
    member(
        "The password that the page of the share requires; by default, and null, none.",
        format="password",
        minLength=MIN_PASSWORD,
        maxLength=MAX_PASSWORD,
    ),
]

DeleteImages = Annotated[
    str | None,
    query(
        "Whether to delete the album's images too; also requires the scope `images:delete`.",
        type="boolean",
        default=False,
    ),
]

ImagesPublic = Annotated[str | None, query(KEEPS_PUBLIC, type="boolean", default=False)]

AlbumName = Annotated[str, member("1–100 characters, after trimming.", minLength=1, maxLength=MAX_ALBUM_NAME)]

ImageIds = Annotated[list[str], member("The ids of the images.", minItems=1, maxItems=MAX_IMAGES_PER_REQUEST)]


class NewAlbum(JsonBody, kw_only=True):
    """The body of `POST /albums`."""

    name: AlbumName
    description: Description = ""
    is_public: IsPublic = True


class AlbumChanges(JsonBody, kw_only=True):
    """The body of `PATCH /albums/{id}`; omitted members keep their values."""

    name: AlbumName | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    is_public: IsPublic | UnsetType = UNSET
    images_public: (
        Annotated[bool, member("Whether all images of the album become public, or private.")] | UnsetType
    ) = UNSET


class AlbumMembers(JsonBody, kw_only=True):
    """The body of `PUT|DELETE /albums/{id}/images`."""

    image_ids: ImageIds
    images_public: Annotated[bool, member(KEEPS_PUBLIC)] = False


class NewShare(JsonBody, kw_only=True):
    """The body of `POST /albums/{id}/shares`."""

    expires_at: ExpiresAt = UNSET
    password: SharePassword | UnsetType | None = UNSET

    def __repr__(self) -> str:
        # Without the password, which must not be logged.
        return f"{type(self).__name__}(expires_at={self.expires_at!r})"


@frozen(kw_only=True)
class ShareRecord:
    """A share link of an album.

    Attributes:
        id: Identifier, which the image URLs of the share contain.
        url: The link, which is returned only once; null except of a new share.
        has_password: Whether its page requires a password.
        created_at: When it was created.
        expires_at: When it expires; null = never.
    """

    id: str
    url: str | None = field(repr=False)
    has_password: bool
    created_at: datetime
    expires_at: datetime | None


def share_record(request: ApiRequest, share: AlbumShare) -> ShareRecord:
    """Return the record of a share; of a new one, with its link."""
    url = f"{request.settings.site_url}/s/{share.token}" if share.token else None
    return record_of(ShareRecord, share, url=url)


@frozen(kw_only=True)
class ShareList:
    """A page of an album's shares.

    Attributes:
        shares: The shares of the page.
        pagination: The position of the page.
    """

    shares: list[ShareRecord]
    pagination: Pagination


@frozen(kw_only=True)
class AlbumList:
    """A page of an account's albums.

    Attributes:
        albums: The albums of the page.
        pagination: The position of the page.
    """

    albums: list[AlbumRecord]
    pagination: Pagination


ChangeMembers = Callable[..., Membership]


@frozen(kw_only=True)
class MembershipResult:
    """The result of one image of a membership request.

    Attributes:
        image_id: The id of the image, as in the request.
        status: The result.
        made_private: True if the image has become private, as it has left a private album; else left out.
    """

    image_id: str
    status: MemberStatus
    made_private: bool | UnsetType = UNSET


@frozen(kw_only=True)
class MembershipResults:
    """The results of a membership request, in its order, and the album after it.

    Attributes:
        results: The result of each image, in the order of the request.
        made_private_count: How many images have become private, as they have left a private album.
        album: The album after the change.
    """

    results: list[MembershipResult]
    made_private_count: int
    album: AlbumRecord


@operation("POST /v1/albums", Scope.ALBUMS_WRITE, summary="Create an album.", status=201, idempotent=True)
async def create_album(request: ApiRequest, data: JSONBody[NewAlbum]) -> Response[Success[AlbumRecord]]:
    """Respond with 201, the record, and the album's URL in `Location`."""
    host = request.host

    async def create(idempotent: IdempotentRequest | None) -> RawResponse:
        album = await request.call(
            host.albums.create,
            name=data.name,
            description=data.description,
            is_public=data.is_public,
            idempotency=None if idempotent is None else idempotent.sub_operation(0),
        )
        return success_response(AlbumRecord.of(album), 201)

    response = await run_idempotent(request, fingerprint("albums", data), create)
    # From the body, since a replayed response is stored without headers.
    album_id = json.decode(response.body)["data"]["id"]
    location = f"{host.urls.base_url}/albums/{album_id}"
    return envelope(evolve(response, headers=(*response.headers, ("location", location))))


@operation("GET /v1/albums", Scope.ALBUMS_READ, summary="List your albums, newest first.")
async def list_albums(
    request: ApiRequest, page: Page = None, per_page: PerPage = None, cursor: Cursor = None
) -> Response[Success[AlbumList]]:
    """Respond with a page of the caller's albums."""
    albums = await request.call(request.host.albums.list, page=page, per_page=per_page, cursor=cursor)
    return ok(AlbumList(albums=list(map(AlbumRecord.of, albums)), pagination=pagination(albums)))


@operation("GET /v1/albums/{album_id}", Scope.ALBUMS_READ, summary="Get an album.")
async def get_album(request: ApiRequest, album_id: AlbumIdPath) -> Response[Success[AlbumRecord]]:
    """Respond with the record."""
    album = await request.call(request.host.albums.get, album_id)
    return ok(AlbumRecord.of(album))


@operation(
    "PATCH /v1/albums/{album_id}",
    Scope.ALBUMS_WRITE,
    summary="Update an album's name, description or visibility; omitted members keep their values.",
)
async def update_album(
    request: ApiRequest, album_id: AlbumIdPath, data: JSONBody[AlbumChanges]
) -> Response[Success[AlbumRecord]]:
    """Respond with the updated record."""
    executors = request.executors
    executor = executors.database if data.images_public is UNSET else executors.slow_writes
    changes: dict[str, Any] = set_fields(data)
    album = await executor.run(request.host.albums.update, album_id, owner=request.account, **changes)
    return ok(AlbumRecord.of(album))


@operation(
    "DELETE /v1/albums/{album_id}", Scope.ALBUMS_WRITE, summary="Delete an album, and its images on request."
)
async def delete_album(
    request: ApiRequest,
    album_id: AlbumIdPath,
    delete_images: DeleteImages = None,
    images_public: ImagesPublic = None,
) -> Response[Success[DeletedAlbum]]:
    """Respond with the id of the deleted album."""
    errors = ErrorCollector()
    with errors.catch():
        with_images = _parse_boolean("delete_images", delete_images)
    with errors.catch():
        keeps_public = _parse_boolean("images_public", images_public)
    errors.raise_if_any()
    owner: Account = request.account
    if with_images:
        owner = authorize(request.auth, Scope.ALBUMS_WRITE, Scope.IMAGES_DELETE)
    delete = request.host.albums.delete
    deleted = await request.executors.slow_writes.run(
        delete, album_id, owner=owner, delete_images=with_images, images_public=keeps_public
    )
    return ok(deleted)


@operation("PUT /v1/albums/{album_id}/images", Scope.ALBUMS_WRITE, summary="Add images to an album.")
async def add_images(
    request: ApiRequest, album_id: AlbumIdPath, data: JSONBody[AlbumMembers]
) -> Response[Success[MembershipResults]]:
    """Respond with the result of each image, and the album."""
    return await _change_members(request, request.host.albums.add_images, album_id, data)


@operation(
    "DELETE /v1/albums/{album_id}/images",
    Scope.ALBUMS_WRITE,
    summary="Remove images from an album, without deleting them.",
)
async def remove_images(
    request: ApiRequest, album_id: AlbumIdPath, data: JSONBody[AlbumMembers]
) -> Response[Success[MembershipResults]]:
    """Respond with the result of each image, and the album."""
    return await _change_members(request, request.host.albums.remove_images, album_id, data)


@operation(
    "POST /v1/albums/{album_id}/shares",
    Scope.ALBUMS_WRITE,
    summary="Create a share link of an album; also requires the scope `images:read`.",
    status=201,
)
async def create_share(
    request: ApiRequest, album_id: AlbumIdPath, data: JSONBody[NewShare]
) -> Response[Success[ShareRecord]]:
    """Respond with 201 and the record with the link, which shows the album's images, also private ones."""
    return ok(await new_share(request, album_id, set_fields(data)), 201)


@operation(
    "GET /v1/albums/{album_id}/shares",
    Scope.ALBUMS_READ,
    summary="List an album's share links, newest first; also requires the scope `images:read`.",
)
async def list_shares(
    request: ApiRequest,
    album_id: AlbumIdPath,
    page: Page = None,
    per_page: PerPage = None,
    cursor: Cursor = None,
) -> Response[Success[ShareList]]:
    """Respond with a page of the shares that have not expired, without their links."""
    owner = authorize(request.auth, Scope.ALBUMS_READ, Scope.IMAGES_READ)
    shares = await request.executors.database.run(
        request.host.albums.list_shares, album_id, owner=owner, page=page, per_page=per_page, cursor=cursor
    )
    records = [share_record(request, share) for share in shares]
    return ok(ShareList(shares=records, pagination=pagination(shares)))


@operation(
    "DELETE /v1/albums/{album_id}/shares/{share_id}", Scope.ALBUMS_WRITE, summary="Revoke a share link."
)
async def delete_share(
    request: ApiRequest, album_id: AlbumIdPath, share_id: ShareIdPath
) -> Response[Success[Deleted]]:
    """Revoke a share link at once, on every host: its page and its image URLs are not found any more."""
    return ok(await request.call(request.host.albums.delete_share, album_id, share_id))


async def new_share(request: ApiRequest, album_id: str, members: Mapping[str, Any]) -> ShareRecord:
    """Create a share of an album of the account, and return its record with the link.

    Args:
        request: The request.
        album_id: The album's id as received.
        members: `expires_at` and `password`, both optional.

    Raises:
        NotFoundError: There is no such album; the error also names what is wrong with the values.
        ValidationError: A value is not allowed.
    """
    albums, executors, errors = request.host.albums, request.executors, ErrorCollector()
    # Who may not read private images must not get them by a link either.
    owner = authorize(request.auth, Scope.ALBUMS_WRITE, Scope.IMAGES_READ)
    with errors.catch():
        await executors.database.run(albums.get, album_id, owner=owner)
    expires_at: Any = parse_key_members(members).get("expires_at")
    password: str | None = members.get("password")
    wrong_password = () if password is None else new_password_errors(password)
    if wrong := (*expiry_errors(expires_at, request.host.now()), *wrong_password):
        errors.add(ValidationError(errors=wrong))
    errors.raise_if_any()
    password_hash = None
    if password is not None:
        keys = (account_key(owner.id), "")
        password_hash = await executors.passwords.run(Standing.KNOWN, keys, hash_password, password)
    share = await executors.database.run(
        albums.create_share, album_id, owner=owner, expires_at=expires_at, password_hash=password_hash
    )
    return share_record(request, share)


async def _change_members(
    request: ApiRequest, change: ChangeMembers, album_id: str, members: AlbumMembers
) -> Response[Success[MembershipResults]]:
    changed = await request.call(change, album_id, members.image_ids, images_public=members.images_public)
    records = [
        MembershipResult(
            image_id=result.image_id,
            status=MemberStatus(result.status),
            made_private=result.made_private or UNSET,
        )
        for result in changed.results
    ]
    album = AlbumRecord.of(changed.album)
    return ok(record_of(MembershipResults, changed, results=records, album=album))


def _parse_boolean(name: str, text: str | None) -> bool:
    """Return the value of a boolean query parameter; absent is false.

    Raises:
        BadRequestError: The text is none of true, false, 1 and 0.
    """
    if text is not None and text.lower() not in BOOLEANS:
        raise BadRequestError(errors=[FieldError(name, f"one of {', '.join(BOOLEANS)}", quote_value(text))])
    return text is not None and BOOLEANS[text.lower()]
