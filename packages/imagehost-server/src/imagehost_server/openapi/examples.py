"""Examples of bodies in the OpenAPI document: one for each record and each JSON request."""

from __future__ import annotations

from typing import Any

_TIME = "2026-01-31T09:30:00.000000Z"
_LATER = "2026-02-01T09:30:00.000000Z"
_IMAGE_ID = "4fTq0ZrXb81KcVnE"
_IMAGE_URL = f"https://img.example/img/{_IMAGE_ID}.webp"

_PUBLIC_IMAGE: dict[str, Any] = {
    "id": _IMAGE_ID,
    "description": "A cat asleep on a keyboard",
    "width": 4032,
    "height": 3024,
    "is_animated": False,
    "placeholder": "1QcSHQRnh493V4dIh4eXh1h4kJUI",
    "url": _IMAGE_URL,
    "thumb_url": f"{_IMAGE_URL}?w=320&h=320&fit=inside",
    "created_at": _TIME,
}
_LINKS = {
    "url": _IMAGE_URL,
    "html": f'<img src="{_IMAGE_URL}" alt="cat" width="4032" height="3024">',
    "markdown": f"![cat]({_IMAGE_URL})",
    "bbcode": f"[img]{_IMAGE_URL}[/img]",
}
_IMAGE: dict[str, Any] = {
    "id": _IMAGE_ID,
    "album_id": 7,
    "filename": "cat.webp",
    "original_filename": "cat.jpg",
    "description": _PUBLIC_IMAGE["description"],
    "is_public": True,
    "format": "webp",
    "mime_type": "image/webp",
    "size": 482_113,
    "width": 4032,
    "height": 3024,
    "is_animated": False,
    "frames": 1,
    "has_alpha": False,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "placeholder": _PUBLIC_IMAGE["placeholder"],
    "url": _IMAGE_URL,
    "thumb_url": _PUBLIC_IMAGE["thumb_url"],
    "links": _LINKS,
    "created_at": _TIME,
    "updated_at": _TIME,
}
_ALBUM: dict[str, Any] = {
    "id": 7,
    "name": "Cats",
    "description": "",
    "is_public": True,
    "image_count": 1,
    "cover_image_id": _IMAGE_ID,
    "cover_url": _PUBLIC_IMAGE["thumb_url"],
    "created_at": _TIME,
    "updated_at": _TIME,
}
_KEY: dict[str, Any] = {
    "id": "key_7Rk2vQ0xYwT4",
    "name": "blog",
    "prefix": "ihk_5mT0aZ",
    "scopes": ["images:read", "images:write"],
    "expires_at": None,
    "last_used_at": None,
    "created_at": _TIME,
    "revoked_at": None,
}
_WEBHOOK: dict[str, Any] = {
    "id": "wh_9sLq3cNf71Ab",
    "url": "https://hooks.example/imagehost",
    "events": ["image.uploaded"],
    "description": "",
    "is_active": True,
    "created_at": _TIME,
    "disabled_reason": None,
}
_SIGNED_URL = {"url": f"{_IMAGE_URL}?w=640&exp=1769937000&sig=k3Xq0f", "expires_at": _LATER}
_LIMITS = {
    "api_per_minute": None,
    "api_per_hour": None,
    "api_per_day": None,
    "uploads_per_minute": 60,
    "bulk_ids_per_minute": None,
}
_ACCOUNT: dict[str, Any] = {
    "id": 2,
    "name": "alice",
    "role": "user",
    "limits": _LIMITS,
    "quota_bytes": 10_737_418_240,
    "suspended": False,
    "created_at": _TIME,
    "usage": {"bytes": 482_113, "images": 1, "albums": 1},
}
_SESSION: dict[str, Any] = {
    "id": "9sLq3cNf71AbXw2K",
    "user_agent": "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
    "ip_address": "192.0.2.7",
    "created_at": _TIME,
    "expires_at": _LATER,
    "last_used_at": _TIME,
    "is_current": True,
}
_PAGINATION = {"page": 1, "per_page": 20, "total": 1, "total_pages": 1, "next_cursor": None}

EXAMPLES: dict[str, dict[str, Any]] = {
    "ImageRecord": _IMAGE,
    "PublicImageRecord": _PUBLIC_IMAGE,
    "Links": _LINKS,
    "AlbumRecord": _ALBUM,
    "KeyRecord": _KEY,
    "NewKeyRecord": {**_KEY, "token": "ihk_5mT0aZ…"},
    "WebhookRecord": _WEBHOOK,
    "NewWebhookRecord": {**_WEBHOOK, "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
    "Pagination": _PAGINATION,
    "ImageList": {"images": [_IMAGE], "pagination": _PAGINATION},
    "PublicImageList": {"images": [_PUBLIC_IMAGE], "pagination": _PAGINATION},
    "AlbumList": {"albums": [_ALBUM], "pagination": _PAGINATION},
    "KeyList": {"keys": [_KEY], "pagination": _PAGINATION},
    "SessionRecord": _SESSION,
    "SessionList": {"sessions": [_SESSION], "pagination": _PAGINATION},
    "LimitOverridesRecord": _LIMITS,
    "ManagedAccountRecord": _ACCOUNT,
    "AccountList": {"accounts": [_ACCOUNT], "pagination": _PAGINATION},
    "WebhookList": {"webhooks": [_WEBHOOK], "pagination": _PAGINATION},
    "DeletedImage": {"id": _IMAGE_ID, "deleted": True},
    "DeletedAlbum": {"id": 7, "deleted": True},
    "SignedUrl": _SIGNED_URL,
    "NewAlbum": {"name": "Cats", "description": "", "is_public": True},
    "AlbumChanges": {"name": "Cats and dogs"},
    "AlbumMembers": {"image_ids": [_IMAGE_ID]},
    "ImageChanges": {"album_id": 7, "is_public": False},
    "BulkImageChanges": {"image_ids": [_IMAGE_ID], "album_id": 7},
    "BulkImageIds": {"image_ids": [_IMAGE_ID]},
    "BulkResults": {"results": [{"id": _IMAGE_ID, "status": "updated"}]},
    "SignedUrls": {"items": [{"image_id": _IMAGE_ID, **_SIGNED_URL}]},
    "SignedUrlsRequest": {"items": [{"image_id": _IMAGE_ID, "w": 640}], "expires_in": 3600},
    "SignedUrlRequest": {"w": 640, "fm": "webp", "expires_in": 3600},
    "NewKey": {"name": "blog", "scopes": ["images:read", "images:write"], "expires_at": None},
    "KeyChanges": {"name": "blog, 2026"},
    "NewWebhook": {"url": "https://hooks.example/imagehost", "events": ["image.uploaded"]},
    "WebhookChanges": {"is_active": True},
    "SignIn": {"username": "admin", "password": "correct horse battery staple"},
    "NewAccount": {"username": "alice", "password": "correct horse battery staple"},
    "AccountChanges": {"limits": {"uploads_per_minute": 60}, "quota_bytes": 10_737_418_240},
    "AccountLimits": {"uploads_per_minute": 60},
    "PasswordChange": {
        "current_password": "correct horse battery staple",
        "new_password": "staple battery horse correct",
    },
}
"""An example of a schema, by its name."""
