"""Access to private images: owners, signed URLs, settings, and changes of visibility."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import attrs
import pytest
from tests.core.services.conftest import Stores
from tests.open_host import open_host

from imagehost_core import (
    AUTO,
    BadRequestError,
    ForbiddenError,
    Format,
    Image,
    ImageHost,
    NotFoundError,
    Settings,
    Transform,
    ValidationError,
)
from imagehost_core.settings import DeliverySettings, PrivateDelivery, RenderingSettings
from imagehost_core.testing import FrozenClock, make_image

if TYPE_CHECKING:
    from tests.programs import Program

ONE_WORKER = Settings(base_url="https://img.example/v1", rendering=RenderingSettings(processes=1))
PNG = make_image(400, 300)


def with_delivery(**changes: object) -> Settings:
    return attrs.evolve(ONE_WORKER, delivery=DeliverySettings(**changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def private(host: ImageHost) -> Image:
    """A private image of the account `admin`, stored as WebP."""
    return host.upload(PNG, owner="admin", is_public=False)


def parts(address: str) -> tuple[str, str]:
    """Return path and query of a delivery URL, as the route receives them."""
    split = urlsplit(address)
    assert split.path.startswith("/img/")
    return split.path.removeprefix("/img/"), split.query


def test_a_private_image_is_404_for_all_but_its_owner(host: ImageHost, private: Image) -> None:
    host.accounts.create("other")
    owner, other = host.accounts.get("admin"), host.accounts.get("other")
    for query in ("", "w=40"):
        found = host.delivery.resolve(private.id, query, viewer=owner)
        assert not found.is_public
        assert found.is_restricted
        host.delivery.open(found).close()
        for viewer in (None, other):
            with pytest.raises(NotFoundError) as caught:
                host.delivery.resolve(private.id, query, viewer=viewer)
            missing = private.id[::-1]
            assert caught.value.details.replace(private.id, missing) == _missing(host, missing)


def _missing(host: ImageHost, image_id: str) -> str:
    with pytest.raises(NotFoundError) as caught:
        host.delivery.resolve(image_id)
    return caught.value.details


def test_an_unlisted_private_image_is_delivered_to_every_client(
    opened: Callable[..., ImageHost],
) -> None:
    host = opened(settings=with_delivery(private=PrivateDelivery.UNLISTED))
    image = host.upload(PNG, owner="admin", is_public=False)
    found = host.delivery.resolve(image.id, "w=40")
    assert not found.is_public, "it must not be cached"
    assert not found.is_restricted
    assert host.gallery().total == 0


@pytest.mark.parametrize(
    "params",
    [
        "",
        "w=40",
        "w=40&h=30&fit=inside&q=50",
        "w=40&fm=jpg",
        "w=40&fm=webp",
        "fm=avif",
        Transform(width=40, format=AUTO),
    ],
)
def test_a_signed_url_is_valid_for_its_transform_only(
    host: ImageHost, private: Image, params: str | Transform
) -> None:
    path, query = parts(host.images.signed_url(private.id, params, owner="admin", expires_in=60).url)
    found = host.delivery.resolve(path, query)
    requested = host.delivery.resolve(path, query, viewer=host.accounts.get("admin"))
    assert found == requested
    assert not found.is_restricted
    assert host.delivery.resolve_cached(path, query) is not None
    with host.delivery.open(found) as blob:
        assert blob.size > 0
    for other in (
        query.replace("sig=", "sig=A"),
        query[:-2],
        f"{query}&w=41" if "w=" not in query else query.replace("w=40", "w=41"),
        query.replace("exp=1", "exp=2"),
        query.split("sig=")[0],
    ):
        with pytest.raises(NotFoundError):
            host.delivery.resolve(path, other)


def test_a_signed_url_is_valid_with_and_without_the_stored_format(host: ImageHost, private: Image) -> None:
    assert private.format is Format.WEBP
    _, query = parts(host.images.signed_url(private.id, "w=40", owner="admin").url)
    keys = {host.delivery.resolve(path, query).key for path in (private.id, f"{private.id}.webp")}
    assert len(keys) == 1
    for path in (f"{private.id}.png", f"{private.id}.jpg", f"{private.id}.auto"):
        with pytest.raises(NotFoundError):
            host.delivery.resolve(path, query)


def test_a_signature_is_for_one_image(host: ImageHost, private: Image) -> None:
    other = host.upload(PNG, owner="admin", is_public=False)
    _, query = parts(host.images.signed_url(private.id, "w=40", owner="admin").url)
    with pytest.raises(NotFoundError):
        host.delivery.resolve(other.id, query)


def test_parameter_order_and_unknown_names_do_not_invalidate_a_signature(
    host: ImageHost, private: Image
) -> None:
    path, query = parts(host.images.signed_url(private.id, "w=40&q=70", owner="admin").url)
    turned = "&".join(reversed(query.split("&")))
    assert host.delivery.resolve(path, f"utm_source=x&{turned}") == host.delivery.resolve(path, query)


@pytest.mark.parametrize("name", ["W", "_w", "w-"])
def test_a_parameter_of_a_signed_url_is_not_misspelled(host: ImageHost, private: Image, name: str) -> None:
    with pytest.raises(
        BadRequestError, match=f"expected only w, h, q, fit, fm for params but received '{name}'"
    ):
        host.images.signed_url(private.id, {name: 5})
    with pytest.raises(ValidationError, match=r"exactly this name for items\[0\].w but received"):
        host.images.signed_urls([{"image_id": private.id, name: 5}], owner="admin")


def test_a_signed_url_expires(tmp_path: Path) -> None:
    clock = FrozenClock()
    with open_host(tmp_path, settings=ONE_WORKER, clock=clock) as host:
        image = host.upload(PNG, owner="admin", is_public=False)
        path, query = parts(host.images.signed_url(image.id, "w=40", expires_in=60).url)
        clock.advance(seconds=59)
        assert host.delivery.resolve(path, query).key is not None
        assert host.delivery.resolve_cached(path, query) is not None
        clock.advance(seconds=1)
        assert host.delivery.resolve_cached(path, query) is None
        with pytest.raises(NotFoundError):
            host.delivery.resolve(path, query)


@pytest.mark.parametrize("expires_in", [0, -1, 365 * 86_400 + 1, 1.5, True, "60"])
def test_expires_in_outside_a_second_to_a_year_is_422(
    host: ImageHost, private: Image, expires_in: object
) -> None:
    with pytest.raises(ValidationError, match="expires_in"):
        host.images.signed_url(private.id, "", expires_in=expires_in)  # type: ignore[arg-type]


def test_signing_another_accounts_image_is_404(host: ImageHost, private: Image) -> None:
    with pytest.raises(NotFoundError):
        host.images.signed_url(private.id, "", owner="nobody")


def test_signatures_are_valid_in_every_process_and_after_a_restart(
    opened: Callable[..., ImageHost], tmp_path: Path, stores: Stores
) -> None:
    first, second = opened(), opened()
    image = first.upload(PNG, owner="admin", is_public=False)
    path, query = parts(first.images.signed_url(image.id, "w=40").url)
    assert second.delivery.resolve(path, query).key is not None
    with open_host(tmp_path / "another", settings=ONE_WORKER) as stranger:
        assert stores(stranger).secret != stores(first).secret


def test_the_secret_file_is_owner_only(host: ImageHost, folder: Path) -> None:
    assert (folder / "secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"x" * 31])
def test_a_truncated_secret_stops_the_start(tmp_path: Path, content: bytes) -> None:
    """Anyone could sign with a secret known to be empty."""
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(ValueError, match="expected at least 32 bytes"):
        open_host(tmp_path, settings=ONE_WORKER)
    assert list((tmp_path / "staging").iterdir()) == []


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageHost]:
    """A host where transforms must be signed."""
    settings = with_delivery(require_signed=True)
    with open_host(tmp_path_factory.mktemp("strict"), settings=settings) as created:
        yield created


def test_unsigned_transforms_are_403_with_require_signed_and_masters_are_not(strict: ImageHost) -> None:
    image = strict.upload(PNG, owner="admin")
    for path, query in (
        (image.id, "w=40"),
        (image.id, "fm=png"),
        (f"{image.id}.avif", ""),
        (image.id, "q=5"),
    ):
        with pytest.raises(ForbiddenError, match="sig and exp"):
            strict.delivery.resolve(path, query)
    assert strict.delivery.resolve(image.id).key is None
    path, query = parts(strict.images.signed_url(image.id, "w=40").url)
    assert strict.delivery.resolve(path, query).key is not None
    hidden = strict.images.update(image.id, is_public=False)
    with pytest.raises(NotFoundError):
        strict.delivery.resolve(hidden.id, "w=40")


def test_thumb_url_is_always_allowed(strict: ImageHost, opened: Callable[..., ImageHost]) -> None:
    sized = opened(settings=with_delivery(require_signed=True, allowed_sizes=("7x7",)))
    for host in (strict, sized):
        for side, fmt in ((400, None), (100, None), (100, "jpeg"), (400, "png")):
            image = host.upload(make_image(side, 50), owner="admin", format=fmt)  # type: ignore[arg-type]
            path, query = parts(host.urls.thumb(image))
            with host.delivery.open(host.delivery.resolve(path, query)) as blob:
                assert blob.size > 0


def test_only_allowed_sizes_are_rendered_if_any_are_set(opened: Callable[..., ImageHost]) -> None:
    host = opened(settings=with_delivery(allowed_sizes=("40x30", "50x", "x60")))
    image = host.upload(PNG, owner="admin")
    for query in ("w=40&h=30", "w=50", "h=60", "w=50&fit=inside&fm=jpg&q=10", "fm=png", "", "w=320&h=320"):
        assert host.delivery.resolve(image.id, query).image == image
    for query in ("w=40", "h=30", "w=30&h=40", "w=51", "w=50&h=60", "w=320"):
        with pytest.raises(BadRequestError, match="w and h"):
            host.delivery.resolve(image.id, query)


def test_hiding_an_image_is_seen_by_another_process_at_once(
    host: ImageHost, folder: Path, program: Callable[..., Program]
) -> None:
    other = program(
        """
        import sys
        from imagehost_core import ImageHost, NotFoundError, Settings
        from imagehost_core.settings import RenderingSettings

        with ImageHost.open(sys.argv[1], settings=Settings(rendering=RenderingSettings(processes=1))) as host:
            print("open")
            for line in sys.stdin:
                viewed = host.delivery.resolve_cached(line.strip(), "w=40")
                try:
                    resolved = host.delivery.resolve(line.strip(), "w=40")
                    host.delivery.open(resolved).close()
                    peeked = host.delivery.read_nowait(resolved)
                    print(viewed is not None, peeked is not None, len(host.gallery()))
                except NotFoundError:
                    print("404", len(host.gallery()))
        """,
        folder,
    )
    assert other.read_line() == "open"
    image = host.upload(PNG, owner="admin")
    for viewed in (False, True):
        other.write_line(image.id)
        assert other.read_line() == f"{viewed} True 1"
    host.images.update(image.id, is_public=False)
    other.write_line(image.id)
    assert other.read_line() == "404 0"
    host.images.update(image.id, is_public=True)
    other.write_line(image.id)
    assert other.read_line() == "False True 1"
    assert other.end() == 0
    host.images.delete(image.id)


def test_a_cached_private_image_is_refused_after_the_same_queries_as_a_missing_one(
    host: ImageHost, private: Image
) -> None:
    """A refusal from memory would reveal by its timing that the image exists."""
    owner = host.accounts.get("admin")
    host.delivery.resolve(private.id, viewer=owner)
    assert host.delivery.resolve_cached(private.id, viewer=owner) is not None
    assert host.delivery.resolve_cached(private.id) is None
    assert host.delivery.resolve_cached(private.id[::-1]) is None
