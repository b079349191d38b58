"""Names that are accepted in place of those of members, for every class of bodies that has some."""

from __future__ import annotations

import msgspec
import pytest

from imagehost_core.errors import ValidationError
from imagehost_server.routes import accounts
from imagehost_server.routes.body import JsonBody, decode

KINDS = [kind for kind in vars(accounts).values() if isinstance(kind, type) and issubclass(kind, JsonBody)]
ALIASES = [(kind, alias, name) for kind in KINDS for alias, name in kind.aliases.items()]


@pytest.mark.parametrize(("kind", "alias", "name"), ALIASES)
def test_an_alias_beside_its_member_must_have_the_same_value(
    kind: type[JsonBody], alias: str, name: str
) -> None:
    required = {info.encode_name: "text" for info in msgspec.structs.fields(kind) if info.required}
    same = decode(kind, msgspec.json.encode({**required, alias: "text", name: "text"}))
    assert isinstance(same, kind)
    with pytest.raises(ValidationError) as differing:
        decode(kind, msgspec.json.encode({**required, alias: "b", name: "text"}))
    assert [error.name for error in differing.value.errors] == [alias]
