"""The upload route: one image (form 2), or up to 20 files (form 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Self

import msgspec
from attrs import asdict, evolve, frozen
from litestar import Response
from msgspec import UNSET, Meta, Struct, UnsetType, field

from imagehost_core._util.fields import parse_choice
from imagehost_core.endpoints import parse_endpoint_url, require_public_address
from imagehost_core.error_responses import error_dict
from imagehost_core.errors import (
    ErrorCollector,
    FieldError,
    ImageHostError,
    InternalError,
    UnavailableError,
    ValidationError,
    misspelled_names,
)
from imagehost_core.formats import MAX_QUALITY
from imagehost_core.limits import MAX_FILE_BYTES
from imagehost_core.models import Album, Image, PublicAlbum, Scope
from imagehost_core.resources import ImageRecord
from imagehost_core.services.idempotency import IdempotentRequest
from imagehost_core.storage import StagedFile
from imagehost_core.uploads import (
    BOOLEANS,
    MAX_DESCRIPTION,
    STORED_FORMATS,
    UploadOptions,
    clean_filename,
)
from imagehost_server.http.multipart import (
    URL_FIELD,
    FormKind,
    MultipartFormParser,
    ParsedForm,
    UploadedFile,
    parse_form,
    url_filename,
)
from imagehost_server.http.outgoing import Outgoing, UnreachableError
from imagehost_server.http.responses import (
    RawResponse,
    Success,
    envelope,
    log_cause,
    success_response,
    to_api_error,
)
from imagehost_server.integrations import DELETE_URL
from imagehost_server.metrics import FILES_COUNTED
from imagehost_server.middleware.access_log import access_logger, token_fields
from imagehost_server.routes.body import member
from imagehost_server.routes.handler import ApiRequest, operation
from imagehost_server.routes.idempotency import fingerprint, run_idempotent

File = Annotated[str, Meta(extra_json_schema={"format": "binary"})]


class UploadForm(Struct, kw_only=True):
    """Either `files[]` (form 1, up to 20 files) or `image` (form 2, one file).

    An empty text field counts as absent; a boolean is `true`, `false`, `1` or `0`.
    """

    files: (
        Annotated[
            list[File],
            member("Form 1: 1 to 20 image files; the response has a list.", minItems=1, maxItems=20),
        ]
        | UnsetType
    ) = field(default=UNSET, name="files[]")
    image: Annotated[File, member("Form 2: one image file; the response is its record.")] | UnsetType = UNSET
    image_url: (
        Annotated[
            str,
            member(
                "Form 2 without a file: an https URL with a public host, which is fetched. Redirects are not "
                "followed; 50 MB and 30 seconds are the limits.",
                format="uri",
            ),
        ]
        | UnsetType
    ) = UNSET
    album_id: Annotated[int, member("The album to add the images to.", minimum=1)] | UnsetType = UNSET
    description: Annotated[str, member("A text about the images.", maxLength=MAX_DESCRIPTION)] | UnsetType = (
        UNSET
    )
    quality: Annotated[int, member("Compression quality.", minimum=1, maximum=MAX_QUALITY)] | UnsetType = (
        UNSET
    )
    format: Annotated[
        str,
        member(
            "In any case. Takes precedence over `convertToWebP`, unless it is `auto`.",
            enum=list(STORED_FORMATS),
        ),
    ] = "auto"
    remove_exif: (
        Annotated[bool, member("Remove EXIF, XMP and IPTC metadata. The default is a setting of the host.")]
        | UnsetType
    ) = UNSET
    convert_to_webp: Annotated[
        bool, member("Convert to WebP if that is smaller. No effect beside `format`.")
    ] = field(default=True, name="convertToWebP")
    auto_rename: Annotated[bool, member("Generate a random file name.")] = False
    is_public: (
        Annotated[
            bool,
            member(
                "Whether the gallery shows the images. The default is true, but false in a private album."
            ),
        ]
        | UnsetType
    ) = UNSET
    reuse: Annotated[
        bool,
        member(
            "Return your newest image of the same bytes and the same other options, if there is one, in "
            "place of storing another."
        ),
    ] = False
    delete_url: Annotated[
        bool,
        member(
            "Whether the records have `delete_url`: a page on which anyone can delete the image in 30 days."
        ),
    ] = False


@frozen(kw_only=True)
class FileErrorRecord:
    """The error of a file of form 1 that was not stored.

    Attributes:
        index: The position of the file in the request, from 0.
        filename: The name that is offered to browsers, with the extension of the stored format.
        code: The error code.
        message: A short summary.
        details: *expected … but received …* for every error.
    """

    index: int
    filename: str
    code: str
    message: str
    details: str


@frozen(kw_only=True)
class UploadedImageRecord(ImageRecord):
    """An image record, as the response of an upload has it.

    Attributes:
        delete_url: The URL of a page on which anyone can delete the image in 30 days; null where the host has
            no pages, or where it cannot be signed any more. Only where the form has `delete_url`.
        is_reused: Whether the image was there before. Only where the form has `reuse`.
    """

    delete_url: str | UnsetType | None = UNSET
    is_reused: bool | UnsetType = UNSET

    @classmethod
    def of(cls, source: Image | Album | PublicAlbum) -> Self:
        """Return the record of an image."""
        return cls(**asdict(ImageRecord.of(source), recurse=False))


@frozen(kw_only=True)
class UploadResults:
    """The records of the files of form 1 that were stored, and the errors of the others, in their order.

    Attributes:
        images: The records of the stored images, in the order of the request.
        errors: The files that were not stored, in the order of the request.
    """

    images: list[UploadedImageRecord]
    errors: list[FileErrorRecord]


@operation(
    "POST /v1/upload",
    Scope.IMAGES_WRITE,
    summary="Upload one image, or up to 20.",
    errors=(413, 415, 422),
    idempotent=True,
)
async def upload_images(request: ApiRequest) -> Response[Success[UploadedImageRecord | UploadResults]]:
    """Respond with the image record (form 2), or with records and errors of all files (form 1)."""
    host, executors = request.host, request.executors
    content_type = request.headers.get("content-type")
    parser = MultipartFormParser(content_type, host.uploads.stage)

    async def store(idempotent: IdempotentRequest | None) -> RawResponse:
        return success_response(await store_form(request, form, parser, received_at, idempotent))

    try:
        form, received_at = await parse_form(
            request.receive, parser, executors.slow_writes, request.settings.http, host.now
        )
        await request.require_valid_token()
        response = await run_idempotent(request, _fingerprint(form), store)
    except ImageHostError as error:
        log_failed_form(request, parser, error)
        raise
    finally:
        await executors.slow_writes.run(parser.close)
    if _parse_delete_url(form.fields):
        response = await _with_delete_urls(request, response)
    return envelope(response)


def _parse_delete_url(fields: Iterable[tuple[str, str]]) -> bool:
    """Return whether a form asks for URLs that delete its images.

    Raises:
        ValidationError: The field is repeated with other values or no boolean, or its name is misspelled.
    """
    given = [(name, value.lower()) for name, value in fields if value]
    errors = misspelled_names((name for name, _ in given), (DELETE_URL,))
    values = [value for name, value in given if name == DELETE_URL]
    for value in dict.fromkeys(values):
        parse_choice(DELETE_URL, value, BOOLEANS, errors)
    if len(values) > 1:
        errors.append(FieldError(DELETE_URL, "one value", "several"))
    if errors:
        raise ValidationError(errors=errors)
    return bool(values) and BOOLEANS[values[0]]


async def _with_delete_urls(request: ApiRequest, response: RawResponse) -> RawResponse:
    """Return a response whose records have `delete_url`; null without pages, and where it cannot be signed.

    The images are stored, so that no error makes the request one that has failed.
    The stored response of an idempotent request has none: who reads the database cannot delete an image.
    """
    body = msgspec.json.decode(response.body)
    data = body["data"]
    for record in data.get("images", [data]):
        record[DELETE_URL] = None
        if request.settings.web.enabled:
            with suppress(ImageHostError):
                query = await request.executors.database.run(
                    request.host.images.sign_deletion, record["id"], owner=request.account
                )
                record[DELETE_URL] = f"{request.settings.site_url}/i/{record['id']}/delete?{query}"
    return evolve(response, body=msgspec.json.encode(body))


FETCH_SECONDS = 30.0
"""The time for the fetch of an `image_url`."""


def _fingerprint(form: ParsedForm) -> str:
    files = [(file.filename, file.staged.sha256) for file in form.files]
    return fingerprint("upload", [form.kind.value, form.fields, files, form.url])


async def _fetch_files(
    request: ApiRequest, form: ParsedForm, parser: MultipartFormParser
) -> tuple[UploadedFile, ...]:
    """Return the files of a form; with a URL the one that it refers to, fetched now.

    What is refused after it is counted with its file.

    Raises:
        ValidationError: The URL is not allowed, or there was no complete response in time.
    """
    files = form.files if form.url is None else (await _fetch(request, form.url, parser.stage_fetched()),)
    request.scope["state"][FILES_COUNTED] = True
    return files


async def _fetch(request: ApiRequest, url: str, staged: StagedFile) -> UploadedFile:
    slow_writes, allow_loopback = request.executors.slow_writes, request.settings.webhooks.allow_loopback
    try:
        endpoint = parse_endpoint_url(url.partition("#")[0], allow_loopback=allow_loopback)
        await Outgoing(partial(require_public_address, allow_loopback=allow_loopback)).download(
            endpoint,
            lambda piece: slow_writes.run(staged.write, piece),
            timeout=FETCH_SECONDS,
            max_bytes=MAX_FILE_BYTES,
        )
    except ValidationError as error:
        raise ValidationError(errors=[evolve(each, name=URL_FIELD) for each in error.errors]) from error
    except UnreachableError as error:
        raise ValidationError(errors=[FieldError(URL_FIELD, "an image", str(error))]) from error
    return UploadedFile(url_filename(endpoint.url), staged)


async def _parse_options(request: ApiRequest, fields: Iterable[tuple[str, str]]) -> UploadOptions:
    """Return the options in the fields of a form.

    Raises:
        ImageHostError: Options are not allowed.
    """
    texts = list(fields)
    errors = ErrorCollector()
    with errors.catch():
        _parse_delete_url(texts)
    with errors.catch():
        options = await request.call(request.host.uploads.parse_options, texts, aliases=request.field_aliases)
    errors.raise_if_any()
    return options


async def store_form(
    request: ApiRequest,
    form: ParsedForm,
    parser: MultipartFormParser,
    received_at: datetime,
    idempotent: IdempotentRequest | None = None,
) -> UploadedImageRecord | UploadResults:
    """Store the files of a form: the one of form 2, or every one that can be stored.

    They are a microsecond apart, in their order, however long each takes and in whatever order they finish.

    Args:
        request: The request.
        form: Its form.
        parser: The parser of the form, which owns its staged files.
        received_at: When the body was complete: the `created_at` of the first file.
        idempotent: The request as one that has an effect once.

    Raises:
        ImageHostError: Options are not allowed, or no file could be stored.
    """
    host, account = request.host, request.account
    options = await _parse_options(request, form.fields)
    files = await _fetch_files(request, form, parser)

    stored: list[str] = []

    def store(index: int, file: UploadedFile) -> UploadedImageRecord:
        try:
            image = host.uploads.upload(
                file.staged,
                owner=account,
                filename=file.filename,
                options=options,
                idempotency=None if idempotent is None else idempotent.sub_operation(index),
                received_at=received_at + timedelta(microseconds=index),
            )
        except Exception as error:
            log_failed_file(request, file.filename, file.staged.size, to_api_error(error))
            raise
        stored.append(image.id)
        request.log(images=" ".join(stored))
        record = UploadedImageRecord.of(image)
        return evolve(record, is_reused=bool(image.is_reused)) if options.reuse else record

    def store_all() -> UploadedImageRecord | UploadResults:
        if form.kind is FormKind.SINGLE:
            return store(0, files[0])
        return _store_batch(files, store, request.id)

    return await request.executors.uploads.run(account.id, store_all)


def log_failed_form(request: ApiRequest, parser: MultipartFormParser, error: ImageHostError) -> None:
    """Log each file of a form that was refused before any of them was stored.

    Args:
        request: The request.
        parser: The parser of the form, with the files that have been received.
        error: Why it was refused.
    """
    if FILES_COUNTED not in request.scope["state"]:
        for name, size in parser.files:
            log_failed_file(request, name, size, error)


def log_failed_file(request: ApiRequest, name: str | None, size: int, error: ImageHostError) -> None:
    """Log a file that was not stored.

    Args:
        request: The request.
        name: Its name, as it was sent.
        size: The bytes that were received of it.
        error: Why.
    """
    if not request.settings.log.access:
        return
    state = request.scope["state"]
    fields = {
        **token_fields(state),
        "request_id": request.id,
        "client": state["ip_address"],
        "file": clean_filename(name),
        "size": size,
        "code": error.code,
        "reason": error.details,
    }
    access_logger.info("upload failed", extra={"fields": fields})


def _store_batch(
    files: Sequence[UploadedFile], store: Callable[[int, UploadedFile], UploadedImageRecord], request_id: str
) -> UploadResults:
    """Store every file that can be stored; return the records and the errors of the others, in order.

    Raises:
        ImageHostError: No file could be stored.
    """
    images: list[UploadedImageRecord] = []
    records: list[FileErrorRecord] = []
    errors: list[ImageHostError] = []
    for index, file in enumerate(files):
        try:
            images.append(store(index, file))
        except Exception as cause:
            error = to_api_error(cause)
            log_cause(error, cause, request_id)
            errors.append(error)
            records.append(
                FileErrorRecord(index=index, filename=clean_filename(file.filename), **error_dict(error))
            )
    if not images:
        raise _common_error(errors, records)
    return UploadResults(images=images, errors=records)


def _common_error(errors: list[ImageHostError], records: list[FileErrorRecord]) -> ImageHostError:
    """Return the error of a request of which no file was stored: the files' common one, or 422."""
    details = "; ".join(f"files[{record.index}] {record.filename}: {record.details}" for record in records)
    if len({type(error) for error in errors}) > 1:
        return ValidationError(details)
    first = errors[0]
    if isinstance(first, UnavailableError):
        retry_after = max(error.retry_after for error in errors if isinstance(error, UnavailableError))
        return UnavailableError(details, retry_after=retry_after)
    if isinstance(first, InternalError):
        return first
    return type(first)(details)
