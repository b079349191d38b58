"""Uploads: both forms, one or many files."""

from __future__ import annotations

from attrs import frozen
from litestar import Response

from imagehost_core import ImageHost
from imagehost_core.errors import (
    FieldError,
    ImageHostError,
    InternalError,
    NotFoundError,
    UnavailableError,
    ValidationError,
    quote_value,
)
from imagehost_core.limits import require_file_size
from imagehost_core.models import Account, Image
from imagehost_core.resources import ImageRecord
from imagehost_core.services import IdempotentRequest, SubOperation
from imagehost_core.uploads.filenames import clean_filename
from imagehost_core.uploads.options import UploadOptions, parse_upload_options
from imagehost_server.api.idempotency import fingerprint, run_idempotent
from imagehost_server.api.operation import operation
from imagehost_server.api.request import ApiRequest, to_litestar
from imagehost_server.http.multipart import (
    MultipartFormParser,
    ParsedForm,
    UploadedFile,
    UploadForm,
    parse_form,
)
from imagehost_server.http.responses import RawResponse, error_dict, log_cause, success, to_api_error


@frozen(kw_only=True)
class FileErrorRecord:
    """A file of form 1 that was not stored."""

    index: int
    filename: str
    code: str
    message: str
    details: str


@operation(
    "POST /v1/upload",
    summary="Upload one image, or up to 20.",
    body="multipart/form-data",
    response=(ImageRecord, {"images": list[ImageRecord], "errors": list[FileErrorRecord]}),
    idempotent=True,
)
async def upload_images(request: ApiRequest) -> Response[bytes]:
    """Answer the record (form 2), or what became of each file (form 1)."""
    executors, host = request.executors, request.host
    reader = MultipartFormParser(request.headers.get("content-type"), host.uploads.stage)
    try:
        form = await parse_form(request.receive, reader, executors.upload_bodies, request.settings.http)
        key = request.idempotency_key
        reply = await executors.uploads.run(upload, host, request.account, form, request.id, key)
    finally:
        await executors.upload_bodies.run(reader.close)
    return to_litestar(reply)


ROUTES = (upload_images,)


def upload(
    host: ImageHost, account: Account, form: ParsedForm, request_id: str, key: str | None
) -> RawResponse:
    """Store the files of a form, once for a key, and return the answer.

    Raises:
        ImageHostError: An option or the key is wrong, or nothing could be stored.
    """
    files = [(file.filename, file.staged.size, file.staged.sha256) for file in form.files]
    request = fingerprint("upload", [form.kind.value, form.fields, files])
    return run_idempotent(
        host, account, key, request, lambda claim: success(store(host, account, form, request_id, claim))
    )


def store(
    host: ImageHost,
    account: Account,
    form: ParsedForm,
    request_id: str,
    claim: IdempotentRequest | None = None,
) -> object:
    """Store the files of a form; return `data` of the answer.

    Contract 4: *Form 2 → `data` is the image record. Form 1 → `data` = `{"images", "errors"}`: every file
    is tried, order kept; at least one stored → 200; none → the files' common error status, or 422 where
    they differ.*

    Raises:
        ImageHostError: An option is wrong, or nothing could be stored.
    """
    options = parse_upload_options(form.fields)
    _check_album(host, account, options)
    record = host.urls.image_record
    if form.kind is UploadForm.SINGLE:
        return record(_store(host, account, form.files[0], options, _part(claim, 0)))
    images, errors = [], []
    failures: list[ImageHostError] = []
    for index, file in enumerate(form.files):
        try:
            images.append(record(_store(host, account, file, options, _part(claim, index))))
        except Exception as error:
            known = to_api_error(error)
            log_cause(known, error, request_id)
            failures.append(known)
            name = clean_filename(file.filename)
            errors.append(FileErrorRecord(index=index, filename=name, **error_dict(known)))
    if not images:
        raise _common(failures, errors)
    return {"images": images, "errors": errors}


def _part(claim: IdempotentRequest | None, index: int) -> SubOperation | None:
    return None if claim is None else claim.sub_operation(index)


def _store(
    host: ImageHost, account: Account, file: UploadedFile, options: UploadOptions, once: SubOperation | None
) -> Image:
    require_file_size(clean_filename(file.filename), file.staged.size)
    return host.upload(file.staged, owner=account, filename=file.filename, options=options, idempotency=once)


def _check_album(host: ImageHost, account: Account, options: UploadOptions) -> None:
    """Let a known album pass: the request's fault, not each file's, and found before any is stored."""
    if options.album_id is None:
        return
    try:
        host.albums.get(options.album_id, owner=account)
    except NotFoundError:
        fault = FieldError("album_id", "the id of an album of yours", quote_value(options.album_id))
        raise ValidationError(errors=[fault]) from None


def _common(failures: list[ImageHostError], errors: list[FileErrorRecord]) -> ImageHostError:
    """Return the error of a request of which no file was stored."""
    details = "; ".join(f"files[{error.index}] {error.filename}: {error.details}" for error in errors)
    kinds = {type(failure) for failure in failures}
    if len(kinds) > 1:
        return ValidationError(details)
    first = failures[0]
    if isinstance(first, UnavailableError):
        waits = [failure.retry_after for failure in failures if isinstance(failure, UnavailableError)]
        return UnavailableError(details, retry_after=max(waits))
    if isinstance(first, InternalError):
        return first
    return type(first)(details)
