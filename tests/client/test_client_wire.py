"""Decoding of responses: envelopes, records, errors and unexpected responses."""

from __future__ import annotations

import inspect
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_client import _wire, errors, models
from imagehost_client.models import (
    Account,
    Album,
    ApiKey,
    ApiKeyWithToken,
    Format,
    Image,
    Links,
    Member,
    MemberStatus,
    Page,
    PublicImage,
    RateLimit,
    ResponseMeta,
    SignedUrl,
    Webhook,
    WebhookDelivery,
    WebhookWithSecret,
)

TIMES = st.datetimes(datetime(1970, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC))
ENUM_LIKE = {
    "MemberStatusName": st.sampled_from(MemberStatus) | st.text(),
    "BulkStatusName": st.sampled_from(models.BulkStatus) | st.text(),
    "DeliveryStatusName": st.sampled_from(models.DeliveryStatus) | st.text(),
    "RoleName": st.sampled_from(models.Role) | st.text(),
    "tuple[EventName, ...]": st.tuples(st.sampled_from(models.EventKind), st.just("album.deleted")),
    "FormatName": st.sampled_from(Format) | st.text(),
    "DeliveryEventName": st.sampled_from(models.EventKind) | st.text(),
}
PLAIN = {
    "str": st.text(),
    "int": st.integers(-(2**63), 2**63),
    "bool": st.booleans(),
    "datetime": TIMES,
    "tuple[str, ...]": st.lists(st.text()).map(tuple),
}


def records(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for records of `kind`."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    written = {name: text for base in kind.__mro__ for name, text in inspect.get_annotations(base).items()}
    for attribute in attrs.fields(kind):
        name = written[attribute.name]
        optional = name.endswith(" | None")
        name = name.removesuffix(" | None")
        if attribute.name == "meta":
            continue
        if name in PLAIN | ENUM_LIKE:
            fields[attribute.name] = (PLAIN | ENUM_LIKE)[name]
        elif name.startswith("tuple["):
            inner = name.removeprefix("tuple[").removesuffix(", ...]")
            fields[attribute.name] = st.lists(records(vars(models)[inner]), max_size=2).map(tuple)
        else:
            fields[attribute.name] = records(vars(models)[name])
        if optional:
            fields[attribute.name] = st.none() | fields[attribute.name]
    return st.builds(kind, **fields)


ALL = [
    Account,
    Album,
    ApiKey,
    WebhookDelivery,
    Image,
    Links,
    Member,
    models.Membership,
    ApiKeyWithToken,
    WebhookWithSecret,
    PublicImage,
    SignedUrl,
    Webhook,
    models.Deleted,
    models.DeletedAlbum,
    models.SessionWithToken,
    models.Session,
    models.Account,
    models.BulkResult,
    models.SignedImageUrl,
]


@pytest.mark.parametrize("kind", ALL)
@given(data=st.data())
def test_records_round_trip_through_json(kind: type[Any], data: st.DataObject) -> None:
    record = data.draw(records(kind))
    text = json.dumps(models._to_json(record))
    if isinstance(record, models.Result):
        assert json.loads(text) == json.loads(record.to_json()) == models._to_json(record)
    decoded = _wire.decode(kind, json.loads(text))
    assert decoded == record
    for attribute in attrs.fields(kind):
        assert type(getattr(decoded, attribute.name)) is type(getattr(record, attribute.name)) or isinstance(
            getattr(decoded, attribute.name), str
        )


@pytest.mark.parametrize("kind", ALL)
@given(
    data=st.data(), extra=st.dictionaries(st.text(min_size=1).map(lambda name: f"new_{name}"), st.integers())
)
def test_unknown_fields_are_dropped(kind: type[Any], data: st.DataObject, extra: dict[str, int]) -> None:
    record = data.draw(records(kind))
    values: Any = models._to_json(record)
    assert _wire.decode(kind, {**values, **extra}) == record


IMAGE: dict[str, Any] = {
    "id": "a" * 16,
    "album_id": None,
    "filename": "a.png",
    "original_filename": "a.png",
    "description": "",
    "is_public": True,
    "format": "png",
    "mime_type": "image/png",
    "size": 3,
    "width": 10,
    "height": 10,
    "is_animated": False,
    "frames": 1,
    "has_alpha": False,
    "sha256": "0" * 64,
    "placeholder": "",
    "url": "https://h/img/a.png",
    "thumb_url": "https://h/img/a.webp",
    "links": {"url": "", "html": "", "markdown": "", "bbcode": ""},
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00.25+02:00",
}


def test_known_formats_become_enum_members_and_unknown_ones_stay_strings() -> None:
    assert _wire.decode(Image, IMAGE).format is Format.PNG
    jxl: object = _wire.decode(Image, {**IMAGE, "format": "jxl"}).format
    assert jxl == "jxl"
    assert type(jxl) is str


def test_times_are_converted_to_utc() -> None:
    image = _wire.decode(Image, IMAGE)
    assert image.updated_at == datetime(2025, 12, 31, 22, 0, 0, 250000, UTC)
    assert image.updated_at.tzinfo is UTC


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", "3"),
        ("size", True),
        ("size", 3.0),
        ("is_public", "false"),
        ("is_public", 0),
        ("filename", None),
        ("filename", ["x"]),
        ("album_id", "7"),
        ("created_at", "yesterday"),
        ("created_at", "2026-01-01T00:00:00"),
        ("created_at", None),
        ("links", None),
        ("format", 7.5),
    ],
)
def test_a_field_of_another_type_is_a_server_error_with_its_name(name: str, value: object) -> None:
    with pytest.raises(errors.ServerError, match=name) as caught:
        _wire.decode(Image, {**IMAGE, name: value})
    assert caught.value.code == "INVALID_RESPONSE"


@pytest.mark.parametrize("data", [None, [], "x", 7, {}])
def test_data_of_another_shape_is_a_server_error(data: object) -> None:
    with pytest.raises(errors.ServerError, match="Image"):
        _wire.decode(Image, data)


@pytest.mark.parametrize(
    "data", [None, [], {"images": []}, {"images": [], "pagination": None}, {"pagination": {}}]
)
def test_an_incomplete_page_is_a_server_error(data: object) -> None:
    with pytest.raises(errors.ServerError):
        _wire.decode_page(Image, "images", data)


def test_a_page_has_records_and_pagination() -> None:
    pagination = {"page": 1, "per_page": 20, "total": 1, "total_pages": 1, "next_cursor": None}
    page = _wire.decode_page(Image, "images", {"images": [IMAGE], "pagination": pagination})
    assert isinstance(page, Page)
    assert [image.id for image in page] == ["a" * 16]
    assert (len(page), page.total, page.next_cursor) == (1, 1, None)


def test_an_integer_id_becomes_a_string() -> None:
    assert _wire.decode(models.Deleted, {"id": 7, "deleted": True}).id == "7"


def test_secrets_are_redacted() -> None:
    key = ApiKeyWithToken(
        id="1", name="n", prefix="p", scopes=(), created_at=datetime.now(UTC), token="ihk_secret"
    )
    assert "ihk_secret" not in repr(key)
    assert key.token == "ihk_secret"
    now = datetime.now(UTC)
    account = models.AccountSummary(name="n", created_at=now)
    session = models.SessionWithToken(id="s", token="ihs_secret", expires_at=now, account=account)
    assert "ihs_secret" not in repr(session)


def read(status: int, body: object, headers: dict[str, str] | None = None) -> object:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return _wire.read_data(status, headers or {}, text, meta=ResponseMeta(request_id="r1"), retry_after=2.0)


def error_reply(status: int, body: object, headers: dict[str, str] | None = None) -> errors.ImageHostError:
    with pytest.raises(errors.ImageHostError) as caught:
        read(status, body, headers)
    return caught.value


def test_a_success_returns_its_data() -> None:
    assert read(200, {"success": True, "data": {"a": 1}}) == {"a": 1}
    assert read(201, {"success": True, "data": None}) is None


@pytest.mark.parametrize("code", sorted(errors.BY_CODE))
def test_the_class_of_an_error_is_determined_by_its_code(code: str) -> None:
    envelope = {"success": False, "error": {"code": code, "message": "M", "details": "D"}}
    for status in (418, 404):
        error = error_reply(status, envelope)
        assert type(error) is errors.BY_CODE[code]
        assert (error.code, error.message, error.details, error.status) == (code, "M", "D", status)
        assert (error.request_id, error.retry_after) == ("r1", 2.0)


@pytest.mark.parametrize("status", sorted(errors.BY_STATUS))
def test_the_class_of_an_unknown_code_is_determined_by_the_status(status: int) -> None:
    error = error_reply(status, {"success": False, "error": {"code": "NEW", "message": "M", "details": None}})
    assert type(error) is errors.BY_STATUS[status]
    assert (error.code, error.details) == ("NEW", "")


@pytest.mark.parametrize(
    ("status", "kind"), [(418, errors.ImageHostError), (500, errors.ServerError), (200, errors.ServerError)]
)
def test_an_unknown_code_and_status_have_a_base_class(status: int, kind: type[errors.ImageHostError]) -> None:
    assert type(error_reply(status, {"success": False, "error": {}})) is kind


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><body>Bad\r\n gateway</body></html>",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        {"success": True},
        {"data": 1},
        {"success": "true", "data": 1},
        {"success": False, "error": "no"},
        [],
        "text",
    ],
)
@pytest.mark.parametrize("status", [200, 404, 500])
def test_an_unexpected_body_is_a_server_error_with_a_short_excerpt(status: int, body: object) -> None:
    error = error_reply(status, body, {"content-type": "text/html"})
    assert type(error) is errors.ServerError
    assert error.code == "INVALID_RESPONSE"
    assert f"status {status}" in error.details
    assert len(error.details) < 400
    assert error.details.isprintable()


@pytest.mark.parametrize(
    ("status", "kind"), [(one, errors.BY_STATUS[one]) for one in sorted(_wire.PROXY_STATUSES)]
)
def test_proxy_errors_without_an_envelope_have_their_classes(
    status: int, kind: type[errors.ImageHostError]
) -> None:
    error = error_reply(status, b"<html>")
    assert type(error) is kind
    assert error.message == f"The proxy in front of the image host answered {status}"


def test_a_redirect_hints_at_the_base_url() -> None:
    error = error_reply(301, b"", {"location": "https://h/v1/"})
    assert "https://h/v1/" in error.details
    assert "base_url" in error.details


def test_a_success_with_an_error_status_is_a_server_error() -> None:
    assert type(error_reply(500, {"success": True, "data": 1})) is errors.ServerError


def test_metadata_is_read_from_headers() -> None:
    headers = {
        "x-request-id": "r",
        "x-ratelimit-limit": "60",
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": "1795262400",
        "idempotent-replayed": "true",
    }
    meta = _wire.read_meta(headers, 2)
    assert meta == ResponseMeta("r", RateLimit(60, 0, datetime(2026, 11, 21, 12, tzinfo=UTC)), True, 2)


@given(st.dictionaries(st.sampled_from(["limit", "remaining", "reset"]), st.text(max_size=30)))
def test_an_invalid_rate_limit_is_none(values: dict[str, str]) -> None:
    meta = _wire.read_meta({f"x-ratelimit-{name}": value for name, value in values.items()}, 1)
    assert meta.rate_limit is None or isinstance(meta.rate_limit, RateLimit)


def test_times_are_formatted_in_utc_and_require_an_offset() -> None:
    assert (
        _wire.rfc3339(datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))) == "2026-01-01T00:00:00Z"
    )
    with pytest.raises(ValueError, match="UTC offset"):
        _wire.rfc3339(datetime(2026, 1, 1))
