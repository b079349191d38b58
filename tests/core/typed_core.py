"""The types of the core, checked by mypy and pyright, and never executed.

Both must reject each line with an ignore comment: they report unnecessary ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_type

from imagehost_core import (
    AUTO,
    ApiKey,
    Fit,
    Format,
    Image,
    ImageHost,
    ImageSort,
    Page,
    Rendered,
    Role,
    Scope,
    TransformKeywords,
    UploadOptions,
    inspect,
    render,
)


def accepted(host: ImageHost, image: Image, query: Mapping[str, object]) -> None:
    assert_type(host.upload(b"", owner="a", format="jpg", album_id=3, quality=80), Image)
    assert_type(host.upload("a.png", owner="a", format=Format.JPEG), Image)
    assert_type(host.upload("a.png", owner="a", options=UploadOptions(is_public=False)), Image)
    assert_type(host.render(image, w=3, h=4, q=5, fit="inside", fm="jpeg"), Rendered)
    assert_type(host.render(image, fit=Fit.COVER, fm=AUTO), Rendered)
    assert_type(host.render(image, "w=3"), Rendered)
    assert_type(host.render(image, query), Rendered)
    assert_type(render(b"", w=3, fm="avif").data, bytes)
    assert_type(host.images.list(owner="a", format="jpg", sort="-size"), Page[Image])
    assert_type(host.images.list(owner="a", format=Format.GIF, sort=ImageSort.NEWEST), Page[Image])
    params: TransformKeywords = {"w": 3, "fm": "webp"}
    assert_type(host.image_url(image, **params), str)
    host.keys.create("k", owner="a", scopes=["images:read", Scope.ALBUMS_READ])
    host.accounts.create("a", role="operator")
    host.accounts.update("a", role=Role.USER, suspended=True)
    host.webhooks.create("https://h", owner="a", events=["image.uploaded"])
    host.picture(image, [320], formats=["avif", Format.WEBP], loading="eager")
    host.srcset(image, fm="auto", h=3)


def compared(host: ImageHost, image: Image, key: ApiKey) -> None:
    assert image.format == "jpeg" or image.format == Format.PNG or image.format is Format.GIF
    assert host.accounts.get("a").role in ("operator", Role.USER)
    assert "images:read" in key.scopes or Scope.ALBUMS_READ in key.scopes
    host.keys.create("k", owner="a", scopes=key.scopes)
    host.accounts.create("a", role=host.accounts.get("b").role)
    host.images.list(owner="a", format=Format(image.format))


def refused(host: ImageHost, image: Image) -> None:
    host.upload("a.png", owner="a", nothing=3)  # type: ignore[call-arg]
    host.upload("a.png", owner="a", quality="best")  # type: ignore[arg-type]
    host.upload("a.png", owner="a", format="tiff")  # type: ignore[arg-type]
    host.upload("a.png", owner="a", format=Format.GIF)  # type: ignore[arg-type]
    host.upload("a.png", owner="a", is_public="yes")  # type: ignore[arg-type]
    host.upload("a.png")  # type: ignore[call-arg]
    host.upload(3, owner="a")  # type: ignore[arg-type]
    host.images.list(owner="a", format="tiff")  # type: ignore[arg-type]
    host.images.list(owner="a", sort="newest")  # type: ignore[arg-type]
    host.images.list(owner="a", per_page=1.5)  # type: ignore[arg-type]
    host.images.get(7)  # type: ignore[arg-type]
    host.images.get()  # type: ignore[call-arg]
    host.images.get("a").size = 7  # type: ignore[misc]
    host.images.update(image, description=7)  # type: ignore[arg-type]
    host.albums.create(name=7, owner="a")  # type: ignore[arg-type]
    host.albums.create("A")  # type: ignore[call-arg]
    host.render(image, width=300)  # type: ignore[call-arg]
    host.render(image, w="300")  # type: ignore[arg-type]
    host.render(image, fit="crop")  # type: ignore[arg-type]
    host.render(image, fm="heic")  # type: ignore[arg-type]
    host.render(image, fm="gif")  # type: ignore[arg-type]
    render(b"", fm="heic")  # type: ignore[arg-type]
    render(b"", quality=80)  # type: ignore[call-arg]
    host.image_url(image, fit="insde")  # type: ignore[arg-type]
    host.srcset(image, [300], w=300)  # type: ignore[call-arg]
    host.srcset(image, [300], fm="heic")  # type: ignore[arg-type]
    host.picture(image, fit="crop")  # type: ignore[arg-type]
    host.picture(image, loading="layz")  # type: ignore[arg-type]
    host.picture(image, formats=["auto"])  # type: ignore[list-item]
    host.images.signed_url(image, expires_in="1h")  # type: ignore[arg-type]
    host.images.signed_url(image, fm="heic")  # type: ignore[arg-type]
    host.keys.create("k", owner="a", scopes=["images:raed"])  # type: ignore[list-item]
    host.keys.create("k", owner="a", scopes="images:read")  # type: ignore[arg-type]
    host.accounts.create("a", role="root")  # type: ignore[arg-type]
    host.accounts.update("a", suspended="yes")  # type: ignore[arg-type]
    host.webhooks.create("https://h", owner="a", events=["image.upload"])  # type: ignore[list-item]
    bool(host.images.delete_many([image], owner="a")[0].status == "deletd")  # type: ignore[comparison-overlap]
    bool(host.albums.add_images(1, [image], owner="a").results[0].status == "aded")  # type: ignore[comparison-overlap]
    bool(host.webhooks.test("w", owner="a").status == "delivred")  # type: ignore[comparison-overlap]
    bool(host.webhooks.test("w", owner="a").event == "image.upload")  # type: ignore[comparison-overlap]
    bool(host.webhooks.get("w", owner="a").events[0] == "image.upload")  # type: ignore[comparison-overlap]
    bool(image.format == "jpgg")  # type: ignore[comparison-overlap]
    bool(inspect(b"").format == "jpgg")  # type: ignore[comparison-overlap]
    bool(host.accounts.get("a").role == "root")  # type: ignore[comparison-overlap]
    bool(host.keys.get("k", owner="a").scopes[0] == "images:raed")  # type: ignore[comparison-overlap]
