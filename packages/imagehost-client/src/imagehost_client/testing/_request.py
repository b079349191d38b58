"""A request as the double's routes see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from attrs import frozen

from imagehost_client.errors import ValidationError
from imagehost_client.testing import _forms
from imagehost_client.testing._store import Record, Row, Table, TokenGrant

if TYPE_CHECKING:
    from imagehost_client.testing._fake import FakeImageHost


@frozen(kw_only=True)
class FakeRequest:
    """A request as the routes see it.

    Attributes:
        grant: Who asks.
        path: Below the base address.
        ids: What the path names.
    """

    host: FakeImageHost
    grant: TokenGrant
    path: str
    ids: tuple[str, ...]
    query: Mapping[str, str]
    content_type: str
    body: bytes

    def json(self) -> Record:
        """Return the body as an object."""
        return _forms.read_json(self.content_type, self.body)

    def idempotency_fingerprint(self) -> object:
        """Return what tells this request from others under the same idempotency key: what it says.

        The same upload has another boundary with each try of most programs.
        """
        if self.path != "/upload":
            return self.path, self.json()
        form = _forms.read_upload(self.content_type, self.body)
        return self.path, form.many, form.fields, form.files

    def table(self, name: str) -> Table:
        """Return the records of one kind."""
        return self.host.tables[name]

    def row(self, name: str, place: int = 0) -> Row:
        """Return the record that the path names."""
        return self.table(name).get(self.grant.account, self.ids[place])

    def album_id(self, value: object) -> int | None:
        """Return the album that a value names (contract 3: an integer or its decimal text).

        Raises:
            ValidationError: There is no such album of the caller's.
        """
        if value is None:
            return None
        row = self.table("albums").rows.get(str(value))
        if row is None or row.owner != self.grant.account:
            raise ValidationError(f"expected the id of an album of yours for album_id but received {value!r}")
        return int(row.record["id"])


Route = Callable[[FakeRequest], object]
"""What answers a request: the `data` of the envelope."""
