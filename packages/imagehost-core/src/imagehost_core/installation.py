"""The installation that data belong to: a record in data directory, database and image store, and its rules.

The three carry the same record. One that differs, or is missing beside data, means that settings name what
belongs to another host, so nothing is started and nothing is collected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Set
from datetime import datetime
from enum import StrEnum
from importlib.metadata import version
from uuid import uuid4

from attrs import asdict, evolve, field, fields, frozen
from attrs.converters import optional
from attrs.validators import matches_re

from imagehost_core._util.clock import to_rfc3339
from imagehost_core.errors import InstallationError, quote_value

FORMAT = 8
"""The number of the format of the data. Each migration of the schema raises it by one."""
LOWEST_READER = LOWEST_WRITER = "1.0.0rc1"
"""The lowest versions of imagehost-core that may read and write data of this format."""
RECORD_NAME = "installation.json"
"""The name of the record's file, and of its object in an object store."""
MAX_UNRECORDED, MAX_UNRECORDED_SHARE = 100, 0.02
"""The images without a record that a collection removes unless it is told to: that many, or that share."""
_ID = re.compile("[0-9a-f]{32}")


class RecordState(StrEnum):
    """The state of what a record stands for.

    `CREATING`: in a database; the record in the store of images may be missing. `RESTORING`: in a store of
    images; a restore writes images to it.
    """

    COMPLETE = "complete"
    CREATING = "creating"
    RESTORING = "restoring"


def _to_time(value: datetime | str) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


@frozen(kw_only=True)
class InstallationRecord:
    """The record of an installation.

    Attributes:
        id: The id of the installation: 32 hexadecimal digits. Backups have it too.
        incarnation: The id of what a restore or an adoption began; before there is another, of the creation.
        created_at: When the incarnation began.
        backup_at: The time of the backup, if a restore replaced the records only. The store may have files
            of images that are newer, which are collected only if that is demanded.
        state: The state of the database or of the store.
        format: The number of the format of the data.
        reader: The lowest version of imagehost-core that may read the data.
        writer: The lowest version that may change them.
    """

    id: str = field(factory=lambda: uuid4().hex, validator=matches_re(_ID))
    incarnation: str = field(factory=lambda: uuid4().hex, validator=matches_re(_ID))
    created_at: datetime = field(converter=_to_time)
    backup_at: datetime | None = field(default=None, converter=optional(_to_time))
    state: RecordState = field(default=RecordState.COMPLETE, converter=RecordState)
    format: int = field(default=FORMAT, converter=int)
    reader: str = field(default=LOWEST_READER, converter=str)
    writer: str = field(default=LOWEST_WRITER, converter=str)

    def __str__(self) -> str:
        return f"installation {self.id}, incarnation {self.incarnation} of {to_rfc3339(self.created_at)}"

    def is_same(self, other: InstallationRecord) -> bool:
        """Return whether two records are of one incarnation of one installation."""
        return (self.id, self.incarnation) == (other.id, other.incarnation)

    def begin(self, created_at: datetime, backup_at: datetime | None = None) -> InstallationRecord:
        """Return the record of a new incarnation of the installation, in this version's format."""
        return InstallationRecord(id=self.id, created_at=created_at, backup_at=backup_at)

    def in_this_format(self) -> InstallationRecord:
        """Return the record of the same data after they were migrated to this version's format."""
        return evolve(self, format=FORMAT, reader=LOWEST_READER, writer=LOWEST_WRITER)

    def with_state(self, state: RecordState) -> InstallationRecord:
        """Return the record with another state."""
        return evolve(self, state=state)

    def to_json(self) -> str:
        """Return the record as text."""
        return json.dumps(asdict(self), indent=2, default=to_rfc3339) + "\n"


def parse_record(text: str | bytes, name: object) -> InstallationRecord:
    """Return the record in a text; other members than those of this version are ignored.

    Args:
        text: What `InstallationRecord.to_json` wrote.
        name: Where it was read, for the message.

    Raises:
        ConflictError: It is none.
    """
    try:
        values = {"backup_at": None, **json.loads(text)}
        return InstallationRecord(**{each.name: values[each.name] for each in fields(InstallationRecord)})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        received = quote_value(repr(error))
        raise InstallationError(
            f"expected the record of an installation in {name} but received {received}"
        ) from error


def require_supported(record: InstallationRecord, name: object, *, reads_only: bool = False) -> None:
    """Raise ConflictError if data are of a newer format than this version may use.

    Args:
        record: Their record.
        name: Where they are, for the message.
        reads_only: Whether they are not changed, as a backup that is restored.
    """
    if record.format <= FORMAT:
        return
    lowest = record.reader if reads_only else record.writer
    installed = version("imagehost-core")
    if _numbers(installed) < _numbers(lowest):
        raise InstallationError(
            f"expected data of format {FORMAT}, which imagehost {installed} knows, in {name} but received "
            f"format {record.format}: install imagehost {lowest} or a newer version"
        )


def require_known_migrations(
    applied: Set[str], known: Set[str], record: InstallationRecord | None, name: object
) -> None:
    """Raise ConflictError if the schema of a database is not that of this version or of an older one.

    Args:
        applied: The names of the migrations that the database has.
        known: Those of this version.
        record: The record in the database.
        name: The database, for the message.
    """
    if record is not None:
        require_supported(record, name)
    if unknown := sorted(applied - known):
        received = f"a database of another version, with the migration {quote_value(unknown[0])}"
        advice = "install the version of imagehost that has used it"
        if record is not None:
            advice = f"install imagehost {record.writer} or a newer version"
        raise _conflict(f"a database that this version knows in {name}", received, advice)


def _numbers(text: str) -> tuple[int, ...]:
    """Return the release of a version, such as (1, 2, 0); that of a candidate is the same."""
    return tuple(map(int, re.findall(r"\d+", text)[:3]))


@frozen
class Place:
    """A data directory, a database or a store of images, with what was found in it.

    Attributes:
        name: Its kind and its location, without a password.
        setting: What names it.
        record: Its record, or `None`.
        has_data: Whether it has accounts or images. Not looked for if there is a record.
    """

    name: str
    setting: str
    record: InstallationRecord | None = None
    has_data: bool = False


def find_installation(directory: Place, database: Place, storage: Place) -> InstallationRecord | None:
    """Return the record that data directory, database and store of images have, or `None` if all are new.

    A directory without a record joins a database and a store that agree.

    Raises:
        ConflictError: They belong to different installations or incarnations, one of them has data without
            a record, one is empty that was not, or a version is not supported. The details name the command
            that helps.
    """
    places = (directory, database, storage)
    for place in places:
        if place.record is not None:
            require_supported(place.record, place.name)
    for place in places:
        if place.record is None and place.has_data:
            raise _conflict(f"a record of the installation in {place.name}", "data without one", _ADOPT)
    if all(place.record is None for place in places):
        return None
    is_restoring = storage.record is not None and storage.record.state is RecordState.RESTORING
    if is_restoring and not _is_same(storage, database):
        received = "those of a restore that is in progress or was interrupted"
        advice = f"repeat `imagehost restore`; the images are in {storage.name}"
        raise _conflict("the records of a whole host", received, advice)
    if database.record is None:
        raise _missing(database, next(place for place in (storage, directory) if place.record is not None))
    if storage.record is None and database.record.state is not RecordState.CREATING:
        raise _missing(storage, database)
    for place in (storage, directory):
        if place.record is not None and not place.record.is_same(database.record):
            raise _different(place, place.record, database, database.record)
    return database.record


_ADOPT = "if they belong together, `imagehost adopt` writes one"


def _conflict(expected: str, received: str, advice: str) -> InstallationError:
    return InstallationError(f"expected {expected} but received {received}; {advice}")


def _is_same(place: Place, other: Place) -> bool:
    return place.record is not None and other.record is not None and place.record.is_same(other.record)


def _missing(empty: Place, other: Place) -> InstallationError:
    """Return the error of a place that is empty beside another that belongs to an installation."""
    assert other.record is not None
    return _conflict(
        f"data of installation {other.record.id} in {empty.name}, as in {other.name},",
        "none: it is empty",
        f"check {empty.setting}, or restore a backup; `imagehost adopt --force` accepts that they are lost",
    )


def _different(
    place: Place, record: InstallationRecord, other: Place, expected: InstallationRecord
) -> InstallationError:
    cause = "" if record.id != expected.id else ": one of them was restored since"
    return _conflict(
        f"{expected} in {place.name}, as in {other.name},",
        f"{record}{cause}",
        f"check {place.setting} and {other.setting}; if they belong together, `imagehost adopt` joins them",
    )


def is_large_collection(unrecorded: int, recorded: int) -> bool:
    """Return whether so many images without a record are a sign of a wrong database, not of crashed uploads.

    Args:
        unrecorded: The number of images with files and without a record.
        recorded: The number of images with a record.
    """
    return unrecorded > MAX_UNRECORDED and unrecorded > MAX_UNRECORDED_SHARE * (unrecorded + recorded)
