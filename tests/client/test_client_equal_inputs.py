"""What a call takes for an image and for the source of an upload is the same in core and client."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PIL import Image as PillowImage

import imagehost_core
from imagehost_client.errors import ImageHostError, ValidationError
from imagehost_client.testing import FakeImageHost, make_png

Upload = Callable[[Any], Any]


class UploadFile:
    """The file of a form in Starlette and FastAPI: its `read` is a coroutine function."""

    def __init__(self) -> None:
        self.file, self.filename = io.BytesIO(make_png()), "form.png"

    async def read(self, size: int = -1) -> bytes:
        return self.file.read(size)


class DjangoFile(io.BytesIO):
    """The file of a form in Django."""

    name = "django.png"

    def chunks(self) -> Iterator[bytes]:
        yield self.read()


@pytest.fixture(scope="module")
def host() -> FakeImageHost:
    return FakeImageHost()


def uploads(host: FakeImageHost) -> list[Upload]:
    return [host.client().upload, lambda source: host.core.upload(source, owner="admin")]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (lambda: ("n.png", make_png()), "n"),
        (lambda: ("n.png", io.BytesIO(make_png())), "n"),
        (UploadFile, "form"),
        (lambda: ("other.png", UploadFile()), "other"),
        (lambda: DjangoFile(make_png()), "django"),
        (lambda: bytearray(make_png()), "image"),
    ],
)
def test_a_source_is_taken_by_both(host: FakeImageHost, source: Callable[[], object], name: str) -> None:
    for upload in uploads(host):
        assert upload(source()).filename.partition(".")[0] == name


REFUSED: dict[str, tuple[object, str]] = {
    "an image of Pillow": (PillowImage.new("RGB", (2, 2)), "image.save(buffer := io.BytesIO(), 'PNG')"),
    "an array": (type("ndarray", (), {"__module__": "numpy"})(), "PIL.Image.fromarray(array).save(buffer"),
    "chunks": (iter([b""]), "b''.join(chunks)"),
    "a text file": (io.StringIO(), "a binary file"),
    "a number": (3, "a path, bytes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_error_for_another_source_says_what_to_write(host: FakeImageHost, name: str) -> None:
    source, advice = REFUSED[name]
    calls: list[Any] = [*uploads(host), imagehost_core.render, imagehost_core.inspect]
    for call in calls:
        with pytest.raises((ValidationError, imagehost_core.ValidationError), match=re.escape(advice)):
            call(source)


def test_an_image_is_named_by_its_id_its_file_name_or_a_url(host: FakeImageHost) -> None:
    image = host.client().upload(make_png())
    names = (image.id, f"{image.id}.webp", image.url, f"{image.url}?w=5", image.thumb_url)
    for images in (host.client().images, host.core.images):
        for name in names:
            assert images.get(name).id == image.id
    for name in names:
        assert host.client().render(name, w=1).data == host.core.render(name, w=1).data
    assert [one.image_id for one in host.core.images.signed_urls(names, owner="admin")] == [image.id] * 5
    assert [one.image_id for one in host.client().images.signed_urls(names)] == [image.id] * 5
    deleted = host.core.images.delete_many([image.url], owner="admin")
    assert [(one.id, one.status) for one in deleted] == [(image.id, "deleted")]


@pytest.mark.parametrize("name", ["a", "https://images.example/", f"{'a' * 16}.a.b", "a" * 15 + ".webp"])
def test_another_text_is_no_image(host: FakeImageHost, name: str) -> None:
    for images in (host.client().images, host.core.images):
        with pytest.raises((ImageHostError, imagehost_core.ImageHostError)):
            images.get(name)


def test_a_host_is_opened_with_its_path_by_open() -> None:
    make: Any = imagehost_core.ImageHost
    for arguments in ((), ("data",), ("data", imagehost_core.Settings())):
        with pytest.raises(TypeError, match=r"ImageHost\.open\(path\), or ImageHost\.open\(':memory:'\)"):
            make(*arguments)
    with pytest.raises(TypeError, match="path"):
        make.open()


@pytest.mark.parametrize("name", ["jpeg", "png", "webp", "gif", "avif"])
def test_a_rendered_image_has_the_same_fields_in_both(host: FakeImageHost, name: str) -> None:
    pixels = [(x * 7 % 256, x * 13 % 256, x % 256) for x in range(70 * 50)]
    sources = [PillowImage.new("RGBA", (70, 50), (9, 8, 7, 100)), PillowImage.new("RGB", (70, 50))]
    sources[1].putdata(pixels)
    fields = ("data", "media_type", "width", "height", "etag", "not_modified")
    for source in sources:
        file = io.BytesIO()
        source.save(file, "GIF" if name == "gif" else "PNG")
        image = host.client().upload(file.getvalue(), convert_to_webp=False)
        params: Any
        for size in ({}, {"w": 33}, {"w": 300, "h": 7}):
            params = size if name == "gif" else {"fm": name, **size}
            ours = host.core.render(image.id, **params)
            theirs = host.client().render(image, **params)
            assert [getattr(theirs, field) for field in fields] == [getattr(ours, field) for field in fields]
            with PillowImage.open(io.BytesIO(ours.data)) as opened:
                assert opened.size == (ours.width, ours.height)
            again = [
                host.core.render(image.id, if_none_match=ours.etag, **params),
                host.client().render(image.id, if_none_match=ours.etag, **params),
            ]
            assert [[getattr(one, field) for field in fields] for one in again] == [
                [b"", "", 0, 0, ours.etag, True]
            ] * 2
