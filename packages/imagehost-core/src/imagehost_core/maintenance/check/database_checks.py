"""Checks of the database: its file, references, indexes and counters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Concatenate, ParamSpec, TypeVar

from attrs import field, frozen

from imagehost_core.db.engines.database import Database, Transaction
from imagehost_core.ids import ImageId
from imagehost_core.maintenance import integrity_queries, recount
from imagehost_core.maintenance.check.findings import Finding, FindingKind
from imagehost_core.maintenance.integrity_queries import DELIVERY_EVENT, IMAGE_ALBUM, REFERENCES, Reference
from imagehost_core.maintenance.recount import CounterMismatch

P = ParamSpec("P")
T = TypeVar("T")

_BATCH = 100
"""Images whose entries one transaction corrects; other writes wait for it."""
_DELETED = "deleted the row"

_Repair = Callable[[Transaction], bool]
"""A repair in a transaction; returns whether there was still something to repair."""


@frozen
class DatabaseChecker:
    """The comparison of the indexes, references and counters of a database with its rows."""

    _database: Database = field(repr=False)

    def check_structure(self, *, repair: bool, quick: bool) -> Iterator[Finding]:
        """Yield what SQLite finds wrong in the file; rebuild damaged indexes from their tables."""
        messages = integrity_queries.check_structure(self._database, quick=quick)
        is_repaired = False
        if messages and repair and integrity_queries.rebuild_indexes(self._database):
            is_repaired = not integrity_queries.check_structure(self._database, quick=quick)
        for message in messages:
            finding = Finding(FindingKind.DATABASE_CORRUPT, "imagehost.sqlite3", message)
            yield finding.repaired("rebuilt the indexes") if is_repaired else finding

    def check_references(self, *, repair: bool) -> Iterator[Finding]:
        """Yield the rows that refer to missing rows; delete those that are of no use without them."""
        for reference in REFERENCES:
            for row, value in self._query(integrity_queries.broken_references, reference):
                finding = _broken(reference, row, value)
                if reference.is_deletable:
                    fix: _Repair = partial(integrity_queries.delete_broken, reference=reference, row=row)
                    yield from self._report(finding, fix if repair else None, _DELETED)
                elif reference is IMAGE_ALBUM:
                    fix = partial(integrity_queries.remove_from_missing_album, image_id=ImageId(row))
                    yield from self._report(finding, fix if repair else None, "removed from the album")
                else:
                    yield finding

    def check_indexes(self, *, repair: bool, quick: bool) -> Iterator[Finding]:
        """Yield the images that the gallery or the search index has wrongly; correct their entries."""
        if not quick and integrity_queries.is_word_index_corrupt(self._database):
            finding = Finding(
                FindingKind.INDEX_MISMATCH,
                "image_words",
                "expected the full-text index to match the words of the images but it differs",
            )
            is_repaired = repair and integrity_queries.rebuild_word_index(self._database)
            yield finding.repaired("rebuilt the index") if is_repaired else finding
        for number in self._query(integrity_queries.words_without_image):
            finding = Finding(
                FindingKind.INDEX_MISMATCH,
                f"image_words {number}",
                "expected an image for words in the search index but there is none",
            )
            fix: _Repair = partial(integrity_queries.delete_words_without_image, number=number)
            yield from self._report(finding, fix if repair else None, _DELETED)
        image_ids = iter(self._query(recount.check_indexes))
        while batch := tuple(islice(image_ids, _BATCH)):
            if repair:
                with self._database.transaction() as transaction:
                    for image_id in batch:
                        recount.repair_index(transaction, image_id)
            for image_id in batch:
                finding = Finding(
                    FindingKind.INDEX_MISMATCH,
                    image_id,
                    "expected the image's entries in the gallery and the search index to match its record",
                )
                yield finding.repaired("corrected the entries") if repair else finding

    def check_counters(self, *, repair: bool) -> Iterator[Finding]:
        """Yield the counters that differ from a recount; correct all in one transaction."""
        mismatches = self._query(recount.check_counters)
        if mismatches and repair:
            with self._database.without_time_limit(), self._database.transaction() as transaction:
                mismatches = recount.repair_counters(transaction)
        for mismatch in mismatches:
            yield _mismatch(mismatch).repaired("set to the recount") if repair else _mismatch(mismatch)

    def _query(self, query: Callable[Concatenate[Database, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a query, which may take as long as it needs."""
        with self._database.without_time_limit():
            return query(self._database, *args, **kwargs)

    def _report(self, finding: Finding, fix: _Repair | None, repair: str) -> Iterator[Finding]:
        """Yield a finding, after its repair if there is one, unless it is gone by then."""
        if fix is None:
            yield finding
            return
        with self._database.transaction() as transaction:
            is_repaired = fix(transaction)
        if is_repaired:
            yield finding.repaired(repair)


def _broken(reference: Reference, row: str, value: str) -> Finding:
    kind = FindingKind.BROKEN_REFERENCE
    if reference is DELIVERY_EVENT:
        kind = FindingKind.DELIVERY_WITHOUT_EVENT
    columns = ", ".join(reference.columns.values())
    details = f"expected a row of {reference.parent} for {columns} but there is none for {value}"
    return Finding(kind, f"{reference.table} {row}", details)


def _mismatch(mismatch: CounterMismatch) -> Finding:
    details = f"expected {mismatch.actual} by a recount but received {mismatch.stored}"
    subject = f"{mismatch.table} {mismatch.row} {mismatch.column}"
    return Finding(FindingKind.COUNTER_MISMATCH, subject, details)
