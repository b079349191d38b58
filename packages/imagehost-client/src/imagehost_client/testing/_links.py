"""URLs of an image's thumbnail and snippets that embed it, as the real host returns them."""

from __future__ import annotations

from imagehost_client.testing._store import Record

THUMB_SIDE = 320
"""The maximum width and height of a thumbnail, in pixels."""
THUMB_FRAMES = 390
"""The maximum number of frames of a thumbnail that is a WebP."""

_MARKUP = str.maketrans({char: f"\\{char}" for char in "\\`*_~|[]()!<>&"})
"""The special characters of CommonMark and of the common extensions for tables and strikethrough."""


def embedding_links(record: Record) -> dict[str, str]:
    """Return the links of an image's record; its description is their text, else its file name."""
    from html import escape  # slow to import

    url, text = record["url"], " ".join(record["description"].split()) or record["filename"]
    size = f'width="{record["width"]}" height="{record["height"]}"'
    return {
        "url": url,
        "html": f'<img src="{escape(url)}" alt="{escape(text)}" {size}>',
        "markdown": f"![{text.translate(_MARKUP)}]({url})",
        "bbcode": f"[img]{url}[/img]",
    }


def thumbnail_url(record: Record) -> str:
    """Return the URL of an image's thumbnail."""
    extension = "webp" if record["frames"] <= THUMB_FRAMES else "jpg"
    fits = max(record["width"], record["height"]) <= THUMB_SIDE
    query = "" if fits else f"?w={THUMB_SIDE}&h={THUMB_SIDE}&fit=inside"
    return f"{record['url'].rpartition('.')[0]}.{extension}{query}"
