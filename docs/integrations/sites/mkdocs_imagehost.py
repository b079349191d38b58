"""MkDocs hook: images of pages are uploaded once, and shown from an image host."""

import hashlib
import posixpath
import re
from functools import cache
from html import escape
from pathlib import Path

from imagehost_client import Client

WIDTHS = (400, 800, 1600)
client = Client()


@cache
def find_image(image_id):
    """Return an image by its id."""
    return client.images.get(image_id)


@cache
def upload_once(path):
    """Return the public image of a file, which is uploaded if there is none."""
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    found = next(iter(client.images.list(sha256=digest, is_public=True)), None)
    return found or client.upload(path, is_public=True, reuse=True)


def on_page_content(html, page, files, **_):
    """Replace the images of a page."""
    paths = {file.url: file.abs_src_path for file in files.media_files()}

    def show(match):
        before, source, after = match.groups()
        path = paths.get(posixpath.normpath(posixpath.join(posixpath.dirname(page.url), source)))
        if source.startswith("imagehost:"):
            image = find_image(source.removeprefix("imagehost:"))
        elif path is not None and path.lower().endswith((".jpg", ".jpeg", ".png", ".webp", ".gif")):
            image = upload_once(path)
        else:
            return match[0]
        widths = [*(width for width in WIDTHS if width < image.width), min(image.width, WIDTHS[-1])]
        srcset = escape(client.srcset(image, widths, fm="auto"))
        src = escape(client.image_url(image, w=widths[-1], fm="auto"))
        size = f'width="{image.width}" height="{image.height}"'
        return f'{before}src="{src}" srcset="{srcset}" sizes="(max-width: 800px) 100vw, 800px" {size}{after}'

    return re.sub(r'(<img\b[^>]*?)src="([^"]+)"([^>]*>)', show, html)
