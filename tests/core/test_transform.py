"""Transforms are read from canonical text only, and written back in one spelling."""

from __future__ import annotations

import doctest
from itertools import permutations
from random import Random
from urllib.parse import quote, urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from imagehost_core import transform as module
from imagehost_core.errors import BadRequestError, NotFoundError
from imagehost_core.formats import BY_EXTENSION, FORMATS, Format
from imagehost_core.transform import (
    AUTO,
    DEFAULT_QUALITY,
    EXTENSIONS,
    FORMAT_NAMES,
    MAX_PARAMETERS,
    MAX_SIDE,
    Auto,
    Fit,
    Transform,
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
)
HIGHEST = {"w": 8192, "h": 8192, "q": 100}
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


def refused(query: str) -> list[str]:
    """Return the names of the faults for which a query is refused."""
    with pytest.raises(BadRequestError) as caught:
        parse_transform(query)
    return [fault.name for fault in caught.value.errors]


def test_the_example_in_the_modules_docstring_is_true() -> None:
    assert doctest.testmod(module).failed == 0


def test_without_parameters_nothing_is_asked_for() -> None:
    assert parse_transform() == parse_transform("") == parse_transform({}) == Transform()
    assert Transform() == Transform(width=None, height=None, quality=None, fit=Fit.COVER, format=None)


def test_every_parameter_is_read() -> None:
    wanted = Transform(width=300, height=200, quality=75, fit=Fit.INSIDE, format=Format.AVIF)
    pairs = ["w=300", "h=200", "q=75", "fit=inside", "fm=avif"]
    for order in permutations(pairs):
        assert parse_transform("&".join(order)) == wanted


@pytest.mark.parametrize("name", HIGHEST)
@given(data=st.data())
def test_every_integer_in_range_is_taken_as_text_and_as_a_number(name: str, data: st.DataObject) -> None:
    value = data.draw(st.integers(1, HIGHEST[name]))
    taken = parse_transform(f"{name}={value}")
    assert taken == parse_transform({name: str(value)}) == parse_transform({name: value})
    assert {"w": taken.width, "h": taken.height, "q": taken.quality}[name] == value


@pytest.mark.parametrize("name", HIGHEST)
@pytest.mark.parametrize("text", NOT_CANONICAL)
def test_what_is_no_canonical_integer_is_refused(name: str, text: str) -> None:
    assert refused(f"{name}={text}") == [name]


@pytest.mark.parametrize("name", HIGHEST)
def test_what_is_above_the_range_is_refused(name: str) -> None:
    assert refused(f"{name}={HIGHEST[name] + 1}") == [name]
    with pytest.raises(BadRequestError):
        parse_transform({name: HIGHEST[name] + 1})


@pytest.mark.parametrize("value", [0, -1, True, pytest.param(10**5000, id="without a text"), None, 3.0])
def test_numbers_of_an_embedding_program_are_checked_like_text(value: object) -> None:
    with pytest.raises(BadRequestError):
        parse_transform({"w": value})  # type: ignore[dict-item]
    with pytest.raises(BadRequestError):
        parse_transform({"fit": value})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["w", "h", "q", "fit", "fm"])
@pytest.mark.parametrize("query", ["{}", "{}=", "a=1&{}", "{}&a=1"])
def test_a_name_without_a_value_is_refused(name: str, query: str) -> None:
    assert refused(query.format(name)) == [name]


@pytest.mark.parametrize(
    ("name", "value"), [("w", "5"), ("h", "5"), ("q", "5"), ("fit", "cover"), ("fm", "jpg")]
)
def test_a_name_that_is_given_twice_is_refused_even_with_the_same_value(name: str, value: str) -> None:
    assert refused(f"{name}={value}&{name}={value}") == [name]
    assert refused(f"{name}={value}&x=1&{quote(name)}={value}&{name}={value}") == [name]
    assert refused(f"{name}={value}&%{ord(name[0]):02X}{name[1:]}={value}") == [name]


def test_a_digit_that_is_percent_encoded_is_that_digit() -> None:
    # RFC 3986, section 2.3: addresses that differ in the encoding of an unreserved character only are equal.
    assert parse_transform("w=%33%30%30&f%69t=%63over") == parse_transform("w=300&fit=cover")


@pytest.mark.parametrize("fit", Fit)
def test_the_five_fits_are_taken(fit: Fit) -> None:
    assert parse_transform(f"fit={fit.value}").fit is fit
    assert Transform(fit=fit.value).fit is fit


def test_the_fits_are_those_of_the_specification() -> None:
    assert {fit.value for fit in Fit} == {"cover", "contain", "fill", "inside", "outside"}


@pytest.mark.parametrize("text", ["crop", "Cover", "COVER", "", "cover%20", "none", "max", "scale-down"])
def test_another_fit_is_refused(text: str) -> None:
    assert refused(f"fit={text}") == ["fit"]


def test_the_formats_are_those_of_the_specification_and_auto() -> None:
    assert {name: parse_transform(f"fm={name}").format for name in FORMAT_NAMES} == {
        "jpg": Format.JPEG,
        "png": Format.PNG,
        "webp": Format.WEBP,
        "avif": Format.AVIF,
        "auto": AUTO,
    }


@pytest.mark.parametrize("text", ["gif", "jpeg", "JPG", "", ".jpg", "image/webp", "tiff", "pjpg"])
def test_another_format_is_refused(text: str) -> None:
    assert refused(f"fm={text}") == ["fm"]


def test_the_extensions_are_those_of_the_contract() -> None:
    assert {name: parse_transform(extension=name).format for name in EXTENSIONS} == {
        **BY_EXTENSION,
        "auto": AUTO,
    }
    assert set(EXTENSIONS) == {"jpg", "jpeg", "png", "webp", "avif", "gif", "auto"}


@pytest.mark.parametrize("extension", ["", "JPG", "tiff", "jpg ", ".jpg", "html", "php", "jpg/..", "svg"])
@pytest.mark.parametrize("query", ["", "w=0", "fm=jpg"])
def test_another_extension_does_not_exist_whatever_the_query(extension: str, query: str) -> None:
    with pytest.raises(NotFoundError):
        parse_transform(query, extension=extension)
    with pytest.raises(NotFoundError):
        parse_extension(extension)


@pytest.mark.parametrize("extension", [None, *EXTENSIONS])
def test_fm_decides_the_format_else_the_extension(extension: str | None) -> None:
    assert parse_transform("fm=png", extension=extension).format is Format.PNG
    assert parse_transform("w=1", extension=extension).format is parse_extension(extension)


@pytest.mark.parametrize(
    "query", ["utm_source=x", "W=0", "width=0", "x", "=1", "&&&", "w[]=0", "dpr=2", "x=1&x=2"]
)
def test_unknown_names_are_ignored(query: str) -> None:
    assert parse_transform(f"{query}&w=5") == parse_transform("w=5")


def test_more_than_64_parameters_are_refused() -> None:
    assert parse_transform("&".join(["a=1"] * MAX_PARAMETERS)) == Transform()
    assert refused("&".join(["a=1"] * (MAX_PARAMETERS + 1))) == ["the query"]


def test_all_faults_are_reported_together_each_once() -> None:
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


def test_a_transform_cannot_be_built_wrong_and_names_every_fault() -> None:
    with pytest.raises(BadRequestError) as caught:
        Transform(0, 8193, True, "crop", "webp")  # type: ignore[arg-type]
    assert [fault.name for fault in caught.value.errors] == ["w", "h", "q", "fit", "the format"]


@pytest.mark.parametrize("name", ["width", "height", "quality"])
@pytest.mark.parametrize("value", [0, -1, 8193, 1.0, "1", True, pytest.param(10**5000, id="without a text")])
def test_a_side_or_quality_of_a_transform_is_an_integer_in_range(name: str, value: object) -> None:
    with pytest.raises(BadRequestError):
        Transform(**{name: value})  # type: ignore[arg-type]


@given(TRANSFORMS)
@example(Transform())
def test_a_transform_survives_its_canonical_query(transform: Transform) -> None:
    assert parse_transform(transform.to_query()) == transform
    assert parse_transform(transform.to_query()).to_query() == transform.to_query()


@given(TRANSFORMS, st.randoms(use_true_random=False))
def test_requests_that_mean_the_same_have_one_canonical_query(transform: Transform, random: Random) -> None:
    pairs = [pair for pair in transform.to_query().split("&") if pair] + ["utm=1"]
    if transform.fit is Fit.COVER:
        pairs.append("fit=cover")
    random.shuffle(pairs)
    assert parse_transform("&".join(pairs)).to_query() == transform.to_query()


@given(TRANSFORMS, TRANSFORMS)
def test_different_transforms_have_different_canonical_queries(one: Transform, other: Transform) -> None:
    assert (one.to_query() == other.to_query()) is (one == other)


def test_gif_is_asked_for_by_the_extension_and_has_no_name_in_the_query() -> None:
    moving = Transform(width=5, format=Format.GIF)
    assert moving.to_query() == "w=5"
    assert parse_transform(moving.to_query(), extension="gif") == moving


def test_the_canonical_query_has_its_names_in_order_and_no_defaults() -> None:
    whole = Transform(1, 2, 3, Fit.FILL, AUTO)
    assert whole.to_query() == "w=1&h=2&q=3&fit=fill&fm=auto"
    assert Transform(fit=Fit.COVER).to_query() == ""


@given(
    st.text()
    | st.lists(st.tuples(st.sampled_from("whq") | st.text(max_size=3), st.text(max_size=5))).map(urlencode)
)
def test_any_query_is_a_transform_or_a_bad_request(query: str) -> None:
    try:
        transform = parse_transform(query)
    except BadRequestError as error:
        assert error.errors  # noqa: PT017
    else:
        assert parse_transform(transform.to_query()) == transform


def test_every_format_with_a_quality_has_a_default_of_it() -> None:
    assert {fmt for fmt, traits in FORMATS.items() if traits.has_quality} == set(DEFAULT_QUALITY)


CHROME = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"
SAFARI_13 = "image/png,image/svg+xml,image/*;q=0.8,video/*;q=0.8,*/*;q=0.5"


@pytest.mark.parametrize(
    ("accept", "fmt"),
    [
        (CHROME, Format.AVIF),
        (SAFARI_13, Format.JPEG),
        ("image/webp,*/*", Format.WEBP),
        ("", Format.JPEG),
        ("*/*", Format.JPEG),
        ("image/*", Format.JPEG),
        ("IMAGE/AVIF", Format.AVIF),
        ("image/webp;q=0.1, image/avif;q=0.001", Format.AVIF),
        ("image/avif;q=0, image/webp", Format.WEBP),
        ("image/avif;q=0.000,image/webp;Q=0.", Format.JPEG),
        ("image/avif ; q=0 , image/webp ; q=1", Format.WEBP),
        ("image/avif;v=1;q=0", Format.JPEG),
        ("image/avif;profile=x", Format.AVIF),
        ("image/avifs", Format.JPEG),
        ("ximage/avif", Format.JPEG),
        ("image/png;x=image/avif", Format.JPEG),
        (",,;,;;q=0,", Format.JPEG),
        ("image/avif;q=rubbish", Format.AVIF),
    ],
)
def test_auto_is_the_best_format_that_the_viewer_names(accept: str, fmt: Format) -> None:
    assert negotiate(accept, Format.JPEG) is fmt


@pytest.mark.parametrize("stored", [Format.GIF, Format.WEBP])
def test_auto_keeps_an_animation_moving(stored: Format) -> None:
    assert negotiate(CHROME, stored, animated=True) is Format.WEBP
    assert negotiate("image/avif", stored, animated=True) is stored
    assert negotiate("", stored, animated=True) is stored


@given(st.text(), st.sampled_from(Format), st.booleans())
def test_any_accept_header_has_an_answer(accept: str, stored: Format, animated: bool) -> None:
    assert negotiate(accept, stored, animated=animated) in {Format.AVIF, Format.WEBP, stored}


@given(st.permutations(CHROME.split(",")))
def test_the_order_of_an_accept_header_means_nothing(entries: list[str]) -> None:
    assert negotiate(",".join(entries), Format.PNG) is Format.AVIF


def test_auto_is_the_only_member_of_its_kind() -> None:
    assert list(Auto) == [AUTO]
