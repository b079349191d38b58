"""Rows of the database, and the records that they are: columns have the names of attributes.

Timestamps are stored in microseconds, booleans as 0 or 1, and enums by their values. What is stored
otherwise, such as a list in one column, is converted by its repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

import attrs
from cattrs import Converter

from imagehost_core._util.clock import from_micros, to_micros
from imagehost_core.db.engines.database import Queryable, SqlRow, SqlValue, Transaction
from imagehost_core.models import Image, UrlBuilder

T = TypeVar("T")


def _require_type(value: object, kind: type[T]) -> T:
    """Return a value of a type, where cattrs would convert another one."""
    if not isinstance(value, kind):
        raise TypeError(f"expected a value of the type {kind.__name__} but received {value!r}")
    return value


def _is_literal(kind: object) -> bool:
    return get_origin(kind) is Literal


def _require_name(value: Any, names: Any) -> Any:
    """Return the member of a literal type that a text names: that of an enumeration if there is one."""
    members = {str(member): member for member in get_args(names)}
    if value not in members:
        raise ValueError(f"expected one of {', '.join(members)} but received {value!r}")
    return members[value]


_converter = Converter(detailed_validation=False)
for _primitive in (str, int):
    _converter.register_structure_hook(_primitive, _require_type)
_converter.register_structure_hook_func(_is_literal, _require_name)
_converter.register_structure_hook(bool, lambda value, _: bool(value))
_converter.register_structure_hook(datetime, lambda value, _: from_micros(_require_type(value, int)))
for _part in (UrlBuilder, Image | None):  # of another row, or of none
    _converter.register_structure_hook(_part, lambda value, _: value)


def to_record(kind: type[T], row: Mapping[str, object]) -> T:
    """Return a row as a record; columns that are no attributes are ignored.

    Raises:
        TypeError, ValueError: A column has a value that no record was stored with.
    """
    return _converter.structure(row, kind)


def to_row(record: attrs.AttrsInstance) -> SqlRow:
    """Return the attributes of a record as values of columns."""
    return attrs.asdict(record, recurse=False, value_serializer=_to_sql)


def _to_sql(_record: object, _attribute: object, value: object) -> SqlValue:
    if isinstance(value, datetime):
        return to_micros(value)
    if isinstance(value, bool):
        return int(value)
    return value.value if isinstance(value, Enum) else cast("SqlValue", value)


def update_row(transaction: Transaction, table: str, row: SqlRow) -> None:
    """Update columns of the row with an id."""
    assignments = ", ".join(f"{name} = :{name}" for name in row if name != "id")
    # Table and column names are constants, never input.
    transaction.execute(f"UPDATE {table} SET {assignments} WHERE id = :id", row)  # noqa: S608


def read_column(queryable: Queryable, table: str, name: str, row_id: int | str) -> SqlValue:
    """Return the value of a column in the row with an id; `None` if there is no such row."""
    row = queryable.fetch_one(f"SELECT {name} FROM {table} WHERE id = :id", {"id": row_id})  # noqa: S608
    return None if row is None else row[name]
