"""Decoding of JSON bodies with all errors collected.

A body that matches its class is decoded once, by msgspec, which stops at the first error of others. These
are decoded again, member by member, so that every error of a type is reported. The values, and what they and
the path name, are for the core, which is called with bodies that match.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin

import msgspec
from attrs import evolve
from litestar.dto import AbstractDTO
from msgspec import Meta, Struct, UnsetType
from msgspec.structs import FieldInfo, fields

from imagehost_core.errors import BadRequestError, FieldError, ValidationError, misspelled_names, quote_value
from imagehost_core.uploads import MAX_DESCRIPTION

if TYPE_CHECKING:
    from litestar._openapi.schema_generation import SchemaCreator
    from litestar.openapi.spec import Reference, Schema
    from litestar.typing import FieldDefinition


SECRETS = frozenset({"password", "current_password", "new_password"})
"""Members whose values never appear in messages, not even if they have a wrong type."""

MAX_QUOTED = 60
"""Longest quotation of a received value in a message, in characters."""


class JsonBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Base class of JSON bodies. Only JSON types, names and required members are checked by the classes.

    A body with an unknown member is decoded member by member, which ignores it unless it is misspelled.

    Attributes:
        aliases: Names that are accepted in place of those of members.
    """

    aliases: ClassVar[Mapping[str, str]] = {}


T = TypeVar("T", bound=JsonBody)


def decode(kind: type[T], body: bytes) -> T:
    """Return a JSON body as a value of `kind`.

    Unknown members are ignored, unless they differ from known ones only by case, `_` or `-`. Types are not
    converted, except 0 and 1 to booleans: `"1"` is not a number.

    Args:
        kind: The class.
        body: The received bytes.

    Raises:
        BadRequestError: It is not JSON.
        ValidationError: Members are missing, misspelled or of another type; every one is listed in `errors`.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_by_member(kind, body)


def _decode_by_member(kind: type[T], body: bytes) -> T:
    try:
        tree = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(_describe_syntax(body, error)) from error
    if not isinstance(tree, dict):
        raise ValidationError.of("the body", "an object", _quote(tree))
    differing: list[FieldError] = []
    for alias, name in kind.aliases.items():
        if alias in tree and tree.setdefault(name, value := tree.pop(alias)) != value:
            differing.append(FieldError(alias, f"the same value as {name}", "another"))
    members, errors = _check_members(kind, tree, "")
    errors += differing
    if errors:
        raise ValidationError(errors=errors)
    return msgspec.convert(members, kind)


def _check_members(
    kind: type[Struct], tree: dict[object, object], prefix: str
) -> tuple[dict[str, object], list[FieldError]]:
    """Return the members of an object in the types of its class, and their errors."""
    infos = {info.encode_name: info for info in fields(kind)}
    members: dict[str, object] = {}
    errors = [evolve(error, name=prefix + error.name) for error in misspelled_names(tree, infos)]
    for name, info in infos.items():
        if name in tree:
            members[name], found = _check_member(info, tree[name], prefix + name)
            errors += found
        elif info.required:
            errors.append(FieldError(prefix + name, _expected(info), "nothing"))
    return members, errors


def _check_member(info: FieldInfo, value: object, name: str) -> tuple[object, list[FieldError]]:
    """Return a member's value in the type of its class, and its errors."""
    item = _struct_item(info.type)
    nested = _struct(info.type)
    if nested is not None:
        return _check_object(nested, value, name, f"{name}.")
    if item is not None and isinstance(value, list):
        objects = [
            _check_object(item, each, f"{name}[{index}]", f"{name}[{index}].")
            for index, each in enumerate(value)
        ]
        return [each for each, _ in objects], [error for _, errors in objects for error in errors]
    if _plain_types(info.type) == {bool} and type(value) is int and value in (0, 1):
        return bool(value), []
    try:
        return msgspec.convert(value, info.type), []
    except msgspec.ValidationError:
        received = "another type" if info.encode_name in SECRETS else _quote(value)
        return value, [FieldError(name, _expected(info), received)]


def _check_object(
    kind: type[Struct], value: object, name: str, prefix: str
) -> tuple[object, list[FieldError]]:
    if isinstance(value, dict):
        return _check_members(kind, value, prefix)
    return value, [FieldError(name, "an object", _quote(value))]


def _describe_syntax(body: bytes, error: Exception) -> str:
    """Return the details of the error for a body that is not JSON; msgspec does not name lone surrogates."""
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError as surrogate:
        received = f"the escape \\u{ord(surrogate.object[surrogate.start]):04x}"
        return f"expected text without lone surrogates for the body but received {received}"
    except (ValueError, RecursionError):
        pass
    return f"expected JSON for the body but received something else: {error}"


def set_fields(value: Struct) -> dict[str, object]:
    """Return the members that a body contained, by name."""
    members = {info.name: getattr(value, info.name) for info in fields(value)}
    return {name: member for name, member in members.items() if member is not msgspec.UNSET}


class BodyDTO(AbstractDTO[Any]):
    """Litestar's decoder of JSON bodies: passes a value of the handler's annotation, or raises its errors."""

    def decode_bytes(self, value: bytes) -> Any:
        """Decode a body."""
        handler = self.asgi_connection.scope["route_handler"]
        return decode(handler.parsed_data_field.annotation, value)  # type: ignore[union-attr]

    @classmethod
    def create_for_field_definition(cls, *_arguments: Any, **_options: Any) -> None:
        """Do nothing: msgspec needs no model besides the annotation."""

    @classmethod
    def create_openapi_schema(
        cls, field_definition: FieldDefinition, handler_id: str, schema_creator: SchemaCreator
    ) -> Reference | Schema:
        """Return the schema of the handler's annotation."""
        del handler_id
        return schema_creator.for_field_definition(field_definition)

    @classmethod
    def is_supported_model_type_field(cls, field_definition: FieldDefinition) -> bool:
        """Return whether the annotation of a handler's `data` is a class of bodies."""
        return field_definition.is_subclass_of(Struct)

    @classmethod
    def generate_field_definitions(cls, model_type: type[Any]) -> Generator[Any, None, None]:
        """Yield nothing: there is no model besides the annotation."""
        del model_type
        yield from ()

    @classmethod
    def detect_nested_field(cls, field_definition: FieldDefinition) -> bool:
        """Return false: there is no model besides the annotation."""
        del field_definition
        return False


def _plain_types(annotation: object) -> frozenset[object]:
    """Return the types of a union, without `Annotated` and `UnsetType`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _plain_types(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return frozenset().union(*map(_plain_types, get_args(annotation))) - {UnsetType}
    return frozenset({annotation})


def _struct(annotation: object) -> type[Struct] | None:
    """Return the class of a member that is an object."""
    kinds = (kind for kind in _plain_types(annotation) if isinstance(kind, type))
    return next((kind for kind in kinds if issubclass(kind, Struct)), None)


def _struct_item(annotation: object) -> type[Struct] | None:
    """Return the class of a list's items, if they are objects."""
    for kind in _plain_types(annotation):
        if get_origin(kind) is list:
            return _struct(get_args(kind)[0])
    return None


def _expected(info: FieldInfo) -> str:
    if _struct_item(info.type) is not None:
        return "a list of objects"
    return _EXPECTED[_plain_types(info.type)]


def _quote(value: object) -> str:
    if isinstance(value, str):
        return quote_value(value)
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_QUOTED else f"{text[: MAX_QUOTED - 1]}…"


_EXPECTED: dict[frozenset[object], str] = {
    frozenset({str}): "text",
    frozenset({bool}): "true, false, 0 or 1",
    frozenset({int}): "an integer",
    frozenset({int, NoneType}): "an integer or null",
    frozenset({list[str]}): "a list of text",
    frozenset({int, str, NoneType}): "a positive integer or null",
    frozenset({str, NoneType}): "a time of RFC 3339 or null",
}
"""The description of each type in messages."""


def member(description: str, **schema: object) -> Meta:
    """Return the description and the JSON schema of a member, which do not affect its decoding."""
    return Meta(description=description, extra_json_schema={"extra": schema} if schema else None)


Description = Annotated[str, member(f"At most {MAX_DESCRIPTION:,} characters.", maxLength=MAX_DESCRIPTION)]

IsPublic = Annotated[bool, member("Whether it is shown in the public gallery. 0 and 1 are accepted too.")]

KEEPS_PUBLIC = (
    "Whether public images that leave a private album, for a public one or for none, stay public, so that "
    "the gallery lists them. By default they become private."
)
"""The description of `images_public` where images leave an album."""
