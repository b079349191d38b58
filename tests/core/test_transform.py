"""Parsing of transform parameters, canonical queries and content negotiation."""

from __future__ import annotations

from itertools import permutations
from random import Random
from urllib.parse import quote, urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from imagehost_core.errors import BadRequestError, NotFoundError
from imagehost_core.formats import BY_EXTENSION, FORMATS, Format
from imagehost_core.transform import (
    AUTO,
    EXTENSIONS,
    FORMAT_NAMES,
    MAX_PARAMETERS,
    MAX_SIDE,
    Auto,
    Fit,
    Transform,
    accept_weight,
    negotiate,
    parse_extension,
    parse_transform,
)

SIDES = st.none() | st.integers(1, MAX_SIDE)
TRANSFORMS = st.builds(
    Transform,
    width=SIDES,
    height=SIDES,
    quality=st.none() | st.integers(1, 100),
    fit=st.sampled_from(Fit),
    format=st.none() | st.sampled_from(list(FORMAT_NAMES.values())),
    card=st.booleans(),
)
MAXIMUM = {"w": 8192, "h": 8192, "q": 100}
NOT_CANONICAL = [
    "",
    "0",
    "-1",
    "+3",
    "%2B3",
    "0300",
    "300px",
    "3.0",
    "3e2",
    "0x1F",
    "1_0",
    "%20300",
    "300%20",
    "+300",
]
NOT_CANONICAL += [
    "300%0A",
    "%EF%BC%93",
    "%D9%A3",
    "%C2%B2",
    "%ff",
    "%00",
    "300%00",
    "1,2",
    "null",
    "auto",
    "9" * 5000,
]
NOT_CANONICAL += ["300;h=200", "%", "%3"]


def rejected_parameters(query: str) -> list[str]:
    """Return the names of the parameters in the error for an invalid query."""
    with pytest.raises(BadRequestError) as caught:
        parse_transform(query)
    return [error.name for error in caught.value.errors]


def test_without_parameters_the_transform_has_its_defaults() -> None:
    assert parse_transform() == parse_transform("") == parse_transform({}) == Transform()
    assert Transform() == Transform(width=None, height=None, quality=None, fit=Fit.COVER, format=None)


def test_every_parameter_is_parsed_in_any_order() -> None:
    expected = Transform(width=300, height=200, quality=75, fit=Fit.INSIDE, format=Format.AVIF)
    pairs = ["w=300", "h=200", "q=75", "fit=inside", "fm=avif"]
    for order in permutations(pairs):
        assert parse_transform("&".join(order)) == expected


@pytest.mark.parametrize("name", MAXIMUM)
@given(data=st.data())
def test_every_integer_in_range_is_accepted_as_text_and_as_int(name: str, data: st.DataObject) -> None:
    value = data.draw(st.integers(1, MAXIMUM[name]))
    transform = parse_transform(f"{name}={value}")
    assert transform == parse_transform({name: str(value)}) == parse_transform({name: value})
    assert {"w": transform.width, "h": transform.height, "q": transform.quality}[name] == value


@pytest.mark.parametrize("name", MAXIMUM)
@pytest.mark.parametrize("text", NOT_CANONICAL)
def test_text_that_is_not_a_canonical_integer_is_rejected(name: str, text: str) -> None:
    assert rejected_parameters(f"{name}={text}") == [name]


@pytest.mark.parametrize("name", MAXIMUM)
def test_an_integer_above_the_range_is_rejected(name: str) -> None:
    assert rejected_parameters(f"{name}={MAXIMUM[name] + 1}") == [name]
    with pytest.raises(BadRequestError):
        parse_transform({name: MAXIMUM[name] + 1})


@pytest.mark.parametrize("value", [0, -1, True, pytest.param(10**5000, id="too long for str()"), None, 3.0])
def test_parameters_of_other_types_are_rejected(value: object) -> None:
    with pytest.raises(BadRequestError):
        parse_transform({"w": value})
    with pytest.raises(BadRequestError):
        parse_transform({"fit": value})


@pytest.mark.parametrize("name", ["w", "h", "q", "fit", "fm"])
@pytest.mark.parametrize("query", ["{}", "{}=", "a=1&{}", "{}&a=1"])
def test_a_parameter_without_a_value_is_rejected(name: str, query: str) -> None:
    assert rejected_parameters(query.format(name)) == [name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("w", "5"), ("h", "5"), ("q", "5"), ("fit", "cover"), ("fm", "jpg")],
        *[("exp", "5"), ("sig", ""), ("share", "ihl_1")],
    ],
)
def test_a_repeated_parameter_is_rejected_even_with_the_same_value(name: str, value: str) -> None:
    assert rejected_parameters(f"{name}={value}&{name}={value}") == [name]
    assert rejected_parameters(f"{name}={value}&x=1&{quote(name)}={value}&{name}={value}") == [name]
    assert rejected_parameters(f"{name}={value}&%{ord(name[0]):02X}{name[1:]}={value}") == [name]


def test_percent_encoded_characters_are_decoded() -> None:
    # RFC 3986, section 2.3: URLs that differ in the encoding of an unreserved character only are equal.
    assert parse_transform("w=%33%30%30&f%69t=%63over") == parse_transform("w=300&fit=cover")


@pytest.mark.parametrize("fit", Fit)
def test_a_fit_is_accepted_by_name(fit: Fit) -> None:
    assert parse_transform(f"fit={fit.value}").fit is fit
    assert Transform(fit=fit.value).fit is fit


def test_there_are_the_five_fits_of_sharp() -> None:
    assert {fit.value for fit in Fit} == {"cover", "contain", "fill", "inside", "outside"}


@pytest.mark.parametrize("text", ["crop", "Cover", "COVER", "", "cover%20", "none", "max", "scale-down"])
def test_another_fit_is_rejected(text: str) -> None:
    assert rejected_parameters(f"fit={text}") == ["fit"]


def test_fm_accepts_four_formats_and_auto() -> None:
    assert {name: parse_transform(f"fm={name}").format for name in FORMAT_NAMES} == {
        "jpg": Format.JPEG,
        "png": Format.PNG,
        "webp": Format.WEBP,
        "avif": Format.AVIF,
        "auto": AUTO,
    }


@pytest.mark.parametrize("text", ["gif", "jpeg", "JPG", "", ".jpg", "image/webp", "tiff", "pjpg"])
def test_another_format_is_rejected(text: str) -> None:
    assert rejected_parameters(f"fm={text}") == ["fm"]


def test_the_extensions_are_those_of_all_formats_and_auto() -> None:
    assert {name: parse_transform(extension=name).format for name in EXTENSIONS} == {
        **BY_EXTENSION,
        "auto": AUTO,
    }
    assert set(EXTENSIONS) == {"jpg", "jpeg", "png", "webp", "avif", "gif", "auto"}


@pytest.mark.parametrize("extension", ["", "tiff", "jpg ", ".jpg", "html", "php", "jpg/..", "svg"])
@pytest.mark.parametrize("query", ["", "w=0", "fm=jpg"])
def test_another_extension_is_not_found_regardless_of_the_query(extension: str, query: str) -> None:
    with pytest.raises(NotFoundError):
        parse_transform(query, extension=extension)
    with pytest.raises(NotFoundError):
        parse_extension(extension)


@pytest.mark.parametrize("extension", [None, *EXTENSIONS])
def test_fm_takes_precedence_over_the_extension(extension: str | None) -> None:
    assert parse_transform("fm=png", extension=extension).format is Format.PNG
    assert parse_transform("w=1", extension=extension).format is parse_extension(extension)


@pytest.mark.parametrize(
    "query", ["utm_source=x", "W=0", "width=0", "x", "=1", "&&&", "w[]=0", "dpr=2", "x=1&x=2"]
)
def test_unknown_parameters_are_ignored(query: str) -> None:
    assert parse_transform(f"{query}&w=5") == parse_transform("w=5")


def test_more_than_64_parameters_are_rejected() -> None:
    assert parse_transform("&".join(["a=1"] * MAX_PARAMETERS)) == Transform()
    assert rejected_parameters("&".join(["a=1"] * (MAX_PARAMETERS + 1))) == ["the query"]


def test_all_errors_are_reported_together_without_duplicates() -> None:
    with pytest.raises(BadRequestError) as caught:
        parse_transform("w=0&h=9000&q=101&fit=crop&fm=gif&w=0&w=0")
    assert caught.value.details == (
        "expected one value for w but received several; "
        "expected an integer from 1 to 8192 for w but received '0'; "
        "expected an integer from 1 to 8192 for h but received '9000'; "
        "expected an integer from 1 to 100 for q but received '101'; "
        "expected one of cover, contain, fill, inside, outside for fit but received 'crop'; "
        "expected one of jpg, png, webp, avif, auto for fm but received 'gif'"
    )


def test_an_invalid_transform_cannot_be_constructed_and_every_error_is_reported() -> None:
    with pytest.raises(BadRequestError) as caught:
        Transform(0, 8193, True, "crop", "webp")  # type: ignore[arg-type]
    assert [error.name for error in caught.value.errors] == ["w", "h", "q", "fit", "the format"]


@pytest.mark.parametrize("name", ["width", "height", "quality"])
@pytest.mark.parametrize(
    "value", [0, -1, 8193, 1.0, "1", True, pytest.param(10**5000, id="too long for str()")]
)
def test_sides_and_quality_of_a_transform_are_integers_in_range(name: str, value: object) -> None:
    with pytest.raises(BadRequestError):
        Transform(**{name: value})  # type: ignore[arg-type]


@given(TRANSFORMS)
@example(Transform())
def test_parsing_the_canonical_query_returns_the_transform(transform: Transform) -> None:
    assert parse_transform(transform.to_query()) == transform
    assert parse_transform(transform.to_query()).to_query() == transform.to_query()


@given(TRANSFORMS, st.randoms(use_true_random=False))
def test_equivalent_queries_have_the_same_canonical_query(transform: Transform, random: Random) -> None:
    pairs = [pair for pair in transform.to_query().split("&") if pair] + ["utm=1"]
    if transform.fit is Fit.COVER:
        pairs.append("fit=cover")
    random.shuffle(pairs)
    assert parse_transform("&".join(pairs)).to_query() == transform.to_query()


@given(TRANSFORMS, TRANSFORMS)
def test_different_transforms_have_different_canonical_queries(one: Transform, other: Transform) -> None:
    assert (one.to_query() == other.to_query()) is (one == other)


def test_gif_is_requested_by_extension_and_is_not_in_the_query() -> None:
    transform = Transform(width=5, format=Format.GIF)
    assert transform.to_query() == "w=5"
    assert parse_transform(transform.to_query(), extension="gif") == transform


def test_the_canonical_query_has_a_fixed_order_and_no_defaults() -> None:
    transform = Transform(1, 2, 3, Fit.FILL, AUTO, card=True)
    assert transform.to_query() == "w=1&h=2&q=3&fit=fill&fm=auto&card=1"
    assert Transform(fit=Fit.COVER).to_query() == ""


@pytest.mark.parametrize("value", ["", "0", "true", "01", "2"])
def test_a_link_card_is_requested_by_one_value(value: str) -> None:
    assert parse_transform("card=1").card
    with pytest.raises(BadRequestError, match="card"):
        parse_transform(f"card={value}")


@given(
    st.text()
    | st.lists(st.tuples(st.sampled_from("whq") | st.text(max_size=3), st.text(max_size=5))).map(urlencode)
)
def test_any_query_is_parsed_or_rejected(query: str) -> None:
    try:
        transform = parse_transform(query)
    except BadRequestError as error:
        assert error.errors  # noqa: PT017
    else:
        assert parse_transform(transform.to_query()) == transform


AVIF, WEBP, JPEG, PNG, GIF = Format.AVIF, Format.WEBP, Format.JPEG, Format.PNG, Format.GIF
BROWSER = (AVIF, WEBP)
FALLBACK = (JPEG, PNG)
CHROME = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"

CLIENTS = {
    "Chrome, image": (CHROME, BROWSER),
    "Chrome, page": (
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,"
        "application/signed-exchange;v=b3;q=0.7",
        BROWSER,
    ),
    "Chromium 156, image": (
        "image/jxl,image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
        BROWSER,
    ),
    "Firefox 153, image": ("image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5", BROWSER),
    "Firefox 153, page": ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", FALLBACK),
    "Firefox 65, image": ("image/webp,*/*", (WEBP,)),
    "Safari 17, image": (
        "image/webp,image/avif,image/jxl,image/heic,image/heic-sequence,video/*;q=0.8,image/png,"
        "image/svg+xml,image/*;q=0.8,*/*;q=0.5",
        BROWSER,
    ),
    "Safari 14, image": (
        "image/webp,image/png,image/svg+xml,image/*;q=0.8,video/*;q=0.8,*/*;q=0.5",
        (WEBP,),
    ),
    "Safari 13, image": ("image/png,image/svg+xml,image/*;q=0.8,video/*;q=0.8,*/*;q=0.5", FALLBACK),
    "Apple Mail": ("image/png,image/*;q=0.8", FALLBACK),
    "Internet Explorer 11": ("image/png, image/svg+xml, image/*;q=0.8, */*;q=0.5", FALLBACK),
    "Outlook, curl, wget": ("*/*", FALLBACK),
    "Android, okhttp": ("", FALLBACK),
    "Feed reader": ("image/jpeg,image/gif;q=0.9,image/*;q=0.5", FALLBACK),
}
"""The `Accept` headers of clients for an image, and the formats among which an image decides."""


@pytest.mark.parametrize("name", CLIENTS)
def test_clients_get_formats_that_they_show(name: str) -> None:
    accept, formats = CLIENTS[name]
    assert negotiate(accept) == formats
    assert negotiate(accept, animated=True) == ((WEBP,) if WEBP in formats else (GIF,))


@pytest.mark.parametrize(
    ("accept", "formats"),
    [
        ("image/*", FALLBACK),
        ("IMAGE/AVIF", (AVIF,)),
        ("image/webp;q=0.1, image/avif;q=0.001", (WEBP,)),
        ("image/avif;q=0.5,image/webp;q=0.9", (WEBP,)),
        ("image/webp;q=0.5, image/avif;q=0.5", BROWSER),
        ("image/jpeg, image/avif;q=0.9, image/webp;q=0.9", (JPEG,)),
        ("image/png, image/jpeg;q=0.2, image/webp;q=0.9", FALLBACK),
        ("image/jpeg;q=0.9, image/avif;q=0.9", (AVIF, JPEG)),
        ("image/avif;q=0.5, */*", FALLBACK),
        ("image/avif;q=0.5, */*;q=0.1", (AVIF,)),
        ("image/avif;q=0, image/webp", (WEBP,)),
        ("image/avif;q=0.000,image/webp;Q=0.", FALLBACK),
        ("image/avif ; q=0 , image/webp ; q=1", (WEBP,)),
        ("image/avif;v=1;q=0", FALLBACK),
        ("image/avif;profile=x", (AVIF,)),
        ("image/avifs", FALLBACK),
        ("ximage/avif", FALLBACK),
        ("image/png;x=image/avif", (PNG,)),
        ("image/jpeg;q=0, */*", (PNG,)),
        ("image/*;q=0, */*", FALLBACK),
        (",,;,;;q=0,", FALLBACK),
        ("image/avif;q=invalid", (AVIF,)),
    ],
)
def test_the_image_decides_among_the_formats_of_the_highest_weight(
    accept: str, formats: tuple[Format, ...]
) -> None:
    assert negotiate(accept) == formats


@pytest.mark.parametrize(
    ("side", "formats"),
    [(16_383, BROWSER), (16_384, (AVIF, *FALLBACK)), (32_769, FALLBACK), (65_501, (PNG,))],
)
def test_a_side_that_a_format_cannot_hold_is_not_negotiated(side: int, formats: tuple[Format, ...]) -> None:
    assert negotiate(CHROME, side=side) == formats


@given(st.text(), st.booleans())
def test_any_accept_header_selects_a_format(accept: str, animated: bool) -> None:
    formats = negotiate(accept, animated=animated)
    assert formats
    assert set(formats) <= ({WEBP, GIF} if animated else {*BROWSER, *FALLBACK})


@given(st.fixed_dictionaries({fmt: st.integers(0, 1_000) for fmt in (AVIF, WEBP, JPEG)}))
def test_auto_selects_the_formats_of_the_highest_weight(weights: dict[Format, int]) -> None:
    accept = ", ".join(f"{FORMATS[fmt].media_type};q={weight / 1_000:.3f}" for fmt, weight in weights.items())
    assert {weights.get(fmt, 0) for fmt in negotiate(accept)} <= {max(weights.values()), 0}
    assert any(weights.get(fmt, 0) == max(weights.values()) for fmt in negotiate(accept))


@given(st.permutations(CHROME.split(",")))
def test_the_order_of_an_accept_header_is_ignored(entries: list[str]) -> None:
    assert negotiate(",".join(entries)) == BROWSER


@pytest.mark.parametrize(
    ("accept", "fmt", "weight"),
    [
        (CHROME, WEBP, 1),
        (CHROME, JPEG, 1),
        ("image/webp,*/*;q=0.8", GIF, 0.8),
        ("image/gif;q=0.3,image/*;q=0.8", GIF, 0.3),
        ("*/*", WEBP, 0),
        ("", PNG, 1),
        ("image/png;q=0,*/*", PNG, 0),
    ],
)
def test_wildcards_accept_what_every_browser_shows(accept: str, fmt: Format, weight: float) -> None:
    assert accept_weight(accept, fmt) == weight


def test_auto_is_the_only_member_of_its_enum() -> None:
    assert list(Auto) == [AUTO]
