"""API keys: made, changed and revoked by a signed-in user."""

from __future__ import annotations

from litestar import Response
from litestar.params import FromPath

from imagehost_server.api.operation import PAGING, operation
from imagehost_server.api.pagination import Pagination, page_response
from imagehost_server.api.representations import Deleted, KeyRecord, NewKeyRecord, key_record, new_key_record
from imagehost_server.api.request import ApiRequest, ok
from imagehost_server.api.schemas import KeyChanges, NewKey, parse_timestamp, set_fields


@operation(
    "GET /v1/keys",
    summary="List your keys, newest first.",
    query=PAGING,
    response={"keys": list[KeyRecord], "pagination": Pagination},
)
async def list_keys(request: ApiRequest) -> Response[bytes]:
    """Answer a page of the caller's keys, revoked ones too."""
    found = await request.executors.database.run(
        request.host.keys.list, owner=request.account, page=request.page_request()
    )
    return ok(page_response("keys", found, key_record))


@operation("POST /v1/keys", summary="Make a key.", body=NewKey, response=NewKeyRecord, status=201)
async def create_key(request: ApiRequest) -> Response[bytes]:
    """Answer 201 with the record and, this once, the token."""
    wanted = await request.json_body(NewKey)
    members = set_fields(wanted)
    if "expires_at" in members:
        members["expires_at"] = parse_timestamp("expires_at", wanted.expires_at)
    made = await request.executors.database.run(request.host.keys.create, owner=request.account, **members)  # type: ignore[arg-type]
    location = f"{request.host.urls.base_url}/keys/{made.key.id}"
    return ok(new_key_record(made), 201, (("location", location),))


@operation("GET /v1/keys/{key_id}", summary="Show a key.", response=KeyRecord)
async def get_key(request: ApiRequest, key_id: FromPath[str]) -> Response[bytes]:
    """Answer the record, without the token."""
    found = await request.executors.database.run(request.host.keys.get, key_id, owner=request.account)
    return ok(key_record(found))


@operation(
    "PATCH /v1/keys/{key_id}",
    summary="Rename a key, change its scopes, or move its end.",
    body=KeyChanges,
    response=KeyRecord,
    errors=(409,),
)
async def update_key(request: ApiRequest, key_id: FromPath[str]) -> Response[bytes]:
    """Answer the record as it is now."""
    changes = await request.json_body(KeyChanges)
    members = set_fields(changes)
    if "expires_at" in members:
        members["expires_at"] = parse_timestamp("expires_at", changes.expires_at)
    changed = await request.executors.database.run(
        request.host.keys.update, key_id, owner=request.account, **members
    )
    return ok(key_record(changed))


@operation("DELETE /v1/keys/{key_id}", summary="Revoke a key, for good.", response=Deleted)
async def revoke_key(request: ApiRequest, key_id: FromPath[str]) -> Response[bytes]:
    """Stop a key at once, in every process. Its record stays, with `revoked_at`."""
    await request.executors.database.run(request.host.keys.revoke, key_id, owner=request.account)
    return ok(Deleted(id=key_id))


ROUTES = (list_keys, create_key, get_key, update_key, revoke_key)
