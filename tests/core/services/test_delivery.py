"""The processing route below HTTP: what a URL resolves to, and which URLs share a variant."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image as PILImage
from tests.open_host import open_host
from tests.screenshots import SCREENSHOTS, encode, photograph
from tests.waiting import wait_until

from imagehost_core import (
    BadRequestError,
    Fit,
    Format,
    Image,
    ImageHost,
    NotFoundError,
    Size,
    Transform,
    UnavailableError,
    ValidationError,
    plan,
)
from imagehost_core.formats import FORMATS, sniff
from imagehost_core.jobs import MIN_DOWNSCALE
from imagehost_core.pixels.strip_metadata import strip_metadata
from imagehost_core.services import delivery
from imagehost_core.services import rendering as renders
from imagehost_core.services.delivery import ResolvedImage
from imagehost_core.settings import DeliverySettings, RenderingSettings, Settings
from imagehost_core.testing import make_image
from imagehost_core.transform import parse_transform

ONE_WORKER = Settings(base_url="https://img.example/v1", rendering=RenderingSettings(processes=1))
CHROME = "image/avif,image/webp,image/apng,*/*;q=0.8"


@pytest.fixture(scope="module")
def photo(host: ImageHost, samples: dict[str, bytes]) -> Image:
    """A stored JPEG of 120×90 pixels."""
    return host.upload(samples["photo.jpg"], owner="admin", filename="cat.jpg", convert_to_webp=False)


@pytest.fixture(scope="module")
def moving(host: ImageHost, samples: dict[str, bytes]) -> Image:
    """A stored GIF of four frames."""
    return host.upload(samples["moving.gif"], owner="admin", convert_to_webp=False)


def shown(host: ImageHost, path: str, query: str = "", accept: str = "") -> PILImage.Image:
    """Return the image that a URL delivers, after checking its format."""
    found = host.delivery.resolve(path, query, accept=accept)
    data = read(host, found)
    pil_image = PILImage.open(io.BytesIO(data))
    pil_image.load()
    assert pil_image.format == found.format_of(data).name
    return pil_image


def read(host: ImageHost, found: ResolvedImage) -> bytes:
    """Return the bytes of a resolved URL."""
    with host.delivery.open(found) as blob:
        data = blob.read()
        assert len(data) == blob.size
    return data


@pytest.mark.parametrize("suffix", ["", ".jpg", ".jpeg"])
@pytest.mark.parametrize("query", ["", "unknown=1", "utm_source=x&v=2"])
def test_without_parameters_the_master_is_delivered(
    host: ImageHost, photo: Image, samples: dict[str, bytes], suffix: str, query: str
) -> None:
    found = host.delivery.resolve(photo.id + suffix, query)
    assert (found.key, found.job, found.image) == (None, None, photo)
    with host.delivery.open(found) as blob:
        assert blob.read() == samples["photo.jpg"]
        assert blob.data is None
    assert found.last_modified == photo.created_at
    assert found.filename(found.format) == "cat.jpg"
    assert found.is_public
    assert not found.varies


@pytest.mark.parametrize("fmt", ["jpg", "png", "webp", "avif"])
def test_fm_takes_precedence_over_the_extension_and_that_over_the_stored_format(
    host: ImageHost, photo: Image, fmt: str
) -> None:
    by_name, by_path = (
        host.delivery.resolve(photo.id + ".png", f"fm={fmt}"),
        host.delivery.resolve(f"{photo.id}.{fmt}", "w=50"),
    )
    assert by_name.filename(by_name.format).endswith(f".{fmt}")
    assert by_path.filename(by_path.format).endswith(f".{fmt}")
    assert host.delivery.resolve(photo.id, "w=50").format is Format.JPEG
    assert shown(host, f"{photo.id}.{fmt}", "w=50").size == (50, 38)
    assert shown(host, photo.id + ".gif", f"fm={fmt}&h=20").height == 20


def test_requesting_the_stored_format_is_a_variant_without_metadata(
    host: ImageHost, samples: dict[str, bytes]
) -> None:
    image = host.upload(samples["sideways.jpg"], owner="admin", convert_to_webp=False)
    pil_image = shown(host, image.id, "fm=jpg")
    assert pil_image.size == (90, 120)
    assert dict(pil_image.getexif()) == {}
    assert shown(host, image.id, "w=45").size == (45, 60), "w and h mean the upright picture"


@pytest.mark.parametrize("name", ["x.tiff", "x.", "x.jpg.png", "/x", "x/y", "../x", "x.jpg/"])
def test_another_extension_or_path_is_404(host: ImageHost, photo: Image, name: str) -> None:
    for ask in (host.delivery.resolve, host.delivery.resolve_cached):
        with pytest.raises(NotFoundError):
            ask(name.replace("x", photo.id))


@pytest.mark.parametrize("image_id", ["", "short", "0123456789abcdeF", "0123456789abcde!", "\u0660" * 16])
def test_an_unknown_id_is_404(host: ImageHost, image_id: str) -> None:
    with pytest.raises(NotFoundError):
        host.delivery.resolve(image_id)


@pytest.mark.parametrize(
    "query",
    ["w=0", "w=8193", "w=0300", "w=300px", "w=+3", "w=", "w=1&w=1", "q=101", "fit=crop", "fm=tiff", "w=1.5"],
)
def test_a_wrong_parameter_is_400_in_a_url_and_422_where_one_is_signed(
    host: ImageHost, photo: Image, query: str
) -> None:
    for ask in (host.delivery.resolve, host.delivery.resolve_cached, host.render):
        with pytest.raises(BadRequestError):
            ask(photo.id, query)
    with pytest.raises(ValidationError):
        host.images.signed_url(photo.id, query)


def test_an_output_of_too_many_pixels_is_400(host: ImageHost, photo: Image, moving: Image) -> None:
    for image in (photo, moving):
        with pytest.raises(BadRequestError, match="40,000,000 pixels"):
            host.delivery.resolve(image.id, "w=8192&h=8192")


@pytest.mark.parametrize(("fm", "frames"), [("webp", 4), ("jpg", 1), ("png", 1), ("avif", 1)])
def test_animations_stay_animated_where_the_format_supports_it(
    host: ImageHost, moving: Image, fm: str, frames: int
) -> None:
    assert getattr(shown(host, moving.id, f"w=30&fm={fm}"), "n_frames", 1) == frames


def test_a_gif_scaled_is_an_animated_gif(host: ImageHost, moving: Image) -> None:
    assert getattr(shown(host, moving.id, "w=30"), "n_frames", 1) == 4


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (CHROME, Format.AVIF),
        ("image/webp,*/*", Format.WEBP),
        ("*/*", Format.JPEG),
        ("", Format.JPEG),
        ("image/avif;q=0, image/webp;q=0.5", Format.WEBP),
    ],
)
@pytest.mark.parametrize("address", [("{id}", "fm=auto&w=40"), ("{id}.auto", "w=40"), ("{id}.auto", "")])
def test_auto_selects_a_format_by_accept_and_varies(
    host: ImageHost, photo: Image, accept: str, chosen: Format, address: tuple[str, str]
) -> None:
    path, query = address
    found = host.delivery.resolve(path.format(id=photo.id), query, accept=accept)
    assert found.varies
    assert shown(host, path.format(id=photo.id), query, accept).format == chosen.name
    assert found.filename(found.format_of(read(host, found))) == f"cat.{FORMATS[chosen].extensions[0]}"


@pytest.mark.parametrize("query", ["fm=auto&w=40", "fm=%61uto&w=40", "f%6D=auto&w=40"])
def test_a_cached_resolution_is_not_used_for_another_accept(
    host: ImageHost, photo: Image, query: str
) -> None:
    host.delivery.resolve(photo.id)
    for accept, chosen in ((CHROME, Format.AVIF), ("image/webp", Format.WEBP), ("", Format.JPEG)) * 2:
        peeked = host.delivery.resolve_cached(photo.id, query, accept=accept)
        assert peeked is not None
        assert peeked.format is chosen


@pytest.mark.parametrize(("query", "step"), [("w=498", 1), ("fm=webp&w=500&q=80", 2), ("w=1000", 5)])
def test_an_animation_beyond_the_limit_has_fewer_frames(
    host: ImageHost, moving: Image, query: str, step: int
) -> None:
    long = attrs.evolve(moving, width=500, height=500, frames=161)
    job = host.delivery.build(long, parse_transform(query)).job
    assert job is not None
    assert job.frame_step == step


def test_a_side_that_a_format_cannot_hold_is_not_negotiated(host: ImageHost, photo: Image) -> None:
    tall = attrs.evolve(photo, width=1_000, height=40_000)
    assert host.delivery.build(tall, parse_transform("fm=auto&w=500"), CHROME).format is Format.AVIF
    assert host.delivery.build(tall, parse_transform("fm=auto&w=900"), CHROME).format is Format.JPEG


@pytest.mark.parametrize("name", SCREENSHOTS)
def test_auto_never_sends_more_bytes_of_a_worse_screenshot(host: ImageHost, name: str) -> None:
    image = host.upload(encode(SCREENSHOTS[name](480, 320)), owner="admin", is_public=False)
    for query in ("", "w=240"):
        sizes = [len(host.render(image, f"{query}&fm={fm}").data) for fm in ("avif", "webp", "jpg", "png")]
        auto = read(host, host.delivery.build(image, parse_transform(f"{query}&fm=auto"), CHROME))
        assert sniff(auto[:16]) is Format.WEBP
        assert len(auto) <= 1.2 * min(sizes)


def test_the_sum_of_auto_is_not_above_that_of_the_best_single_format(host: ImageHost) -> None:
    files = [encode(draw(480, 320)) for draw in SCREENSHOTS.values()]
    files += [encode(photograph(480, 320, seed=seed), "JPEG", quality=92) for seed in range(2)]
    images = [host.upload(file, owner="admin") for file in files]

    def total(fm: str, width: int) -> int:
        transform = parse_transform(f"fm={fm}&w={width}")
        return sum(len(read(host, host.delivery.build(image, transform, CHROME))) for image in images)

    for width in (480, 240):
        assert total("auto", width) <= min(total(fm, width) for fm in ("avif", "webp", "jpg", "png"))


def test_at_the_native_size_auto_is_the_stored_file_where_that_is_small(host: ImageHost) -> None:
    lossless = host.upload(encode(SCREENSHOTS["code"](320, 200)), owner="admin")
    drawing = PILImage.linear_gradient("L").point(lambda value: 255 * (value // 32 % 2), "1")
    png = host.upload(encode(drawing), owner="admin", convert_to_webp=False)
    coarse = host.upload(
        encode(photograph(320, 240), "JPEG", quality=10), owner="admin", convert_to_webp=False
    )
    for image, accept in ((lossless, CHROME), (png, "*/*"), (coarse, CHROME), (coarse, "")):
        found = host.delivery.resolve(f"{image.id}.auto", accept=accept)
        with host.delivery.open(host.delivery.resolve(image.id)) as blob:
            assert strip_metadata(Format(image.format), blob.read()) == read(host, found)
    smaller = host.upload(encode(drawing), owner="admin")
    assert smaller.format is Format.WEBP
    assert shown(host, smaller.id, "fm=auto", "*/*").format == "PNG", "this client does not name WebP"


@pytest.mark.parametrize("query", ["card=1&fm=jpg", "card=1&w=900&h=700&q=95", "card=1&fm=jpg&q=100"])
def test_the_image_of_a_link_card_has_few_bytes(host: ImageHost, query: str) -> None:
    noise = PILImage.effect_noise((800, 600), 200)
    image = host.upload(encode(noise, "JPEG", quality=100), owner="admin", convert_to_webp=False)
    assert len(host.render(image, query.replace("card=1&", "")).data) > 300_000
    assert len(host.render(image, query).data) <= 300_000
    small = host.upload(encode(photograph(80, 60), "JPEG"), owner="admin")
    assert host.render(small, query).data == host.render(small, query.replace("card=1&", "")).data


def test_auto_has_no_avif_with_partial_alpha(host: ImageHost) -> None:
    image = photograph(120, 90)
    image.putalpha(PILImage.linear_gradient("L").resize(image.size))
    uploaded = host.upload(encode(image), owner="admin")
    assert shown(host, uploaded.id, "fm=auto&w=60", CHROME).format == "WEBP"
    assert shown(host, uploaded.id, "fm=auto&w=60", "*/*").format == "PNG"


@pytest.mark.parametrize(("accept", "chosen"), [(CHROME, Format.WEBP), ("*/*", Format.GIF)])
def test_auto_keeps_an_animation_animated_for_every_client(
    host: ImageHost, samples: dict[str, bytes], accept: str, chosen: Format
) -> None:
    stored = host.upload(samples["moving.gif"], owner="admin", format="webp")
    image = shown(host, stored.id, "fm=auto&w=30", accept)
    assert (image.format, getattr(image, "n_frames", 1)) == (chosen.name, 4)


@pytest.mark.parametrize("query", ["", "w=60"])
def test_a_line_drawing_has_chroma_of_full_resolution_in_avif(host: ImageHost, query: str) -> None:
    """Firefox shows chroma of half the resolution in blocks."""
    drawing = host.upload(encode(SCREENSHOTS["chart"](120, 90)), owner="admin", convert_to_webp=False)
    photo = host.upload(encode(photograph(120, 90)), owner="admin")
    for image, subsampling in ((drawing, 0b00), (photo, 0b11)):
        data = host.render(image, f"{query}&fm=avif").data
        # The flags of the AV1CodecConfigurationBox (AV1 in ISOBMFF, section 2.3.3).
        assert data[data.index(b"av1C") + 6] >> 2 & 0b11 == subsampling


@pytest.mark.parametrize(
    ("query", "keeps"),
    [
        ("w=120", True),
        ("w=120&h=90&fit=fill", True),
        ("fm=jpg&h=90", True),
        ("w=120&q=80", False),
        ("w=119", False),
        ("fm=webp&w=120", False),
    ],
)
def test_a_variant_that_needs_no_new_pixels_is_the_stored_file(
    host: ImageHost, photo: Image, query: str, keeps: bool
) -> None:
    job = host.delivery.build(photo, parse_transform(query)).job
    assert job is not None
    assert job.keeps_file is keeps
    with PILImage.open(io.BytesIO(host.render(photo, query).data)) as shown:
        assert shown.size == (job.plan.output.width, job.plan.output.height)


def test_a_host_that_does_not_enlarge_sends_the_stored_file_for_every_larger_size(
    samples: dict[str, bytes],
) -> None:
    with open_host(settings=attrs.evolve(ONE_WORKER, delivery=DeliverySettings(enlarge=False))) as host:
        image = host.upload(samples["photo.jpg"], owner=host.accounts.create("ann"), convert_to_webp=False)
        for query in (
            "w=3840",
            "w=3840&h=2160",
            "h=8192&fit=outside",
            "w=121&h=91&fit=fill",
            "w=3840&fm=jpg",
        ):
            assert host.render(image, query).data == host.render(image, "fm=jpg").data
        padded = host.render(image, "w=200&h=200&fit=contain")
        assert (padded.width, padded.height) == (200, 200)


def test_the_size_of_a_huge_image_is_no_bad_request(host: ImageHost, photo: Image) -> None:
    huge = attrs.evolve(photo, width=10_000, height=9_000)
    job = host.delivery.build(huge, parse_transform("fm=auto"), CHROME).job
    assert job is not None
    assert job.keeps_file
    with pytest.raises(BadRequestError):
        host.delivery.build(huge, parse_transform("q=80"))


def test_accept_is_ignored_without_auto(host: ImageHost, photo: Image) -> None:
    plain, requested = (host.delivery.resolve(photo.id, "w=40", accept=accept) for accept in ("", CHROME))
    assert plain == requested
    assert not plain.varies


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    width=st.integers(1, 400), fit=st.sampled_from(Fit), fm=st.sampled_from(["jpg", "png", "webp", "avif"])
)
def test_equivalent_requests_share_one_variant(
    host: ImageHost, photo: Image, width: int, fit: Fit, fm: str
) -> None:
    found = host.delivery.resolve(photo.id, f"w={width}&fm={fm}")
    assert found.job is not None
    height = found.job.plan.output.height
    fmt = Format("jpeg" if fm == "jpg" else fm)
    default = f"&q={FORMATS[fmt].default_quality or 33}"
    same = [
        (photo.id, f"fm={fm}&w={width}"),
        (photo.id, f"w={width}&fm={fm}&utm_source=x"),
        (f"{photo.id}.{fm}", f"w={width}"),
        (photo.id, f"w={width}&fm={fm}{default}"),
    ]
    if plan(Size(120, 90), Transform(width, height, fit=fit)) == found.job.plan:
        same.append((photo.id, f"w={width}&h={height}&fit={fit.value}&fm={fm}"))
    for path, query in same:
        other = host.delivery.resolve(path, query)
        assert (other.key, other.etag) == (found.key, found.etag)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    first=st.tuples(st.integers(1, 200), st.integers(1, 200), st.sampled_from(Fit), st.integers(1, 100)),
    second=st.tuples(st.integers(1, 200), st.integers(1, 200), st.sampled_from(Fit), st.integers(1, 100)),
)
def test_different_results_never_share_a_variant(
    host: ImageHost,
    photo: Image,
    first: tuple[int, int, Fit, int],
    second: tuple[int, int, Fit, int],
) -> None:
    jobs, keys = [], []
    for width, height, fit, quality in (first, second):
        found = host.delivery.resolve(photo.id, f"w={width}&h={height}&fit={fit.value}&q={quality}")
        jobs.append(found.job)
        keys.append((found.key, found.etag))
    assert (jobs[0] == jobs[1]) is (keys[0] == keys[1])


def test_the_etag_is_strong_and_differs_for_different_bytes(
    host: ImageHost, samples: dict[str, bytes]
) -> None:
    first, second = (
        host.upload(samples[name], owner="admin", convert_to_webp=False)
        for name in ("photo.jpg", "sideways.jpg")
    )
    tags = [
        host.delivery.resolve(image.id, query).etag
        for image in (first, second)
        for query in ("", "w=50", "w=51", "w=50&q=50", "w=50&fm=png", "fm=jpg")
    ]
    assert len(set(tags)) == len(tags)
    assert all(re.fullmatch(r'"[0-9a-f-]+"', tag) for tag in tags)


def test_another_codec_build_changes_etags_and_renders_anew(
    host: ImageHost, photo: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, master = host.delivery.resolve(photo.id, "w=44"), host.delivery.resolve(photo.id)
    monkeypatch.setattr(renders, "_fingerprint", lambda: "another build")
    after = host.delivery.resolve(photo.id, "w=44")
    assert after.key != before.key
    assert after.etag != before.etag
    assert host.delivery.resolve(photo.id).etag == master.etag


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_blob_reads_any_range(
    host: ImageHost, photo: Image, samples: dict[str, bytes], in_memory: bool
) -> None:
    with (
        delivery.Blob(samples["photo.jpg"])
        if in_memory
        else host.delivery.open(host.delivery.resolve(photo.id)) as blob
    ):
        whole = samples["photo.jpg"]
        assert (blob.data == whole) is in_memory
        assert blob.size == len(whole)
        assert blob.read(10, 20) == whole[10:20]
        assert blob.read(10) == whole[10:]
        assert blob.read(0, 10**9) == whole
        assert blob.read(len(whole)) == blob.read(20, 10) == b""


def test_chunks_are_at_most_a_mebibyte() -> None:
    with delivery.Blob(bytes(2**21 + 5)) as blob:
        assert [len(chunk) for chunk in blob.chunks()] == [2**20, 2**20, 5]


def test_resolve_cached_returns_only_what_is_in_memory(host: ImageHost, samples: dict[str, bytes]) -> None:
    image = host.upload(samples["photo.jpg"], owner="admin", convert_to_webp=False)
    assert host.delivery.resolve_cached(image.id, "w=33") is None, "not even the record is in memory"
    found = host.delivery.resolve(image.id, "w=33")
    assert host.delivery.resolve_cached(image.id, "w=33") == found
    assert host.delivery.read_nowait(found) is None
    with host.delivery.open(found) as blob:
        assert host.delivery.read_nowait(found) == ("memory", blob.data)
    master = host.delivery.resolve_cached(image.id)
    assert master == host.delivery.resolve(image.id)
    assert host.delivery.read_nowait(master) is None, "a master is read from the disk"


def test_resolve_cached_does_not_touch_the_disk(host: ImageHost, photo: Image) -> None:
    host.delivery.open(host.delivery.resolve(photo.id, "w=34")).close()
    requested: list[str] = []
    watching = True

    def watch(event: str, _arguments: object) -> None:
        if watching and event.split(".")[0] in ("open", "os", "sqlite3", "fcntl", "subprocess"):
            requested.append(event)

    sys.addaudithook(watch)
    for query in ("", "w=34", "w=35", "fm=auto", "w=34&sig=x&exp=9999999999"):
        resolved = host.delivery.resolve_cached(photo.id, query, accept=CHROME)
        if query == "w=34":
            assert resolved is not None
            assert host.delivery.read_nowait(resolved)
    watching = False
    assert requested == []


def test_a_long_url_is_resolved_and_not_cached(host: ImageHost, photo: Image) -> None:
    short, long = "w=34&x=1", f"w=34&x={'1' * 500}"
    host.delivery.resolve(photo.id)

    def resolve_twice(query: str) -> tuple[object, object]:
        first, second = (host.delivery.resolve_cached(photo.id, query) for _ in range(2))
        assert first is not None
        assert second is not None
        assert first == second == host.delivery.resolve(photo.id, "w=34")
        return first, second

    first, second = resolve_twice(short)
    assert first is second
    first, second = resolve_twice(long)
    assert first is not second


def test_a_changed_image_is_resolved_anew(host: ImageHost, samples: dict[str, bytes]) -> None:
    image = host.upload(samples["photo.jpg"], owner="admin")
    host.delivery.open(host.delivery.resolve(image.id, "w=34")).close()
    host.images.update(image.id, description="changed")
    assert host.delivery.resolve_cached(image.id, "w=34") is None
    assert host.delivery.resolve(image.id, "w=34").image.description == "changed"
    assert host.delivery.resolve_cached(image.id, "w=34") is not None


def test_render_takes_a_query_a_mapping_or_a_transform(host: ImageHost, samples: dict[str, bytes]) -> None:
    image = host.upload(samples["photo.jpg"], owner="admin", is_public=False, convert_to_webp=False)
    spelled = [
        host.render(image.id, params)
        for params in (
            "w=60&fm=webp",
            {"w": "60", "fm": "webp"},
            Transform(width=60, format=Format.WEBP),
        )
    ]
    assert len({(each.data, each.etag) for each in spelled}) == 1
    assert (spelled[0].width, spelled[0].height, spelled[0].media_type) == (60, 45, "image/webp")
    assert "bytes>" in repr(spelled[0])
    whole = host.render(image.id)
    assert (whole.data, whole.width, whole.height) == (samples["photo.jpg"], 120, 90)
    with pytest.raises(NotFoundError):
        host.render("0123456789abcdeF")


def test_a_render_starts_from_a_derivative_that_is_large_enough(
    opened: Callable[..., ImageHost], tmp_path: Path
) -> None:
    """Proven by removing the files one after the other."""
    host = opened()
    file = io.BytesIO()
    PILImage.effect_noise((2400, 1800), 60).convert("RGB").save(file, "JPEG")
    image = host.upload(file.getvalue(), owner="admin", convert_to_webp=False)
    width = image.derivatives[-1][0]
    home = tmp_path / "data" / "images" / image.id[:2] / image.id
    (home / "master").rename(home / "away")
    above, below = MIN_DOWNSCALE
    largest = width * below // above - 1  # The heights are rounded.
    assert host.render(image.id, f"w={largest}").width == largest
    with pytest.raises(NotFoundError):
        host.render(image.id, f"w={image.derivatives[0][0] * below // above + 1}")


def test_a_render_that_takes_too_long_is_503_and_the_host_goes_on(
    opened: Callable[..., ImageHost], samples: dict[str, bytes]
) -> None:
    quick = attrs.evolve(ONE_WORKER, rendering=RenderingSettings(processes=1, render_timeout_seconds=0.1))
    host = opened(settings=quick)
    image = host.upload(make_image(64, 64), owner="admin", convert_to_webp=False)
    with pytest.raises(UnavailableError):
        host.render(image.id, "w=6000&h=6000&fm=avif")
    assert host.images.get(image.id) == image


def test_a_disk_cache_of_0_bytes_still_delivers(
    opened: Callable[..., ImageHost],
    samples: dict[str, bytes],
    stored_files: Callable[[Path], list[str]],
    tmp_path: Path,
) -> None:
    nothing = attrs.evolve(ONE_WORKER, delivery=DeliverySettings(memory_cache_bytes=0, disk_cache_bytes=0))
    host = opened(settings=nothing)
    image = host.upload(samples["photo.jpg"], owner="admin")
    found = host.delivery.resolve(image.id, "w=30")
    first, second = (host.delivery.open(found).read() for _ in range(2))
    assert first == second
    assert host.delivery.read_nowait(found) != ("memory", first)
    wait_until(lambda: len(stored_files(tmp_path / "data")) == 1)


def test_last_modified_is_that_of_the_bytes_not_of_the_record(
    host: ImageHost, samples: dict[str, bytes]
) -> None:
    image = host.upload(samples["photo.jpg"], owner="admin")
    before = host.delivery.resolve(image.id).last_modified
    changed = host.images.update(image.id, description="later")
    assert changed.updated_at - before > timedelta(0)
    assert host.delivery.resolve(image.id).last_modified == before
