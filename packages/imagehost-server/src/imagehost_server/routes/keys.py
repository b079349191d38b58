"""API key routes: list, create, get, update and revoke; all require a session."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Annotated

from attrs import field, frozen
from litestar import Response
from litestar.params import JSONBody, PathParameter
from msgspec import UNSET, UnsetType

from imagehost_core.authorization import SessionRequirement
from imagehost_core.errors import ValidationError
from imagehost_core.models import (
    ApiKey,
    ApiKeyWithToken,
    Deleted,
    Scope,
)
from imagehost_core.services.keys import MAX_KEY_NAME
from imagehost_server.http.body import parse_timestamp
from imagehost_server.http.responses import Success, ok, record_of
from imagehost_server.routes.body import JsonBody, member, set_fields
from imagehost_server.routes.handler import ApiRequest, operation
from imagehost_server.routes.lists import Cursor, Page, Pagination, PerPage, pagination

KeyIdPath = Annotated[str, PathParameter(description="The API key's id.")]

KeyName = Annotated[str, member("A name for people.", maxLength=MAX_KEY_NAME)]

Scopes = Annotated[
    list[str],
    member("What the key may do.", items={"type": "string", "enum": [scope.value for scope in Scope]}),
]

ExpiresAt = Annotated[
    str | UnsetType | None,
    member("When the key expires, in RFC 3339 with a time zone; null = never.", format="date-time"),
]


class NewKey(JsonBody, kw_only=True):
    """The body of `POST /keys`; without `scopes` the key has all."""

    name: KeyName | UnsetType = UNSET
    scopes: Scopes | UnsetType = UNSET
    expires_at: ExpiresAt = UNSET


class KeyChanges(NewKey, kw_only=True):
    """The body of `PATCH /keys/{id}`; omitted members keep their values."""


def parse_key_members(members: Mapping[str, object]) -> dict[str, object]:
    """Return the members of a key with `expires_at` as a datetime.

    Text that is no timestamp is left for the core, which rejects it together with the other members.
    """
    parsed = dict(members)
    expires_at = members.get("expires_at")
    if isinstance(expires_at, str):
        with suppress(ValidationError):
            parsed["expires_at"] = parse_timestamp("expires_at", expires_at)
    return parsed


@frozen(kw_only=True)
class KeyRecord:
    """An API key, without its token.

    Attributes:
        id: Identifier.
        name: Up to 100 characters.
        prefix: The first characters of the token.
        scopes: What the key may do.
        expires_at: When it expires; null = never.
        last_used_at: When the token was last used, to the minute.
        created_at: When it was created.
        revoked_at: When the key was revoked; null while it is valid.
    """

    id: str
    name: str
    prefix: str
    scopes: tuple[str, ...]
    expires_at: datetime | None
    last_used_at: datetime | None
    created_at: datetime
    revoked_at: datetime | None


@frozen(kw_only=True)
class CreatedKeyRecord(KeyRecord):
    """A new API key, with its token, which is returned only once.

    Attributes:
        token: The secret token. Returned only here.
    """

    token: str = field(repr=False)


def key_record(key: ApiKey) -> KeyRecord:
    """Return the record of an API key."""
    return record_of(KeyRecord, key)


def new_key_record(created: ApiKeyWithToken) -> CreatedKeyRecord:
    """Return the record of a new API key, with its token."""
    return record_of(CreatedKeyRecord, created)


@frozen(kw_only=True)
class KeyList:
    """A page of an account's API keys.

    Attributes:
        keys: The API keys of the page.
        pagination: The position of the page.
    """

    keys: list[KeyRecord]
    pagination: Pagination


@operation("GET /v1/keys", SessionRequirement.ONLY, summary="List your API keys, newest first.")
async def list_keys(
    request: ApiRequest, page: Page = None, per_page: PerPage = None, cursor: Cursor = None
) -> Response[Success[KeyList]]:
    """Respond with a page of the caller's keys, including revoked ones."""
    keys = await request.call(request.host.keys.list, page=page, per_page=per_page, cursor=cursor)
    return ok(KeyList(keys=list(map(key_record, keys)), pagination=pagination(keys)))


@operation("POST /v1/keys", SessionRequirement.ONLY, summary="Create an API key.", status=201)
async def create_key(request: ApiRequest, data: JSONBody[NewKey]) -> Response[Success[CreatedKeyRecord]]:
    """Respond with 201, the record and the token, which is returned only here."""
    fields = parse_key_members(set_fields(data))
    created = await request.call(request.host.keys.create, **fields)
    location = f"{request.host.urls.base_url}/keys/{created.id}"
    return ok(new_key_record(created), 201, (("location", location),))


@operation("GET /v1/keys/{key_id}", SessionRequirement.ONLY, summary="Get an API key.")
async def get_key(request: ApiRequest, key_id: KeyIdPath) -> Response[Success[KeyRecord]]:
    """Respond with the record, without the token."""
    key = await request.call(request.host.keys.get, key_id)
    return ok(key_record(key))


@operation(
    "PATCH /v1/keys/{key_id}",
    SessionRequirement.ONLY,
    summary="Update an API key's name, scopes or expiry; omitted members keep their values.",
    errors=(409,),
)
async def update_key(
    request: ApiRequest, key_id: KeyIdPath, data: JSONBody[KeyChanges]
) -> Response[Success[KeyRecord]]:
    """Respond with the updated record."""
    changes = parse_key_members(set_fields(data))
    key = await request.call(request.host.keys.update, key_id, **changes)
    return ok(key_record(key))


@operation("DELETE /v1/keys/{key_id}", SessionRequirement.ONLY, summary="Revoke an API key permanently.")
async def revoke_key(request: ApiRequest, key_id: KeyIdPath) -> Response[Success[Deleted]]:
    """Revoke a key at once, in every process. Its record remains, with `revoked_at`."""
    return ok(await request.call(request.host.keys.delete, key_id))
