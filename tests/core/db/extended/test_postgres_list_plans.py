"""The queries of lists in PostgreSQL: they are read in the order of an index, without reading the whole list.

https://www.postgresql.org/docs/current/using-explain.html describes the plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import attrs
import pytest
from tests.core.db.test_list_plans import ACCOUNT, FILTERS, NAMES, cursor_of, other_lists
from tests.postgres import PostgresServer

from imagehost_core.cluster.postgres_database import PostgresDatabase
from imagehost_core.db.engines.database import SqlRow, SqlValue
from imagehost_core.db.lists import searches
from imagehost_core.db.lists.images import ImageListRepository
from imagehost_core.db.repositories.webhooks import WebhookRepository
from imagehost_core.ids import AlbumId
from imagehost_core.lists import CursorPosition, ImageListRequest, ImageSort, PageRequest

pytestmark = pytest.mark.external

ROWS = (
    "INSERT INTO accounts (name, signing_secret, created_at) VALUES ('admin', '', 0)",
    "INSERT INTO albums (account_id, name, description, is_public, created_at, updated_at) "
    "SELECT 1, 'a', '', 1, n, n FROM generate_series(1, 2) AS n",
    "INSERT INTO images SELECT n, 'i' || n, 1, 1 + n % 2, 'f' || n % 999, 'f', 'cat', n % 2, "
    "CASE n % 3 WHEN 0 THEN 'png' ELSE 'gif' END, n % 777, 1, 1, 1, 0, '', '', '[]', n, n "
    "FROM generate_series(1, 20000) AS n",
    "INSERT INTO image_words SELECT number, '1xf' || number, "
    "CASE is_public WHEN 1 THEN '1xcat 0xcat' ELSE '1xcat' END FROM images",
    "INSERT INTO gallery_images SELECT created_at, id FROM images WHERE is_public = 1",
    *(
        f"UPDATE {table} SET image_count = 20000, public_image_count = 10000"
        for table in ("accounts", "albums")
    ),
    "ANALYZE",
)
"""20,000 images, so many that reading or sorting all of them costs more than an index does."""


class RecordsPlans(PostgresDatabase):
    """A database that records the plan of each query of several rows, and has one connection."""

    def __init__(self, url: str) -> None:
        super().__init__(url, pool_size=1)
        self.plans: list[Any] = []

    def fetch_all(
        self, sql: str, values: Mapping[str, SqlValue], *, deadline: float | None = None
    ) -> list[SqlRow]:
        (row,) = super().fetch_all(f"EXPLAIN (FORMAT JSON) {sql}", values)
        explained: Any = row["QUERY PLAN"]
        self.plans.append(explained[0]["Plan"])
        return super().fetch_all(sql, values, deadline=deadline)

    def fetch_one(self, sql: str, values: Mapping[str, SqlValue]) -> SqlRow | None:
        return next(iter(super().fetch_all(sql, values)), None)


@pytest.fixture(scope="module")
def url(postgres_server: PostgresServer) -> Iterator[str]:
    """A database with many images."""
    with postgres_server.empty_database() as url:
        PostgresDatabase(url).close()
        for statement in ROWS:
            postgres_server.execute(statement, url.rpartition("/")[2])
        yield url


@pytest.fixture
def recorder(url: str) -> Iterator[RecordsPlans]:
    with closing(RecordsPlans(url)) as database:
        yield database


def prefer_indexes(recorder: RecordsPlans) -> None:
    """Let the server sort or read a whole table only if no index has the order, as if it were large."""
    for setting in ("enable_seqscan", "enable_bitmapscan", "enable_sort"):
        recorder.fetch_one(f"SELECT set_config('{setting}', 'off', false) AS value", {})


def nodes(plan: Any) -> Iterator[Any]:
    """Yield the nodes of a plan."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def page_ids_nodes(plan: Any) -> list[Any]:
    """Return the nodes that find the ids of a page's items: those below the limit."""
    limit = next(node for node in nodes(plan) if node["Node Type"] == "Limit")
    return list(nodes(limit))[1:]


def require_order_of_index(plan: Any) -> None:
    """Check that a page is read in the order of an index, and that the rows of its items are."""
    types = [node["Node Type"] for node in page_ids_nodes(plan)]
    assert types[0] in ("Index Only Scan", "Index Scan"), types
    assert not {"Sort", "Incremental Sort"} & {*types}, types
    require_no_whole_table(plan)


def require_no_whole_table(plan: Any) -> None:
    read = [node.get("Relation Name") for node in nodes(plan) if node["Node Type"].endswith("Seq Scan")]
    assert not read, read


@pytest.mark.parametrize("album_id", [None, AlbumId(1)])
@pytest.mark.parametrize("name", FILTERS)
def test_every_order_and_filter_of_images_is_read_from_an_index(
    recorder: RecordsPlans, album_id: AlbumId | None, name: str
) -> None:
    lists = ImageListRepository(recorder, timeout_seconds=60)
    if name in ("format", "dates"):
        prefer_indexes(recorder)
    for sort in ImageSort:
        request = ImageListRequest(album_id=album_id, filters=FILTERS[name], sort=sort)
        for page in (PageRequest(), PageRequest(page=90), cursor_of(request)):
            lists.list_owned(ACCOUNT, attrs.evolve(request, page=page))
            require_order_of_index(recorder.plans[-1])


@pytest.fixture
def _long_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no list be read to its end."""
    monkeypatch.setattr(searches, "SHORT_LIST", -1)


@pytest.mark.usefixtures("_long_lists")
@pytest.mark.parametrize("album_id", [None, AlbumId(1)])
@pytest.mark.parametrize("name", FILTERS)
def test_a_search_reads_the_first_images_in_the_order_of_an_index(
    recorder: RecordsPlans, album_id: AlbumId | None, name: str
) -> None:
    lists = ImageListRepository(recorder, timeout_seconds=60)
    if name in ("format", "dates"):
        prefer_indexes(recorder)
    filters = attrs.evolve(FILTERS[name], q="ca")
    for sort in ImageSort:
        recorder.plans.clear()
        lists.list_owned(ACCOUNT, ImageListRequest(album_id=album_id, filters=filters, sort=sort))
        require_read_first(recorder.plans[0])
    recorder.plans.clear()
    lists.list_gallery(PageRequest(), "ca")
    require_read_first(recorder.plans[0])


def require_read_first(plan: Any) -> None:
    types = {node["Node Type"] for node in page_ids_nodes(plan)}
    assert types <= {"Subquery Scan", "Limit", "Index Only Scan", "Index Scan"}, types
    require_no_whole_table(plan)


@pytest.mark.usefixtures("_long_lists")
@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("text", ["missing", "cat missing", "missing x"])
def test_a_search_with_few_matches_reads_their_images_only(
    recorder: RecordsPlans, name: str, text: str
) -> None:
    lists = ImageListRepository(recorder, timeout_seconds=60)
    filters = attrs.evolve(FILTERS[name], q=text)
    for sort in (ImageSort.NEWEST, ImageSort.LARGEST):
        lists.list_owned(ACCOUNT, ImageListRequest(filters=filters, sort=sort))
        require_few_images(recorder.plans[-1])
    lists.list_gallery(PageRequest(), text)
    require_few_images(recorder.plans[-1])


def require_few_images(plan: Any) -> None:
    require_no_whole_table(plan)
    assert "image_words_by_words" in {node.get("Index Name") for node in nodes(plan)}
    images = next(node for node in page_ids_nodes(plan) if node.get("Relation Name") == "images")
    assert (images["Node Type"], images["Index Name"]) == ("Index Scan", "images_pkey")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("page", [PageRequest(), PageRequest(page=90), None])
def test_other_lists_are_read_in_the_order_of_an_index(
    recorder: RecordsPlans, name: str, page: PageRequest | None
) -> None:
    prefer_indexes(recorder)
    id_, read = other_lists(recorder)[name]
    read(page or PageRequest(after=CursorPosition(id_, 5, "9")))
    require_order_of_index(recorder.plans[-1])


def test_disabled_webhooks_are_read_from_an_index_of_them_alone(recorder: RecordsPlans) -> None:
    prefer_indexes(recorder)
    WebhookRepository(recorder).list_disabled(20)
    names = [node.get("Index Name", node["Node Type"]) for node in nodes(recorder.plans[-1])]
    assert names == ["Limit", "webhooks_disabled"]
