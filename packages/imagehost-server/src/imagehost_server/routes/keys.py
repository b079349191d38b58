"""API key routes: list, create, get, update and revoke; all require a session."""

from __future__ import annotations

from litestar import Response
from litestar.params import JSONBody

from imagehost_core.lists import parse_page_request
from imagehost_server.api.body import set_fields
from imagehost_server.api.envelope import Success, ok
from imagehost_server.api.operation import operation
from imagehost_server.api.pagination import KeyList, pagination
from imagehost_server.api.parameters import Cursor, KeyIdPath, Page, PerPage
from imagehost_server.api.representations import Deleted, KeyRecord, NewKeyRecord, key_record, new_key_record
from imagehost_server.api.request import ApiRequest
from imagehost_server.api.schemas import KeyChanges, NewKey, parse_key_members


@operation("GET /v1/keys", summary="List your API keys, newest first.")
async def list_keys(
    request: ApiRequest, page: Page = None, per_page: PerPage = None, cursor: Cursor = None
) -> Response[Success[KeyList]]:
    """Respond with a page of the caller's keys, including revoked ones."""
    keys = await request.executors.database.run(
        request.host.keys.list, owner=request.account, page=parse_page_request(page, per_page, cursor)
    )
    return ok(KeyList(keys=list(map(key_record, keys)), pagination=pagination(keys)))


@operation("POST /v1/keys", summary="Create an API key.", status=201)
async def create_key(request: ApiRequest, data: JSONBody[NewKey]) -> Response[Success[NewKeyRecord]]:
    """Respond with 201, the record and the token, which is returned only here."""
    fields = parse_key_members(set_fields(data))
    created = await request.executors.database.run(
        request.host.keys.create,
        owner=request.account,
        **fields,  # type: ignore[arg-type]
    )
    location = f"{request.host.urls.base_url}/keys/{created.key.id}"
    return ok(new_key_record(created), 201, (("location", location),))


@operation("GET /v1/keys/{key_id}", summary="Get an API key.")
async def get_key(request: ApiRequest, key_id: KeyIdPath) -> Response[Success[KeyRecord]]:
    """Respond with the record, without the token."""
    key = await request.executors.database.run(request.host.keys.get, key_id, owner=request.account)
    return ok(key_record(key))


@operation(
    "PATCH /v1/keys/{key_id}",
    summary="Update an API key's name, scopes or expiry; omitted members keep their values.",
    errors=(409,),
)
async def update_key(
    request: ApiRequest, key_id: KeyIdPath, data: JSONBody[KeyChanges]
) -> Response[Success[KeyRecord]]:
    """Respond with the updated record."""
    changes = parse_key_members(set_fields(data))
    key = await request.executors.database.run(
        request.host.keys.update, key_id, owner=request.account, **changes
    )
    return ok(key_record(key))


@operation("DELETE /v1/keys/{key_id}", summary="Revoke an API key permanently.")
async def revoke_key(request: ApiRequest, key_id: KeyIdPath) -> Response[Success[Deleted]]:
    """Revoke a key at once, in every process. Its record remains, with `revoked_at`."""
    await request.executors.database.run(request.host.keys.revoke, key_id, owner=request.account)
    return ok(Deleted(id=key_id, deleted=True))


ROUTES = (list_keys, create_key, get_key, update_key, revoke_key)
