"""A parsed request, as the routes of the in-memory host receive it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sized

from attrs import field, frozen

from imagehost_client.errors import ForbiddenError, ValidationError
from imagehost_client.models import EventKind, Role
from imagehost_client.testing import _forms
from imagehost_client.testing._errors import ErrorCollector
from imagehost_client.testing._lsky import FIELD_ALIASES
from imagehost_client.testing._members import Parser, read_json, read_members
from imagehost_client.testing._state import HostState
from imagehost_client.testing._store import Record, Row, Table, TokenGrant, now

OPERATOR = "operator"
"""The requirement of an operator's session."""


@frozen(kw_only=True)
class FakeRequest:
    """A parsed request.

    Attributes:
        grant: The permissions of the caller's token.
        path: The path below the base URL.
        ids: The ids in the path.
        errors: The errors found so far, which are reported together.
        user_agent: The `User-Agent` header.
        windows: The rate limit windows in which the request was counted.
        is_lsky: Whether the request was sent to `/api/v1`, the alias for programs made for Lsky Pro.
    """

    host: HostState
    grant: TokenGrant
    path: str
    ids: tuple[str, ...]
    query: Mapping[str, str]
    content_type: str
    body: bytes
    errors: ErrorCollector = field(factory=ErrorCollector)
    user_agent: str = ""
    windows: list[Record] = field(factory=list)
    is_lsky: bool = False

    def json(self) -> Record:
        """Return the body as an object."""
        return read_json(self.content_type, self.body)

    def members(self, parsers: Mapping[str, Parser], *, required: Collection[str] = ()) -> Record:
        """Return the members of the body that have a parser; errors are collected."""
        body = self.errors.attempt(self.json)
        return {} if body is None else read_members(body, parsers, self.errors, required=required)

    def created(self, parsers: Mapping[str, Parser], *, required: Collection[str] = ()) -> Record:
        """Return the members of the body, after raising all collected errors."""
        members = self.members(parsers, required=required)
        self.errors.raise_all()
        return members

    def changed(
        self, name: str, parsers: Mapping[str, Parser], *, required: Collection[str] = ()
    ) -> tuple[Row, Record]:
        """Return the caller's record that the path names, and the members of the body.

        Raises:
            ImageHostError: The record does not exist, or the body is invalid: all errors together.
        """
        row = self.errors.attempt(self.row, name)
        changes = self.members(parsers, required=required)
        self.errors.raise_all()
        assert row is not None
        return row, changes

    def upload_form(self, errors: ErrorCollector) -> _forms.UploadForm:
        """Return the body as the form of an upload; errors are collected."""
        aliases = FIELD_ALIASES if self.is_lsky else {}
        return _forms.read_upload(self.content_type, self.body, errors, aliases)

    def idempotency_fingerprint(self) -> object:
        """Return what must be equal in every request under one idempotency key: path and content.

        Form data is compared parsed, because most programs draw a new boundary for each attempt.
        """
        if self.path != "/upload":
            return self.path, self.json()
        form = self.upload_form(ErrorCollector())
        return self.path, form.many, form.fields, form.files

    def count_ids(self, ids: Sized) -> None:
        """Count the image ids of a bulk request.

        Raises:
            RateLimitError: There are more than the caller may send in this minute.
        """
        window = self.host.count_bulk(self.grant.account, len(ids))
        self.windows.extend(() if window is None else (window,))

    def table(self, name: str) -> Table:
        """Return the records of one kind."""
        return self.host.tables[name]

    def row(self, name: str, index: int = 0) -> Row:
        """Return the caller's record of one kind whose id is the path's id number `index`."""
        return self.table(name).get(self.grant.account, self.ids[index])

    def owned_row(self, name: str, record_id: str) -> Row | None:
        """Return the caller's record of one kind with an id, or `None`."""
        row = self.table(name).rows.get(record_id)
        return row if row is not None and row.owner == self.grant.account else None

    def parse_album_id(self, name: str, value: object) -> int | None:
        """Return the id of the caller's album that a member or field has: an integer or its decimal text.

        Raises:
            ValidationError: The caller has no such album.
        """
        if value is None:
            return None
        row = self.owned_row("albums", str(value))
        if row is None:
            raise ValidationError(f"expected the id of one of your albums for {name} but received {value!r}")
        return int(row.record["id"])


def with_count(request: FakeRequest, record: Record) -> Record:
    """Return an album's record with its image count and its cover."""
    images = request.table("images").rows.values()
    members = [row.record for row in images if row.record["album_id"] == record["id"]]
    cover = members[-1] if members else {"id": None, "thumb_url": None}
    return {
        **record,
        "image_count": len(members),
        "cover_image_id": cover["id"],
        "cover_url": cover["thumb_url"],
    }


def require_scope(host: HostState, grant: TokenGrant, scope: str | None) -> None:
    """Raise ForbiddenError unless a token has a scope.

    `None` requires the token of a session, and `OPERATOR` that of an operator's session.
    """
    if grant.scopes is not None and scope not in grant.scopes:
        raise ForbiddenError(f"expected the scope {scope or 'of a session'} but received a token without it")
    if scope == OPERATOR and host.account(grant.account)["role"] != Role.OPERATOR:
        raise ForbiddenError("expected an operator's session for this operation but received a user's")


def touch_albums(request: FakeRequest, albums: Iterable[int] | None) -> None:
    """Update the timestamp of albums of the caller, and emit an event for each."""
    for album_id in dict.fromkeys(albums or ()):
        touch(request, request.table("albums").get(request.grant.account, str(album_id)).record)


def touch(request: FakeRequest, record: Record) -> Record:
    """Update an album's timestamp, emit its event, and return its record with counts."""
    record["updated_at"] = now()
    album = with_count(request, record)
    request.host.emit(EventKind.ALBUM_UPDATED, album, request.grant.account)
    return album


Route = Callable[[FakeRequest], object]
"""A function that handles a request and returns the `data` of the response's envelope."""
