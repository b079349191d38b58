"""The page `/upload`: a form that works without a script, which its script extends, and what apps share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve
from litestar import Response

from imagehost_core.errors import ImageHostError
from imagehost_core.formats import FORMATS, UPLOADABLE
from imagehost_server.auth.cookies import is_user_navigation
from imagehost_server.http.multipart import URL_FIELD, FormKind, MultipartFormParser, ParsedForm, parse_form
from imagehost_server.http.responses import refuse
from imagehost_server.routes.upload import UploadResults, log_failed_form, store_form
from imagehost_server.web.failures import describe_failure
from imagehost_server.web.forms import CSRF_FIELD, require_form_token, require_same_origin
from imagehost_server.web.page import page
from imagehost_server.web.pages.images import read_albums
from imagehost_server.web.presentation import ImagePresenter
from imagehost_server.web.request import WebRequest

FORMAT_FIELD, ORIGINAL = "format", "original"
"""The choice of the form that keeps the uploaded format."""
EXTRA_FIELDS = frozenset({CSRF_FIELD})
PRESETS = {"remove_exif": "true"}
"""What a form means that lacks a field: what the page says, whatever the default of the API is."""
SHARED_ORIGINS = frozenset({"", "null"})
"""`Origin` of what is shared to the app: no page has caused the request, so that browsers name none."""


@page("/upload", sign_in=True)
async def upload_page(request: WebRequest) -> Response[Any]:
    """Show the form; that of an album with its visibility as the preset."""
    return await _show(request, request.query_params.get("album_id", ""))


@page("/upload", method="POST", sign_in=True, is_multipart=True)
async def upload(request: WebRequest) -> Response[Any]:
    """Store the files of a form that was sent without a script, or that were shared, and show the results.

    It counts as an upload request of the API.
    """
    is_shared = _is_shared(request)
    if not is_shared:
        require_same_origin(request)
    host, executors, account = request.host, request.executors, request.account
    decision = await executors.database.run(host.rate_limiter.admit, account, upload=True)
    decision.raise_if_refused(host.now(), account.name)
    parser = MultipartFormParser(request.headers.get("content-type"), host.uploads.stage)
    try:
        try:
            form, received_at = await parse_form(
                request.receive, parser, executors.slow_writes, request.settings.http, host.now
            )
        finally:
            # What is shared has no token, and files alone: it is stored with the presets.
            if not is_shared or parser.fields:
                require_form_token(request, dict(parser.fields).get(CSRF_FIELD))
        await request.require_valid_token()
        outcome = await store_form(request, _to_api_form(form), parser, received_at)
        assert isinstance(outcome, UploadResults)
    except ImageHostError as error:
        failure = refuse(error, request.scope["state"])
        log_failed_form(request, parser, failure)
        image_url = _field(parser, URL_FIELD)
        return await _show(request, _field(parser, "album_id"), failure=failure, image_url=image_url)
    finally:
        await executors.slow_writes.run(parser.close)
    errors = [
        (error.filename, describe_failure(error.code, error.details, request.texts))
        for error in outcome.errors
    ]
    return await _show(request, _field(parser, "album_id"), images=outcome.images, errors=errors)


def _field(parser: MultipartFormParser, name: str) -> str:
    return dict(parser.fields).get(name, "")


def _is_shared(request: WebRequest) -> bool:
    """Return whether a person has shared files to the app, which has no CSRF token.

    No page can cause such a request: it would name the site of that page.
    """
    return is_user_navigation(request.scope["headers"]) and (
        request.headers.get("origin", "") in SHARED_ORIGINS
    )


def _to_api_form(form: ParsedForm) -> ParsedForm:
    """Return the form as form 1 of the API has it: with presets, and `format=original` as not to convert."""
    given = {name for name, value in form.fields if value}
    fields = [(name, value) for name, value in PRESETS.items() if name not in given]
    for name, value in form.fields:
        if name == FORMAT_FIELD and value == ORIGINAL:
            fields.append(("convertToWebP", "false"))
        elif name not in EXTRA_FIELDS:
            fields.append((name, value))
    return evolve(form, kind=FormKind.BATCH, fields=tuple(fields))


async def _show(
    request: WebRequest,
    album_id: str,
    *,
    failure: ImageHostError | None = None,
    image_url: str = "",
    images: list[Any] | None = None,
    errors: Sequence[tuple[str, str]] = (),
) -> Response[Any]:
    albums = await request.executors.database.run(read_albums, request, album_id)
    presenter = ImagePresenter(request.host.urls, request.settings.delivery)
    return request.render(
        "upload.html",
        album=next((album for album in albums if str(album.id) == album_id), None),
        albums=albums,
        failure=failure,
        images=images or [],
        errors=errors,
        image_url=image_url,
        has_variants=presenter.has_variants,
        accepted=",".join(FORMATS[fmt].media_type for fmt in UPLOADABLE),
        formats=[(fmt.value, info.label) for fmt, info in FORMATS.items() if info.is_upload_option],
    )
