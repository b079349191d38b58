"""Atom feeds of the gallery and of public albums."""

from __future__ import annotations

import re
from typing import Any

from litestar import Response
from litestar.params import FromPath

from imagehost_core import ImageHost, to_rfc3339
from imagehost_server.web.page import page
from imagehost_server.web.pages.public import read_gallery
from imagehost_server.web.presentation import ImagePresenter, alt_text
from imagehost_server.web.program_responses import last_modified, render_for_programs
from imagehost_server.web.request import WebRequest

FEED_IMAGES = 50
"""Images of a feed."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that an XML document cannot contain (XML 1.0, 2.2)."""


@page("/feed.xml", public=True, json=True)
async def feed(request: WebRequest) -> Response[Any]:
    """Return the newest public images as an Atom feed (RFC 4287)."""
    return await _feed(request, "/", None)


@page("/a/{album_id:str}/feed.xml", public=True, json=True)
async def album_feed(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Return the newest public images of a public album as an Atom feed."""
    return await _feed(request, f"/a/{album_id}", album_id)


async def _feed(request: WebRequest, path: str, album_id: str | None) -> Response[Any]:
    listed = await request.executors.reads.run(read_gallery, request, None, album_id, FEED_IMAGES)
    album, images, host = listed.album, listed.items, request.host
    changed_at = last_modified(host, images)
    presenter, site = ImagePresenter(host.urls, request.settings.delivery), request.settings.site_url
    entries = [
        {
            "id": _tag(host, f"images/{image.id}"),
            "title": _xml_text(alt_text(image)),
            "page": f"{site}/i/{image.id}",
            "time": to_rfc3339(image.created_at),
            "updated": to_rfc3339(image.updated_at),
            "image": host.urls.image(image),
            "type": image.mime_type,
            "size": image.size,
            "shown": presenter.card_images(image)[0],
            "text": _xml_text(image.description),
        }
        for image in images
    ]
    return render_for_programs(
        request,
        "feed.xml",
        "application/atom+xml",
        changed_at,
        id=_tag(host, f"albums/{album.id}" if album else "gallery"),
        title=_xml_text(album.name if album else request.settings.web.site_name),
        url=f"{site}{path}",
        feed_url=f"{site}{path.rstrip('/')}/feed.xml",
        updated=to_rfc3339(changed_at),
        entries=entries,
    )


def _tag(host: ImageHost, name: str) -> str:
    """Return the permanent id of something of a host (RFC 4151): it does not depend on the site's domain.

    Its authority is the id of the installation, which restored data keep, below a domain that is never used.
    """
    return f"tag:{host.installation.id}.invalid,2026:{name}"


def _xml_text(text: str) -> str:
    """Return a text of a user without the characters that would make the whole feed unreadable."""
    return _NOT_XML.sub("", text)
