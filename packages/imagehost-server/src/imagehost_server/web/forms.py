"""Forms: their fields, their token, and the site that has sent them."""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest
from typing import TypeVar, cast
from urllib.parse import parse_qs

from imagehost_core._util.fields import parse_choice
from imagehost_core.errors import BadRequestError, FieldError, ForbiddenError, ValidationError
from imagehost_server.auth.cookies import csrf_token
from imagehost_server.http.body import read_body, unsupported_media_type
from imagehost_server.web.page_headers import origin_of
from imagehost_server.web.request import WebRequest

T = TypeVar("T")

FORM = "application/x-www-form-urlencoded"

MAX_FORM_BYTES = 64 * 2**10

MAX_FIELDS = 200

CSRF_FIELD = "csrf_token"


async def read_form(request: WebRequest, max_bytes: int = MAX_FORM_BYTES) -> dict[str, list[str]]:
    """Return all values of each field of a form.

    Args:
        request: The request.
        max_bytes: The most bytes of the form.

    Raises:
        UnsupportedMediaTypeError: The body is no URL-encoded form.
        PayloadTooLargeError: It has more bytes.
        BadRequestError: It is malformed.
        ForbiddenError: The client is signed in, and the form lacks the CSRF token of the session.
        UnauthorizedError: The session has ended meanwhile.
    """
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != FORM:
        raise unsupported_media_type(FORM, content_type)
    declared = request.headers.get("content-length")
    body = await read_body(request.receive, max_bytes, request.settings.http, declared)
    try:
        fields = parse_qs(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError as error:
        raise BadRequestError("expected a URL-encoded form in UTF-8 but received another body") from error
    require_form_token(request, fields[CSRF_FIELD][-1] if CSRF_FIELD in fields else None)
    await request.require_valid_token()
    return fields


def read_choice(fields: Mapping[str, str], name: str, choices: Mapping[str, T]) -> T:
    """Return the value of a choice that a form has made.

    Args:
        fields: The fields of the form.
        name: The field of the choice; one that is missing is empty.
        choices: The value of each choice that the form offers.

    Raises:
        ValidationError: It is another one, which never stands for one of them.
    """
    errors: list[FieldError] = []
    value = parse_choice(name, fields.get(name, ""), choices, errors)
    if errors:
        raise ValidationError(errors=errors)
    return cast("T", value)


def require_form_token(request: WebRequest, received: str | None) -> None:
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


def require_same_origin(request: WebRequest) -> None:
    """Raise ForbiddenError if another site has caused an unsafe request, by `Sec-Fetch-Site` or `Origin`.

    It protects the forms that need no session, such as that of signing in; the others have a CSRF token too.
    """
    origin = origin_of(request.settings.base_url)
    site = request.headers.get("sec-fetch-site", "same-origin")
    if site not in ("same-origin", "none") or request.headers.get("origin", origin) != origin:
        raise ForbiddenError("expected a form of this site but another site has sent the request")
