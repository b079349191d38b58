"""The headers of every page: its content security policy, caches and search engines."""

from __future__ import annotations

from urllib.parse import urlsplit

from imagehost_core.models import Account


def origin_of(url: str) -> str:
    """Return the scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def page_headers(
    delivery_url: str, viewer: Account | None, *, public: bool = False, listed: bool = False
) -> dict[str, str]:
    """Return the headers of every page.

    Args:
        delivery_url: The base URL of images, which may have another origin.
        viewer: The account that is signed in, whose pages no cache may store.
        public: Whether it is a public page; no cache may store the others.
        listed: Whether search engines may list it if it is public.
    """
    images = origin_of(delivery_url)
    policy = (
        f"default-src 'none'; img-src 'self' {images} data: blob:; script-src 'self'; style-src 'self'; "
        f"connect-src 'self' {images}; manifest-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    )
    headers = {
        "content-security-policy": policy,
        "cache-control": "no-cache" if public and viewer is None else "no-store",
        "vary": "Accept-Language, Cookie",
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
    }
    return headers if public and listed else {**headers, "x-robots-tag": "noindex"}
