"""The format of ZIP archives, and the names in them."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta
from io import BytesIO
from zipfile import ZIP_STORED, ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.uploads import MAX_FILENAME_BYTES
from imagehost_server.web.zip_archive import ArchiveNames, ZipWriter, portable_name

NAMES = st.one_of(
    st.sampled_from(
        [
            "a.png",
            "A.PNG",
            "a",
            "b.tar.gz",
            "STRASSE.png",
            "straße.png",
            "e\u0301.gif",
            "é.gif",
            "a-1.png",
            "CON",
        ]
    ),
    st.text(min_size=1, max_size=MAX_FILENAME_BYTES).filter(lambda name: len(name.encode()) <= 255),
    st.builds(lambda stem, end: f"{stem}{end}", st.sampled_from(["x" * 251, "é" * 125]), st.just(".png")),
)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
UNWRITABLE = {
    'a:b*c?d"e<f>g|h.png': "a_b_c_d_e_f_g_h.png",
    "a/b\\c.png": "a_b_c.png",
    "a\x00\x1f\x7f.png": "a___.png",
    "a. . ": "a____",
    "..": "__",
    "a .png": "a.png",
    ".hidden": ".hidden",
    "CON": "_CON",
    "con.png": "_con.png",
    "Com¹.tar.gz": "_Com¹.tar.gz",
    "LPT9 .png": "_LPT9.png",
    "CONIN$": "_CONIN$",
    "console.png": "console.png",
    "COM10.png": "COM10.png",
    "東京 🗼.webp": "東京 🗼.webp",
}


@pytest.mark.parametrize(("name", "expected"), UNWRITABLE.items())
def test_a_name_that_windows_cannot_write_is_replaced(name: str, expected: str) -> None:
    assert portable_name(name) == expected


@given(NAMES)
def test_a_portable_name_stays_as_it_is_and_fits(name: str) -> None:
    portable = portable_name(name)
    assert portable_name(portable) == portable
    assert 0 < len(portable.encode()) <= MAX_FILENAME_BYTES


@given(st.lists(NAMES, max_size=8))
def test_all_names_of_an_archive_differ_without_regard_to_case(names: list[str]) -> None:
    taken = ArchiveNames()
    # Images whose ids are alike would have equal names too.
    added = [taken.add(name, f"{number % 2}") for number, name in enumerate(names)]
    assert len({name.casefold() for name in added}) == len(names)
    assert max((len(name.encode()) for name in added), default=0) <= MAX_FILENAME_BYTES
    assert all(portable_name(name) == name for name in added)


def test_a_name_that_was_derived_is_taken_as_well() -> None:
    names = ArchiveNames()
    given_names = ["a-1.png", "a.png", "a.png", "A-1.png", "a.png"]
    assert [names.add(name, "1") for name in given_names] == [
        "a-1.png",
        "a.png",
        "a-1-2.png",
        "A-1-1.png",
        "a-1-3.png",
    ]


def test_of_two_equal_names_of_255_bytes_the_second_has_its_suffix_within_the_limit() -> None:
    names = ArchiveNames()
    name = f"{'x' * 251}.png"
    assert names.add(name, "12345") == name
    assert names.add(name, "12345") == f"{'x' * 245}-12345.png"


def archive_of(files: list[tuple[str, datetime, bytes]]) -> bytes:
    """Return an archive."""
    writer, written = ZipWriter(BytesIO()), b""
    for name, modified_at, data in files:
        written += writer.add(name, modified_at, len(data), zlib.crc32(data)) + data
    return written + b"".join(writer.end(100))


@given(st.lists(st.tuples(NAMES.map(portable_name), TIMES, st.binary(max_size=3)), max_size=5))
def test_an_archive_has_the_names_the_data_and_the_times(files: list[tuple[str, datetime, bytes]]) -> None:
    with ZipFile(BytesIO(archive_of(files))) as archive:
        assert archive.testzip() is None
        entries = archive.infolist()
        assert [entry.filename for entry in entries] == [name for name, _, _ in files]
        assert [archive.read(entry) for entry in entries] == [data for _, _, data in files]
        for entry, (_, modified_at, data) in zip(entries, files, strict=True):
            # Neither a data descriptor nor encryption; names in UTF-8.
            assert entry.flag_bits in (0, 0x800)
            assert (entry.compress_type, entry.compress_size) == (ZIP_STORED, len(data))
            if 1980 <= modified_at.year < 2108:
                stored = datetime(*entry.date_time, tzinfo=UTC)
                assert timedelta() <= modified_at - stored < timedelta(seconds=2)
