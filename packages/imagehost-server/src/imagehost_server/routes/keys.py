"""API key routes: list, create, get, update and revoke; all require a session."""

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
    summary="List your API keys, newest first.",
    query=PAGING,
    response={"keys": list[KeyRecord], "pagination": Pagination},
)
async def list_keys(request: ApiRequest) -> Response[bytes]:
    """Respond with a page of the caller's keys, including revoked ones."""
    page = await request.executors.database.run(
        request.host.keys.list, owner=request.account, page=request.page_request()
    )
    return ok(page_response("keys", page, key_record))


@operation("POST /v1/keys", summary="Create an API key.", body=NewKey, response=NewKeyRecord, status=201)
async def create_key(request: ApiRequest) -> Response[bytes]:
    """Respond with 201, the record and the token, which is returned only here."""
    fields = _fields(await request.json_body(NewKey))
    created = await request.executors.database.run(
        request.host.keys.create,
        owner=request.account,
        **fields,  # type: ignore[arg-type]
    )
    location = f"{request.host.urls.base_url}/keys/{created.key.id}"
    return ok(new_key_record(created), 201, (("location", location),))


@operation("GET /v1/keys/{key_id}", summary="Get an API key.", response=KeyRecord)
async def get_key(request: ApiRequest, key_id: FromPath[str]) -> Response[bytes]:
    """Respond with the record, without the token."""
    key = await request.executors.database.run(request.host.keys.get, key_id, owner=request.account)
    return ok(key_record(key))


@operation(
    "PATCH /v1/keys/{key_id}",
    summary="Update an API key's name, scopes or expiry; omitted members keep their values.",
    body=KeyChanges,
    response=KeyRecord,
    errors=(409,),
)
async def update_key(request: ApiRequest, key_id: FromPath[str]) -> Response[bytes]:
    """Respond with the updated record."""
    changes = _fields(await request.json_body(KeyChanges))
    key = await request.executors.database.run(
        request.host.keys.update, key_id, owner=request.account, **changes
    )
    return ok(key_record(key))


@operation("DELETE /v1/keys/{key_id}", summary="Revoke an API key permanently.", response=Deleted)
async def revoke_key(request: ApiRequest, key_id: FromPath[str]) -> Response[bytes]:
    """Revoke a key at once, in every process. Its record remains, with `revoked_at`."""
    await request.executors.database.run(request.host.keys.revoke, key_id, owner=request.account)
    return ok(Deleted(id=key_id))


def _fields(body: NewKey | KeyChanges) -> dict[str, object]:
    """Return the members that the body contained, with `expires_at` parsed."""
    fields = set_fields(body)
    if "expires_at" in fields:
        fields["expires_at"] = parse_timestamp("expires_at", body.expires_at)
    return fields


ROUTES = (list_keys, create_key, get_key, update_key, revoke_key)
