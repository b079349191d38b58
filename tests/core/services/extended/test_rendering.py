"""The stored file that a variant is rendered from."""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as PILImage
from PIL import ImageChops, ImageStat

from imagehost_core import Fit, Format, Image, ImageHost, InternalError, NotFoundError, Size, Transform, plan
from imagehost_core.ids import ImageId
from imagehost_core.jobs import RenderJob, pick_derivative
from imagehost_core.services.rendering import cache_key, choose_source
from imagehost_core.storage.blob_store import MASTER
from imagehost_core.storage.cache.variant_cache import VariantCache
from imagehost_core.testing import make_image
from imagehost_core.workers.costs import render_cost
from imagehost_core.workers.lanes import Lane

SIDE = 4_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("renders") / "data"


@pytest.fixture(scope="module")
def host(data: Path) -> Iterator[ImageHost]:
    with ImageHost.open(data) as opened:
        yield opened


@pytest.fixture(scope="module")
def upload() -> bytes:
    """An image that is heavy to decode: 16 million pixels, with an EXIF orientation of 6."""
    pil_image = PILImage.linear_gradient("L").resize((SIDE, SIDE // 2)).convert("RGB")
    pil_image.paste((200, 30, 30), (0, 0, SIDE // 3, SIDE // 5))
    exif = PILImage.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    pil_image.resize((SIDE, SIDE)).save(file, "JPEG", quality=90, exif=exif)
    return file.getvalue()


@pytest.fixture
def bare(host: ImageHost, upload: bytes) -> Image:
    """An image whose record has no derivatives."""
    return attrs.evolve(host.upload(upload, owner="admin", format="jpeg"), derivatives=())


def job_of(image: Image, width: int, fmt: Format = Format.WEBP) -> RenderJob:
    return RenderJob(plan(Size(image.width, image.height), Transform(width)), fmt, 80)


def rendered(host: ImageHost, image: Image, job: RenderJob) -> PILImage.Image:
    resolved = attrs.evolve(host.delivery.build(image, Transform()), key=cache_key(job), job=job)
    with host.delivery.open(resolved) as blob:
        return PILImage.open(io.BytesIO(blob.read())).convert("RGB")


def cached_keys(data: Path, image: Image) -> set[str]:
    return {path.name for path in (data / "variants").rglob("*") if image.id in path.parts[-2]}


def test_a_huge_image_without_derivatives_is_decoded_once_for_all_its_variants(
    host: ImageHost, data: Path, bare: Image
) -> None:
    first, second = job_of(bare, 300), job_of(bare, 1_200)
    intermediate = choose_source(bare, first).intermediate
    assert intermediate is not None
    rendered(host, bare, first)
    assert cached_keys(data, bare) == {cache_key(first), cache_key(intermediate)}
    (master,) = (path for path in (data / "images").rglob(MASTER) if path.parent.name == bare.id)
    master.unlink()
    assert rendered(host, bare, second).size == (1_200, 1_200)
    with pytest.raises(NotFoundError):
        rendered(host, bare, job_of(bare, 3_000))


def test_a_variant_looks_the_same_with_and_without_derivatives(host: ImageHost, upload: bytes) -> None:
    image = host.upload(upload, owner="admin", format="jpeg")
    assert image.derivatives
    job = job_of(image, 400)
    with_rungs = rendered(host, image, job)
    bare = attrs.evolve(host.upload(upload, owner="admin", format="jpeg"), derivatives=())
    difference = ImageChops.difference(with_rungs, rendered(host, bare, job))
    assert max(ImageStat.Stat(difference).mean) < 2


def test_concurrent_requests_for_a_variant_render_once(
    host: ImageHost, bare: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = []
    put = VariantCache.put

    def counting_put(cache: VariantCache, image_id: ImageId, key: str, data: bytes) -> None:
        stored.append(key)
        put(cache, image_id, key, data)

    monkeypatch.setattr(VariantCache, "put", counting_put)
    job = job_of(bare, 300)
    with ThreadPoolExecutor(12) as executor:
        images = list(executor.map(lambda _: rendered(host, bare, job).tobytes(), range(12)))
    assert len(set(images)) == 1
    intermediate = choose_source(bare, job).intermediate
    assert intermediate is not None
    assert stored == [cache_key(intermediate), cache_key(job)]


def test_after_a_failed_render_the_next_request_renders(host: ImageHost, data: Path, bare: Image) -> None:
    job = job_of(bare, 300, Format.PNG)
    (master,) = (path for path in (data / "images").rglob(MASTER) if path.parent.name == bare.id)
    content = master.read_bytes()
    master.write_bytes(content[:200])
    with pytest.raises(InternalError):
        rendered(host, bare, job)
    assert cached_keys(data, bare) == set()
    master.write_bytes(content)
    assert rendered(host, bare, job).size == (300, 300)


def test_an_intermediate_is_deleted_with_its_image(host: ImageHost, data: Path, bare: Image) -> None:
    rendered(host, bare, job_of(bare, 300))
    assert len(cached_keys(data, bare)) == 2
    host.images.delete(bare.id)
    assert cached_keys(data, bare) == set()


def derivative_files(data: Path, image: Image) -> list[Path]:
    return [path for path in (data / "images").rglob("derivative-*") if path.parent.name == image.id]


def test_a_lost_derivative_is_replaced_by_the_master(host: ImageHost, data: Path, upload: bytes) -> None:
    image = host.upload(upload, owner="admin", format="jpeg")
    assert image.derivatives
    for path in derivative_files(data, image):
        path.unlink()
    assert rendered(host, image, job_of(image, 300)).size == (300, 300)


@pytest.mark.parametrize("kept", [0, 100, -500])
def test_a_damaged_derivative_is_replaced_by_the_master(
    host: ImageHost, data: Path, upload: bytes, kept: int, caplog: pytest.LogCaptureFixture
) -> None:
    image = host.upload(upload, owner="admin", format="jpeg")
    bare = attrs.evolve(host.upload(upload, owner="admin", format="jpeg"), derivatives=())
    for path in derivative_files(data, image):
        path.write_bytes(path.read_bytes()[:kept])
    job = job_of(image, 300)
    difference = ImageChops.difference(rendered(host, image, job), rendered(host, bare, job))
    assert max(ImageStat.Stat(difference).mean) < 2
    assert f"derivative lost or damaged image={image.id}" in caplog.text


def test_a_lost_derivative_and_a_damaged_master_are_an_internal_error(
    host: ImageHost, data: Path, upload: bytes
) -> None:
    image = host.upload(upload, owner="admin", format="jpeg")
    for path in derivative_files(data, image):
        path.unlink()
    (master,) = (path for path in (data / "images").rglob(MASTER) if path.parent.name == image.id)
    master.write_bytes(b"")
    with pytest.raises(InternalError):
        rendered(host, image, job_of(image, 300))


@pytest.mark.parametrize("side", [150, 1_000, 3_000])
def test_a_derivative_of_another_size_than_recorded_does_not_change_the_size_of_a_variant(
    host: ImageHost, data: Path, upload: bytes, side: int
) -> None:
    image = host.upload(upload, owner="admin", format="jpeg")
    for path in derivative_files(data, image):
        PILImage.open(path).resize((side, side)).save(path, "JPEG")
    assert rendered(host, image, job_of(image, 300)).size == (300, 300)


def test_variants_start_from_the_derivatives_of_an_older_version(image: Image) -> None:
    older = attrs.evolve(
        image, width=4_032, height=3_024, derivatives=((2_312, 1_734), (1_156, 867), (578, 433))
    )
    names = [choose_source(older, job_of(older, width)).name for width in (200, 640, 1_600, 2_100)]
    assert names == ["derivative-578", "derivative-1156", "derivative-2312", MASTER]


@pytest.mark.parametrize("length", [0, 200])
@pytest.mark.parametrize("query", ["w=8", "fm=jpg", "fm=avif&w=300"])
def test_a_damaged_master_is_an_internal_error_of_its_renders(
    host: ImageHost, data: Path, query: str, length: int
) -> None:
    image = host.upload(make_image(), owner="admin", format="png")
    (master,) = (path for path in (data / "images").rglob(MASTER) if path.parent.name == image.id)
    master.write_bytes(master.read_bytes()[:length])
    with pytest.raises(InternalError) as caught:
        host.render(image.id, query)
    assert "DamagedSourceError" in str(caught.value.__cause__)


@given(
    st.integers(1, 12_000),
    st.integers(1, 12_000),
    st.integers(1, 6_000),
    st.sets(st.sampled_from([512, 1024, 2048])),
    st.sampled_from([Format.JPEG, Format.AVIF]),
)
def test_the_source_exceeds_the_variant_by_the_margin_or_is_the_master(
    image: Image, width: int, height: int, requested: int, sides: set[int], fmt: Format
) -> None:
    whole = Size(width, height)
    longer = max(width, height)
    derivatives = tuple(
        (max(1, width * side // longer), max(1, height * side // longer)) for side in sides if side < longer
    )
    steps = plan(whole, Transform(requested, requested, fit=Fit.INSIDE))
    job = RenderJob(steps, fmt, 80)
    source = choose_source(attrs.evolve(image, width=width, height=height, derivatives=derivatives), job)
    start = source.intermediate.plan.output if source.intermediate else source.size
    if start != whole:
        assert start == pick_derivative([start], steps.resize, whole)
    if source.intermediate is not None:
        assert render_cost(job, Format(image.format), whole).lane is Lane.HEAVY
        assert 2 * start.pixels <= whole.pixels


@given(st.integers(4_000, 10_000), st.integers(4_000, 10_000), st.integers(1, 1_600))
def test_no_thumbnail_of_a_huge_image_starts_from_the_master(
    image: Image, width: int, height: int, requested: int
) -> None:
    steps = plan(Size(width, height), Transform(requested, requested, fit=Fit.INSIDE))
    source = choose_source(attrs.evolve(image, width=width, height=height), RenderJob(steps, Format.WEBP, 80))
    assert source.intermediate is not None
    assert render_cost(source.intermediate, Format(image.format), source.size).lane is Lane.HEAVY


def test_all_frames_come_from_the_master(image: Image) -> None:
    animation = attrs.evolve(image, width=4_000, height=4_000, frames=9, derivatives=((2048, 2048),))
    steps = plan(Size(4_000, 4_000), Transform(200))
    assert choose_source(animation, RenderJob(steps, Format.WEBP, 80, animated=True)).name == MASTER
    assert choose_source(animation, RenderJob(steps, Format.WEBP, 80)).name == "derivative-2048"
