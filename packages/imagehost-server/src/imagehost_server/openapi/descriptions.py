"""Descriptions of the members of records in the OpenAPI document.

A name has one meaning in all records; those whose meaning depends on the record are listed with its name.
"""

from __future__ import annotations

from typing import Any

MEMBERS: dict[str, str] = {
    "account": "The account.",
    "accounts": "The accounts of the page.",
    "album": "The album after the change.",
    "album_id": "The album that contains the image, if any.",
    "albums": "The albums of the page.",
    "attempts": "How often the delivery was attempted.",
    "api_per_day": "API requests per day.",
    "api_per_hour": "API requests per hour.",
    "api_per_minute": "API requests per minute.",
    "bbcode": "A snippet for forums.",
    "bulk_ids_per_minute": "Image ids in bulk requests per minute.",
    "changed": "Always true.",
    "code": "The error code.",
    "cover_image_id": "The newest image of the album.",
    "cover_url": "The `thumb_url` of the cover.",
    "created_at": "When it was created.",
    "deleted": "Always true.",
    "deliveries": "The deliveries of the page.",
    "description": "Up to 2,000 characters.",
    "details": "*expected … but received …* for every error.",
    "disabled_reason": "Why deliveries stopped; null while the webhook is active.",
    "duration_ms": "The duration of the last attempt, in milliseconds.",
    "ended": "Always true.",
    "error": "The reason why there was no response.",
    "errors": "The files that were not stored, in the order of the request.",
    "event": "The type of the event.",
    "event_id": "The id of the event, as in `webhook-id`.",
    "events": "The types of the events that are sent; an empty list means all.",
    "expires_at": "When it expires; null = never.",
    "filename": "The name that is offered to browsers, with the extension of the stored format.",
    "format": "The stored format.",
    "frames": "The number of frames.",
    "has_alpha": "Whether it has transparent pixels.",
    "height": "Pixels of the upright image.",
    "html": "A snippet for web pages.",
    "id": "Identifier.",
    "image_count": "The number of images in the album.",
    "image_id": "The id of the image, as in the request.",
    "images": "The images of the page.",
    "index": "The position of the file in the request, from 0.",
    "is_active": "Whether events are delivered.",
    "is_animated": "Whether it has more than one frame.",
    "ip_address": "The IP address of the sign-in.",
    "is_current": "Whether it is the session of the request.",
    "is_public": "Whether galleries show it.",
    "keys": "The API keys of the page.",
    "last_attempt_at": "When the delivery was last attempted.",
    "last_used_at": "When the token was last used, to the minute.",
    "limit": "The limit of the window.",
    "limits": "The rate limit windows.",
    "links": "Snippets that embed the image.",
    "markdown": "A snippet for Markdown.",
    "message": "A short summary.",
    "mime_type": "The media type of the stored format.",
    "name": "Up to 100 characters.",
    "next_attempt_at": "When the delivery is attempted next; null if it is not.",
    "next_cursor": "The `cursor` of the next page; null on the last one.",
    "original_filename": "The name of the uploaded file, without path components and control characters.",
    "page": "The page number; null after a cursor.",
    "pagination": "The position of the page.",
    "per_page": "The maximum number of items of a page.",
    "placeholder": "A ThumbHash in base64: a blurred preview in about 25 bytes.",
    "prefix": "The first characters of the token.",
    "quota": "The storage quota.",
    "quota_bytes": "Bytes that may be stored; null is the host's quota, 0 is unlimited.",
    "remaining": "What remains.",
    "reset": "When the window ends.",
    "response_excerpt": "The first bytes of the response to the last attempt.",
    "response_status": "The status of the response to the last attempt.",
    "results": "The result of each image, in the order of the request.",
    "revoked_at": "When the key was revoked; null while it is valid.",
    "role": "Operators manage all accounts.",
    "scopes": "What the key may do.",
    "secret": "The secret of the signatures. Returned only here.",
    "sessions": "The sessions of the page.",
    "sha256": "SHA-256 of the stored bytes, in hexadecimal.",
    "size": "Bytes of the stored image.",
    "status": "The result.",
    "success": "Always true.",
    "suspended": "Whether the account is suspended.",
    "thumb_url": "The URL of a thumbnail within 320×320 pixels.",
    "token": "The secret token. Returned only here.",
    "total": "The number of items of the whole list; null with `q`, `format` or dates.",
    "total_pages": "The number of pages of the whole list; null if `total` is.",
    "updated_at": "When it was last changed.",
    "uploads_per_minute": "Upload requests per minute.",
    "url": "The URL of the stored image.",
    "usage": "What the account uses.",
    "user_agent": "The `User-Agent` of the sign-in.",
    "webhook_id": "The webhook.",
    "webhooks": "The webhooks of the page.",
    "width": "Pixels of the upright image.",
}
"""The description of a member, by its name or by `Record.name`."""

MEMBERS |= {
    "BulkResultRecord.error": "Why the image was not found, or was not deleted completely yet.",
    "BulkResultRecord.id": "The id of the image, as in the request.",
    "SignedUrls.items": "The URL of each item, in the order of the request.",
    "SignedUrlRecord.expires_at": "When the URL expires.",
    "SignedUrlRecord.url": "The URL, with the parameters `exp` and `sig`.",
    "ManagedAccountRecord.limits": "The limits that differ from the host's.",
    "QuotaRecord.bytes": "The quota in bytes; null without one.",
    "QuotaRecord.remaining": "The rest of the quota in bytes; null without one.",
    "UploadResults.images": "The records of the stored images, in the order of the request.",
    "PublicAlbumRecord.cover_image_id": "The newest public image of the album.",
    "PublicAlbumRecord.image_count": "The number of public images in the album.",
    "PublicImageList.album": "The album that `album_id` names; absent without one.",
    "UsageRecord.albums": "The number of albums.",
    "UsageRecord.bytes": "Bytes of all masters.",
    "UsageRecord.images": "The number of images.",
    "SignedUrl.expires_at": "When the URL expires.",
    "SignedUrl.url": "The URL, with the parameters `exp` and `sig`.",
    "WebhookRecord.url": "The URL that receives the events.",
    "NewWebhookRecord.url": "The URL that receives the events.",
    "ProbeResult.status": "`alive` or `ready`.",
    "ProbeResult.uploads": "`refused` while the disk has too little free space; only for loopback clients.",
}


def describe(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a record with a description of each member that has none.

    Args:
        name: The name of the record.
        schema: Its schema.
    """
    properties = schema.get("properties", {})
    described = {
        member: {"description": text, **item}
        if (text := MEMBERS.get(f"{name}.{member}", MEMBERS.get(member))) and "$ref" not in item
        else item
        for member, item in properties.items()
    }
    return {**schema, "properties": described} if described else schema
