"""Forms that pages send without a script: URL-encoded bodies, and their protection against CSRF."""

from __future__ import annotations

from hmac import compare_digest
from urllib.parse import parse_qsl

from imagehost_core.errors import BadRequestError, ForbiddenError
from imagehost_server.auth.cookies import csrf_token
from imagehost_server.http.body import read_body, unsupported_media_type
from imagehost_server.web.page import PageRequest

FORM = "application/x-www-form-urlencoded"
MAX_FORM_BYTES = 64 * 2**10
MAX_FIELDS = 200
CSRF_FIELD = "csrf_token"


async def read_form(request: PageRequest) -> dict[str, str]:
    """Return the fields of a form, as `read_form_lists` does; of a repeated one, the last value."""
    return {name: values[-1] for name, values in (await read_form_lists(request)).items()}


async def read_form_lists(request: PageRequest) -> dict[str, list[str]]:
    """Return all values of each field of a form.

    Raises:
        UnsupportedMediaTypeError: The body is no URL-encoded form.
        PayloadTooLargeError: It has more than 64 KiB.
        BadRequestError: It is malformed.
        ForbiddenError: The client is signed in, and the form lacks the CSRF token of the session.
        UnauthorizedError: The session has ended meanwhile.
    """
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != FORM:
        raise unsupported_media_type(FORM, content_type)
    declared = request.headers.get("content-length")
    body = await read_body(request.receive, MAX_FORM_BYTES, request.settings.http, declared)
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError as error:
        raise BadRequestError("expected a URL-encoded form in UTF-8 but received another body") from error
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    require_form_token(request, fields.get(CSRF_FIELD, [None])[-1])
    await request.require_valid_token()
    return fields


def require_form_token(request: PageRequest, received: str | None) -> None:
    """Raise ForbiddenError unless a form has the CSRF token of the session; without a session it needs none.

    Args:
        request: The request.
        received: The value of the form's field, or `None`.
    """
    if not request.identity.by_cookie:
        return
    expected = csrf_token(request.identity.token)
    if received is None or not compare_digest(received.encode(), expected.encode()):
        raise ForbiddenError("expected the token of this session in the form but received another")


def safe_path(path: str | None) -> str:
    """Return the path to continue at after signing in: a path of this site, or `/`.

    After the first slash, a second one or a backslash would make it another site.
    """
    is_safe = path is not None and path.startswith("/") and path.isascii() and path.isprintable()
    return path if path and is_safe and path[1:2] not in ("/", "\\") else "/"
