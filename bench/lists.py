"""Measure pages of lists with 1,000 and with 1,000,000 images of one account.

    python -m bench.lists [DIRECTORY] [--images 1000000] [--others 0] [--rounds 60]
    [--searches] [--combinations 100] [--http]

The data directories are built by SQL (a million images take about a minute) and kept in DIRECTORY, if one is
given, for the next run. All images but two are public, half of them in ten albums and the others in an album
for each hundred images; those of other accounts are in none. Each page is read in alternating rounds from
the small and the large database; the output has the medians of both and their ratio: of the CPU time of the
database's part alone, and with `--http` of the time of requests over one connection, with a token where the
route needs one, and without rate limits. `--searches` measures pages with filters, other orders and searches
in the large database, and `--combinations` each word with each filter, newest first.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from http.client import HTTPConnection
from itertools import product
from math import ceil
from pathlib import Path

import attrs
from attrs import frozen
from bench import list_rows

from imagehost_core import ImageHost
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db import schema
from imagehost_core.db.engines.database import Database, text
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.db.lists.images import ImageListRepository
from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.db.repositories.albums import AlbumRepository
from imagehost_core.formats import Format
from imagehost_core.ids import AccountId, AlbumId
from imagehost_core.lists import ImageFilter, ImageListRequest, ImageSort, PageRequest, parse_page_request
from imagehost_core.models import Image, Page
from imagehost_server.testing import running

SMALL = 1_000
ALBUMS = 10
ACCOUNT = AccountId(1)
PER_PAGE = 20
WINDOWS = ("API_PER_MINUTE", "API_PER_HOUR", "API_PER_DAY", "UNAUTHENTICATED_PER_MINUTE")
VARIABLES = {f"IMAGEHOST_LIMITS_{name}": "0" for name in WINDOWS} | {"IMAGEHOST_LOG_ACCESS": "false"}
INDEXES = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'images' AND sql <> ''"

Measured = Callable[[], object]


def build(directory: Path, images: int, others: int = 0) -> Path:
    """Return a data directory with images of one account and of others; build it unless it exists."""
    sources = (Path(schema.__file__), Path(list_rows.__file__))
    version = blake2b(b"".join(path.read_bytes() for path in sources), digest_size=4).hexdigest()
    data = directory / f"{images}-{others}-{version}"
    if (data / "complete").exists():
        return data
    start = time.monotonic()
    with ImageHost.open(data) as host:
        with closing(sqlite3.connect(data / "imagehost.sqlite3", isolation_level=None)) as database:
            _fill(database, images, others)
        list_rows.recount(host)
        records = host._context.records.database  # noqa: SLF001
        for skipped in (3, images // 2):
            sql = "SELECT id FROM images WHERE account_id = 1 ORDER BY created_at LIMIT 1 OFFSET :skipped"
            found = records.fetch_one(sql, {"skipped": skipped})
            if found is not None:
                host.images.update(text(found, "id"), owner="admin", is_public=False)
        (data / "token").write_text(host.keys.create(owner="admin", name="bench").token)
    (data / "complete").touch()
    size = (data / "imagehost.sqlite3").stat().st_size
    print(
        f"{images:,} images, {others:,} of others: {size / 2**20:,.0f} MiB, "
        f"built in {time.monotonic() - start:.0f} s",
        flush=True,
    )
    return data


def _fill(database: sqlite3.Connection, images: int, others: int) -> None:
    """Insert rows without indexes, then the indexes."""
    database.execute("PRAGMA synchronous = OFF")
    database.execute("PRAGMA cache_size = -1000000")
    indexes = database.execute(INDEXES).fetchall()
    database.execute("BEGIN")
    for name, _ in indexes:
        database.execute(f"DROP INDEX {name}")
    database.execute(list_rows.albums(albums_of(images)))
    database.execute(list_rows.own_images("sqlite", images, albums_of(images)))
    if others:
        database.execute(list_rows.other_accounts())
        database.execute(list_rows.other_images("sqlite", others))
    for _, sql in indexes:
        database.execute(sql)
    database.execute("INSERT INTO gallery_images SELECT created_at, id FROM images ORDER BY 1, 2")
    database.execute(f"INSERT INTO image_words (rowid, filename, description) {list_rows.IMAGE_WORDS}")
    database.execute("COMMIT")


def albums_of(images: int) -> int:
    """Return the number of albums of an account with so many images."""
    return max(ALBUMS, images // 100)


@frozen
class Catalog:
    """A database with images of one account, and its lists."""

    images: int
    database: Database

    def pages(self) -> dict[str, tuple[Callable[[PageRequest], Page[Image]], int]]:
        """Return the function that reads a page of each list, and the number of its images."""
        lists, albums = ImageListRepository(self.database, 60), AlbumRepository(self.database)
        album = albums.get_public(AlbumId(1))
        assert album is not None
        return {
            "images": (lambda page: lists.list_owned(ACCOUNT, ImageListRequest(page=page)), self.images),
            "images of an album": (
                lambda page: lists.list_owned(ACCOUNT, ImageListRequest(album_id=AlbumId(1), page=page)),
                self.images // (2 * ALBUMS),
            ),
            "gallery": (lists.list_gallery, self.images),
            "gallery of an album": (
                lambda page: lists.list_public_in_album(album, page),
                self.images // (2 * ALBUMS),
            ),
        }

    def measured(self) -> Iterator[tuple[str, Measured]]:
        """Yield each function to measure with its name; pages past the end of a list are its last one."""
        for name, (read, images) in self.pages().items():
            last = images // PER_PAGE
            chosen = {"page 1": 1, "page 5,000": 5_000, "middle page": last // 2, "last page": last}
            for label, number in chosen.items():
                yield f"{name}, {label}", _bind(read, PageRequest(min(number, last)))
            cursor = read(PageRequest(max(1, last // 2))).next_cursor
            yield f"{name}, cursor", _bind(read, parse_page_request(cursor=cursor))
        albums, accounts = AlbumRepository(self.database), AccountRepository(self.database)
        yield "albums, page 1", lambda: albums.list_by_account(ACCOUNT, PageRequest())
        yield "account", lambda: accounts.usage(ACCOUNT)


def _bind(read: Callable[[PageRequest], object], page: PageRequest) -> Measured:
    return lambda: read(page)


def filtered(database: Database, albums: int) -> Iterator[tuple[str, Measured]]:
    """Yield pages of images with filters, orders and searches, and the last page of albums."""
    lists = ImageListRepository(database, 60)
    filters = {
        "public": ImageFilter(is_public=True),
        "two private": ImageFilter(is_public=False),
        "two private, with 500,000 matches": ImageFilter(q="cat", is_public=False),
        "one in ten by format": ImageFilter(format=Format.PNG),
        "500,000 matches": ImageFilter(q="cat"),
        "100,000 matches": ImageFilter(q="river"),
        "5,000 matches": ImageFilter(q="garden"),
        "2,000 matches": ImageFilter(q="lake"),
        "9,999 oldest": ImageFilter(q="0000"),
        "1,000,000 matches": ImageFilter(q="img"),
        "20,000 matches": ImageFilter(q="holiday"),
        "100 matches": ImageFilter(q="rare"),
        "1 match": ImageFilter(q="00123456"),
        "1,000 matches by prefix": ImageFilter(q="00123"),
        "two words, 20,000 matches": ImageFilter(q="webp holiday"),
        "a phrase, 1 match": ImageFilter(q="IMG_00123456"),
        "no match": ImageFilter(q="missing"),
    }
    for name, chosen in filters.items():
        for sort in (ImageSort.NEWEST, ImageSort.LARGEST) if chosen.q else (ImageSort.NEWEST,):
            request = ImageListRequest(filters=chosen, sort=sort)
            yield f"{name}, {sort.value}", partial(lists.list_owned, ACCOUNT, request)
        if chosen.q:
            yield f"{name}, gallery", partial(lists.list_gallery, PageRequest(), chosen.q)
    for sort in ImageSort:
        request = ImageListRequest(sort=sort)
        yield f"sort={sort.value}", partial(lists.list_owned, ACCOUNT, request)
    in_album = ImageListRequest(album_id=AlbumId(1), filters=ImageFilter(q="cat"))
    yield "an album, 50,000 matches", lambda: lists.list_owned(ACCOUNT, in_album)
    in_short_album = attrs.evolve(in_album, album_id=AlbumId(albums))
    yield "a short album, no match", lambda: lists.list_owned(ACCOUNT, in_short_album)
    later = ImageListRequest(filters=ImageFilter(q="cat"), page=PageRequest(page=50))
    yield "500,000 matches, page 50", lambda: lists.list_owned(ACCOUNT, later)
    last = PageRequest(page=albums // PER_PAGE)
    yield "albums, last page", partial(AlbumRepository(database).list_by_account, ACCOUNT, last)


WORDS = ("", "missing", "00123456", *list_rows.WORDS, "img", "webp holiday", "0000")
OLD, MIDDLE = (datetime.fromtimestamp(second, UTC) for second in (1_700_000_100, 1_700_500_000))
FILTERS: dict[str, ImageFilter] = {
    "no filter": ImageFilter(),
    "no image's format": ImageFilter(format=Format.GIF),
    "one in ten by format": ImageFilter(format=Format.PNG),
    "nine in ten by format": ImageFilter(format=Format.WEBP),
    "private, two": ImageFilter(is_public=False),
    "public, all": ImageFilter(is_public=True),
    "public, no image's format": ImageFilter(is_public=True, format=Format.GIF),
    "before the middle": ImageFilter(created_before=MIDDLE),
    "after the middle": ImageFilter(created_after=MIDDLE),
    "the 100 oldest": ImageFilter(created_before=OLD),
    "no image's format before the middle": ImageFilter(format=Format.GIF, created_before=MIDDLE),
}


def print_combinations(database: Database, rounds: int, goal: float = 20.0) -> None:
    """Print the 99th percentile of the CPU time of each word, filter and page above a goal, newest first."""
    lists, times = ImageListRepository(database, 60), dict[str, float]()
    for word, (name, chosen), page in product(WORDS, FILTERS.items(), (1, 100)):
        request = ImageListRequest(filters=attrs.evolve(chosen, q=word), page=PageRequest(page=page))
        call = partial(lists.list_owned, ACCOUNT, request)
        measured = sorted(timed(call, time.thread_time) for _ in range(rounds))
        times[f"{word or 'no word'}; {name}; page {page}"] = measured[ceil(0.99 * rounds) - 1]
    above = {name: value for name, value in times.items() if value > goal}
    print(f"{len(times)} combinations, {len(above)} of them above {goal:g} ms at the 99th percentile:")
    for name, value in sorted(above.items(), key=lambda item: -item[1]):
        print(f"{name:70}{value:10.1f}")


def requests(data: Path, port: int, images: int) -> Iterator[tuple[str, Measured]]:
    """Yield each request to measure with its name."""
    connection = HTTPConnection("127.0.0.1", port)
    headers = {"Authorization": f"Bearer {(data / 'token').read_text()}"}

    def get(path: str, headers: dict[str, str]) -> Measured:
        def send() -> None:
            connection.request("GET", f"/v1{path}", headers=headers)
            response = connection.getresponse()
            response.read()
            assert response.status == 200, response.status

        return send

    last = images // PER_PAGE
    for label, number in (("page 1", 1), ("page 5,000", 5_000), ("last page", last)):
        page = min(number, last)
        yield f"GET /images, {label}", get(f"/images?page={page}", headers)
        yield f"GET /gallery, {label}", get(f"/gallery?page={page}", {})
    album_page = last // ALBUMS
    yield "GET /images?album_id=, last page", get(f"/images?album_id=1&page={album_page}", headers)
    yield "GET /gallery?album_id=, last page", get(f"/gallery?album_id=1&page={album_page}", {})
    yield "GET /albums", get("/albums", headers)
    yield "GET /account", get("/account", headers)


def timed(measured: Measured, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the milliseconds of a call."""
    start = clock()
    measured()
    return 1e3 * (clock() - start)


def compare(
    small: dict[str, Measured],
    large: dict[str, Measured],
    rounds: int,
    images: int,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Measure both in alternating rounds, and print the medians in milliseconds and their ratio."""
    print(f"{'ms' if clock is time.perf_counter else 'CPU ms':38}{SMALL:>12,}{images:>12,}   ratio")
    for name, measured in small.items():
        times = [(timed(measured, clock), timed(large[name], clock)) for _ in range(rounds + 3)][3:]
        before, after = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"{name:38}{before:12.3f}{after:12.3f}   {after / before:.2f}", flush=True)


def print_cpu_times(measured: dict[str, Measured], rounds: int) -> None:
    """Print the median CPU time of each call in milliseconds."""
    print(f"{'CPU ms':40}")
    for name, call in measured.items():
        for _ in range(3):
            call()
        times = [timed(call, time.thread_time) for _ in range(rounds)]
        print(f"{name:40}{statistics.median(times):10.2f}", flush=True)


def main() -> None:
    """Build what is missing, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("directory", type=Path, nargs="?", help="keeps the data directories")
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--others", type=int, default=0, help="images of other accounts")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--searches", action="store_true", help="also measure filters, orders and searches")
    parser.add_argument("--combinations", type=int, default=0, help="rounds of each word, filter and page")
    parser.add_argument("--http", action="store_true", help="also measure requests")
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = options.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sizes = (SMALL, options.images)
        data = [build(directory, SMALL), build(directory, options.images, options.others)]
        catalogs = []
        for path, images in zip(data, sizes, strict=True):
            database = SqliteDatabase(path / "imagehost.sqlite3", LockManager(path / "locks"))
            stack.callback(database.close)
            catalogs.append(Catalog(images, database))
        small, large = (dict(catalog.measured()) for catalog in catalogs)
        compare(small, large, options.rounds, options.images, time.thread_time)
        if options.searches:
            print_cpu_times(dict(filtered(catalogs[1].database, albums_of(options.images))), options.rounds)
        if options.combinations:
            print_combinations(catalogs[1].database, options.combinations)
        if options.http:
            servers = [
                stack.enter_context(running(path, "--workers", "1", variables=VARIABLES)) for path in data
            ]
            small, large = (
                dict(requests(path, server.port, images))
                for path, server, images in zip(data, servers, sizes, strict=True)
            )
            compare(small, large, options.rounds, options.images)


if __name__ == "__main__":
    main()
