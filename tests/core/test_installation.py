"""The record of an installation, and which combinations of records a host is opened with."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core import ConflictError
from imagehost_core.installation import (
    LOWEST_WRITER,
    InstallationRecord,
    Place,
    RecordState,
    find_installation,
    is_large_collection,
    parse_record,
    require_known_migrations,
    require_supported,
)

NOW = datetime(2026, 11, 25, tzinfo=UTC)
OWN = InstallationRecord(created_at=NOW)
OLDER = attrs.evolve(OWN, incarnation="0" * 32)
FOREIGN = InstallationRecord(created_at=NOW)
NEWER = attrs.evolve(OWN, format=99, reader="8.0.0", writer="9.0.0")
UNRECORDED = "data without a record"
RECORDS = {
    "empty": None,
    "own": OWN,
    "older": OLDER,
    "foreign": FOREIGN,
    "newer": NEWER,
    "creating": OWN.with_state(RecordState.CREATING),
    "restoring": OWN.with_state(RecordState.RESTORING),
    "unrecorded": None,
}
DIRECTORIES = ("empty", "own", "older", "foreign", "newer")
DATABASES = ("empty", "own", "older", "foreign", "newer", "creating", "unrecorded")
STORES = ("empty", "own", "older", "foreign", "newer", "restoring", "unrecorded")
OPENED = {
    ("empty", "empty", "empty"): None,
    **{
        (directory, each, each): RECORDS[each]
        for each in ("own", "older", "foreign")
        for directory in ("empty", each)
    },
    # The restore is complete with its records.
    ("empty", "own", "restoring"): OWN,
    ("own", "own", "restoring"): OWN,
    # A creation that was interrupted is continued.
    **{
        (directory, "creating", store): RECORDS["creating"]
        for directory in ("empty", "own")
        for store in ("empty", "own", "restoring")
    },
}
"""The record of each combination of directory, database and store that is opened."""
REFUSED = {
    ("own", "empty", "own"): "none: it is empty; check IMAGEHOST_DATABASE, or restore a backup",
    ("empty", "empty", "own"): "none: it is empty; check IMAGEHOST_DATABASE, or restore a backup",
    ("own", "empty", "empty"): "none: it is empty; check IMAGEHOST_DATABASE, or restore a backup",
    ("own", "own", "empty"): "none: it is empty; check IMAGEHOST_STORAGE, or restore a backup",
    ("own", "own", "foreign"): "check IMAGEHOST_STORAGE and IMAGEHOST_DATABASE; .* `imagehost adopt`",
    ("own", "foreign", "own"): "check IMAGEHOST_STORAGE and IMAGEHOST_DATABASE; .* `imagehost adopt`",
    ("foreign", "own", "own"): "check --data and IMAGEHOST_DATABASE; .* `imagehost adopt`",
    ("older", "own", "own"): "one of them was restored since; check --data",
    ("own", "older", "own"): "one of them was restored since; check IMAGEHOST_STORAGE",
    ("empty", "empty", "restoring"): "repeat `imagehost restore`",
    ("own", "older", "restoring"): "repeat `imagehost restore`",
    ("own", "unrecorded", "own"): "data without one; .* `imagehost adopt` writes one",
    ("empty", "empty", "unrecorded"): "data without one; .* `imagehost adopt` writes one",
    ("own", "newer", "own"): "received format 99: install imagehost 9.0.0 or a newer version",
    ("newer", "empty", "empty"): "received format 99: install imagehost 9.0.0 or a newer version",
}
"""The message of some combinations that are refused."""


def place(name: str, state: str, setting: str) -> Place:
    return Place(f"the {name}", setting, RECORDS[state], has_data=state == "unrecorded")


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_a_host_is_opened_if_and_only_if_directory_database_and_store_agree(directory: str) -> None:
    for database, store in product(DATABASES, STORES):
        states = (directory, database, store)
        places = (
            place("directory", directory, "--data"),
            place("database", database, "IMAGEHOST_DATABASE"),
            place("store", store, "IMAGEHOST_STORAGE"),
        )
        if states in OPENED:
            assert find_installation(*places) == OPENED[states]
        else:
            with pytest.raises(ConflictError, match=REFUSED.get(states, "expected .* but received")):
                find_installation(*places)


@given(
    backup_at=st.none() | st.datetimes(timezones=st.just(UTC)),
    state=st.sampled_from(RecordState),
    number=st.integers(1, 10**6),
)
def test_a_record_is_read_as_it_was_written(
    backup_at: datetime | None, state: RecordState, number: int
) -> None:
    record = attrs.evolve(OWN, backup_at=backup_at, state=state, format=number)
    assert parse_record(record.to_json(), "here") == record


@pytest.mark.parametrize("text", ["", "[]", "{}", OWN.to_json().replace(OWN.id, "../x"), "[" * 100_000])
def test_a_damaged_record_is_refused_by_its_place(text: str) -> None:
    with pytest.raises(ConflictError, match="expected the record of an installation in here"):
        parse_record(text, "here")


def test_a_newer_format_that_names_this_version_is_accepted() -> None:
    require_supported(attrs.evolve(OWN, format=99), "here")
    with pytest.raises(ConflictError, match=r"install imagehost 8\.0\.0"):
        require_supported(NEWER, "here", reads_only=True)


def test_a_database_with_an_unknown_migration_is_refused_with_the_version_to_install() -> None:
    require_known_migrations({"first"}, {"first", "second"}, OWN, "here")
    with pytest.raises(
        ConflictError, match=rf"migration 'third'; install imagehost {LOWEST_WRITER} or a newer"
    ):
        require_known_migrations({"first", "third"}, {"first", "second"}, OWN, "here")


@given(unrecorded=st.integers(0, 10**5), recorded=st.integers(0, 10**7))
def test_a_collection_is_large_above_100_images_and_2_percent_of_all(unrecorded: int, recorded: int) -> None:
    is_many = unrecorded * 100 > 2 * (unrecorded + recorded)
    assert is_large_collection(unrecorded, recorded) == (unrecorded > 100 and is_many)
