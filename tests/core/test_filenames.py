"""Sanitising of file names."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from imagehost_core.formats import BY_EXTENSION, FORMATS, Format
from imagehost_core.uploads import MAX_FILENAME_BYTES, clean_filename, with_extension

ANY_TEXT = st.text(st.characters(exclude_categories=()))
"""Text of all code points, including lone surrogates."""
UNUSUAL_TEXT = st.text(
    st.sampled_from(list("aZ0 ./\\é:\u00a0\u200d\u202e\0\n\ud800\U0001f600e\u0301")), max_size=400
)
NAMES = st.none() | ANY_TEXT | UNUSUAL_TEXT


@pytest.mark.parametrize(
    ("received", "cleaned"),
    [
        ("cat.jpg", "cat.jpg"),
        ("Cat Photo (1).JPG", "Cat Photo (1).JPG"),
        ("/etc/passwd", "passwd"),
        ("../../../etc/passwd", "passwd"),
        ("a/b\\c.png", "c.png"),
        ("C:\\fakepath\\cat.jpg", "cat.jpg"),
        ("\\\\server\\share\\cat.jpg", "cat.jpg"),
        ("file:///home/me/cat.jpg", "cat.jpg"),
        ("a/..", "image"),
        ("dir/", "image"),
        ("cat.jpg\0.png", "cat.jpg.png"),
        ("c\x00a\x1bt\x7f.jpg\r\nSet-Cookie: a=b", "cat.jpgSet-Cookie: a=b"),
        ("\ufeffcat.jpg", "cat.jpg"),
        ("exe\u202egnp.jpg", "exegnp.jpg"),
        ("\u2066cat\u2069.jpg", "cat.jpg"),
        ("ca\u200bt\u00ad.jpg", "cat.jpg"),
        ("cat\u2028.jpg\u2029", "cat.jpg"),
        ("\ud83d.jpg", "image.jpg"),
        ("\ue000\ufdd0\uffff\U000e0041\U000efff0cat.gif", "cat.gif"),
        ("cafe\u0301.jpg", "café.jpg"),
        ("e\u200b\u0301.jpg", "é.jpg"),
        ("😀 grin.png", "😀 grin.png"),
        ("👩\u200d💻.png", "👩\u200d💻.png"),
        ("می\u200cخواهم.jpg", "می\u200cخواهم.jpg"),
        ("\U0001fae9 newer than Unicode 14.png", "\U0001fae9 newer than Unicode 14.png"),
        ("写真.webp", "写真.webp"),
        (" cat.jpg ", "cat.jpg"),
        ("\u3000cat.jpg\u00a0", "cat.jpg"),
        ("cat.jpg...", "cat.jpg"),
        ("cat. . .", "cat"),
        (". . cat", "cat"),
        ("..cat.jpg", "cat.jpg"),
        (".htaccess", "htaccess"),
        (".png", "image.png"),
        (" . JPG", "image.JPG"),
        ("\u202e.jpeg", "image.jpeg"),
        ("png", "png"),
        ("", "image"),
        (None, "image"),
        (".", "image"),
        ("..", "image"),
        ("\u200d\u200c", "image"),
        (" . . ", "image"),
        ("CON.jpg", "CON.jpg"),
        ('a<b>"c"|d?*.jpg', 'a<b>"c"|d?*.jpg'),
        ("%2e%2e%2fcat.jpg", "%2e%2e%2fcat.jpg"),
    ],
)
def test_path_and_invisible_characters_are_removed(received: str | None, cleaned: str) -> None:
    assert clean_filename(received) == cleaned


@pytest.mark.parametrize(
    ("received", "cleaned"),
    [
        ("x" * 300 + ".jpg", "x" * 251 + ".jpg"),
        ("x" * 251 + ".jpg", "x" * 251 + ".jpg"),
        ("x" * 252 + ".jpg", "x" * 251 + ".jpg"),
        ("x" * 300, "x" * 255),
        ("é" * 200 + ".png", "é" * 125 + ".png"),
        ("写" * 100 + ".jpeg", "写" * 83 + ".jpeg"),
        ("😀" * 100, "😀" * 63),
        ("x" * 250 + " . y.jpg", "x" * 250 + ".jpg"),
        ("x" * 254 + " y", "x" * 254),
        ("a." + "b" * 32, "a." + "b" * 32),
        ("x" * 300 + "." + "b" * 32, "x" * 222 + "." + "b" * 32),
        ("x" * 200 + "." + "b" * 100, "x" * 200 + "." + "b" * 54),
    ],
)
def test_a_long_name_is_truncated_to_255_bytes_and_keeps_its_extension(received: str, cleaned: str) -> None:
    assert clean_filename(received) == cleaned


@given(NAMES)
@example("0" * 254 + ". x")
def test_every_cleaned_name_is_valid_in_file_systems_and_headers(name: str | None) -> None:
    clean = clean_filename(name)
    assert 1 <= len(clean.encode()) <= MAX_FILENAME_BYTES
    assert not set(clean) & set("/\\")
    assert all(unicodedata.category(char) not in {"Cc", "Cs", "Co", "Zl", "Zp"} for char in clean)
    assert {char for char in clean if unicodedata.category(char) == "Cf"} <= set("\u200c\u200d")
    assert clean[0] not in ". \u00a0"
    assert clean[-1] not in ". \u00a0"


@given(NAMES)
@example("a. .")
@example("\u00c5\u200b\u0301")
@example("a" * 240 + " ." + "b" * 40)
@example("a" * 251 + ". ." + "b" * 300)
def test_cleaning_is_idempotent(name: str | None) -> None:
    assert clean_filename(clean_filename(name)) == clean_filename(name)


@given(NAMES, st.sampled_from(Format))
def test_the_extension_matches_the_stored_format_and_the_name_stays_clean(
    name: str | None, fmt: Format
) -> None:
    renamed = with_extension(clean_filename(name), fmt)
    assert BY_EXTENSION[renamed.rpartition(".")[2].lower()] is fmt
    assert with_extension(renamed, fmt) == renamed
    assert clean_filename(renamed) == renamed


@pytest.mark.parametrize(
    ("name", "fmt", "renamed"),
    [
        ("cat.jpg", Format.WEBP, "cat.webp"),
        ("cat.jpg", Format.JPEG, "cat.jpg"),
        ("cat.JPEG", Format.JPEG, "cat.JPEG"),
        ("cat.JPG", Format.PNG, "cat.png"),
        ("cat", Format.JPEG, "cat.jpg"),
        ("jpg", Format.JPEG, "jpg.jpg"),
        ("cat.tiff", Format.GIF, "cat.tiff.gif"),
        ("v1.2", Format.PNG, "v1.2.png"),
        ("cat.png.exe", Format.PNG, "cat.png.exe.png"),
        ("cat.avif", Format.WEBP, "cat.webp"),
        ("a.b.gif", Format.WEBP, "a.b.webp"),
        ("x" * 251 + ".jpg", Format.WEBP, "x" * 250 + ".webp"),
        ("写" * 85, Format.WEBP, "写" * 83 + ".webp"),
        ("image", Format.AVIF, "image.avif"),
    ],
)
def test_an_image_extension_is_replaced_and_any_other_suffix_is_kept(
    name: str, fmt: Format, renamed: str
) -> None:
    assert with_extension(name, fmt) == renamed


def test_a_new_extension_is_the_first_of_the_format() -> None:
    assert {fmt: with_extension("a", fmt) for fmt in Format} == {
        fmt: f"a.{info.extensions[0]}" for fmt, info in FORMATS.items()
    }
