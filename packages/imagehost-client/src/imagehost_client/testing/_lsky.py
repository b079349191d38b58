"""The members that responses under `/api/v1` have in addition, for programs that are made for Lsky Pro v2."""

from __future__ import annotations

from imagehost_client.testing._store import Record

FIELD_ALIASES = {"permission": "is_public"}
"""Form fields of Lsky Pro, with the names of ours."""


def extend_envelope(envelope: Record) -> Record:
    """Return the envelope of a response with `status` and `message`."""
    if not envelope["success"]:
        error = envelope["error"]
        return {**envelope, "status": False, "message": f"{error['message']}: {error['details']}"}
    return {**envelope, "status": True, "message": "OK"}


def extend_image(image: Record) -> Record:
    """Return the record of an uploaded image with the names of Lsky Pro."""
    url, links = image["url"], image["links"]
    return {
        **image,
        "key": image["id"],
        "name": image["filename"],
        "origin_name": image["original_filename"],
        "mimetype": image["mime_type"],
        "extension": url.rpartition(".")[2],
        "links": {
            **links,
            "thumbnail_url": image["thumb_url"],
            "markdown_with_link": f"[{links['markdown']}]({url})",
        },
    }
