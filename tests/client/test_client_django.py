"""Django's `ImageField` with images in a host: storage, sizes, private URLs, forms, async views and tags."""

from __future__ import annotations

import copy
import io
import pickle
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from PIL import Image
from tests.client.conftest import stored_images

from imagehost_client import ImageHostError, PayloadTooLargeError
from imagehost_client.testing import FakeImageHost, make_png

django = pytest.importorskip("django", reason="NOT TESTED with Django: it is not installed")

from django import forms  # noqa: E402
from django.conf import settings  # noqa: E402
from django.core.exceptions import ImproperlyConfigured, SuspiciousFileOperation  # noqa: E402
from django.core.files.base import ContentFile  # noqa: E402
from django.core.files.storage import default_storage  # noqa: E402
from django.core.files.uploadedfile import SimpleUploadedFile  # noqa: E402
from django.db import connection, models  # noqa: E402
from django.http import HttpRequest, JsonResponse  # noqa: E402
from django.template import Context, Template  # noqa: E402
from django.test import AsyncClient, override_settings  # noqa: E402
from django.urls import path  # noqa: E402
from django.utils.datastructures import MultiValueDict  # noqa: E402

if not settings.configured:
    settings.configure(
        INSTALLED_APPS=["imagehost_client.django"],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": "file:photos?mode=memory&cache=shared",
            }
        },
        STORAGES={"default": {"BACKEND": "imagehost_client.django.ImageHostStorage"}},
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["testserver"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()

from imagehost_client.django import ImageHostStorage  # noqa: E402


class Photo(models.Model):
    """A record with an image, and one with a storage of its own."""

    image = models.ImageField(upload_to="photos/%Y", width_field="width", height_field="height", blank=True)
    secret = models.ImageField(storage=ImageHostStorage(private=True, expires_in=60), blank=True)
    width: models.PositiveIntegerField[Any, Any] = models.PositiveIntegerField(null=True)
    height: models.PositiveIntegerField[Any, Any] = models.PositiveIntegerField(null=True)

    class Meta:
        app_label = "imagehost"


class PhotoForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Photo
        fields = ("image",)


async def upload_view(request: HttpRequest) -> JsonResponse:
    photo = await Photo.objects.acreate(image=request.FILES["image"])
    return JsonResponse({"url": photo.image.url, "width": photo.width})


urlpatterns = [path("photos/", upload_view)]


@pytest.fixture(autouse=True, scope="module")
def _tables() -> Iterator[None]:
    with connection.schema_editor() as editor:
        editor.create_model(Photo)
    yield
    connection.close()


@pytest.fixture
def fake(host: FakeImageHost) -> Iterator[FakeImageHost]:
    """A host in memory, whose clients the storages have."""
    with host.patch():
        yield host


def turned_jpeg(width: int, height: int) -> bytes:
    """Return a JPEG of a camera that was held upright: its EXIF says that it is turned by 90 degrees."""
    output = io.BytesIO()
    image = Image.new("RGB", (width, height), "teal")
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(output, "JPEG", exif=exif)
    return output.getvalue()


def save(name: str = "a cat.png", data: bytes | None = None, field: str = "image") -> Photo:
    """Store an image by a field."""
    photo = Photo()
    getattr(photo, field).save(name, ContentFile(data or make_png(640, 480)))
    return photo


def filled(name: str, data: bytes) -> PhotoForm:
    """Return a form with a file."""
    return PhotoForm({}, MultiValueDict({"image": [SimpleUploadedFile(name, data)]}))


def render(text: str, **values: object) -> str:
    return str(Template("{% load imagehost %}" + text).render(Context(values)))


def test_a_form_stores_an_image_and_the_field_has_its_url(fake: FakeImageHost) -> None:
    form = filled("a cat.png", make_png(640, 480))
    assert form.is_valid(), form.errors
    photo = Photo.objects.get(pk=form.save().pk)
    (stored,) = stored_images(fake)
    assert photo.image.url == stored.url
    assert str(photo.image.name).startswith(f"{stored.id}_640x480_")
    assert stored.original_filename == "a_cat.png"
    assert httpx2.Client(transport=fake).get(str(photo.image.url)).status_code == 200


def test_a_form_refuses_what_is_no_image(fake: FakeImageHost) -> None:
    form = filled("a.png", b"text")
    assert not form.is_valid()
    assert fake.requests == []


def test_width_and_height_are_those_of_the_record_without_a_download(fake: FakeImageHost) -> None:
    photo = save("turned.jpg", turned_jpeg(64, 32))
    assert (photo.width, photo.height) == (32, 64)
    again = Photo.objects.get(pk=photo.pk)
    assert (again.image.width, again.image.height, again.width, again.height) == (32, 64, 32, 64)
    assert fake.requests == [("POST", "/upload")]


def test_the_size_of_an_image_that_was_stored_otherwise_is_that_of_its_record(fake: FakeImageHost) -> None:
    stored = fake.client().upload(make_png(30, 20))
    fake.requests.clear()
    photo = Photo(image=f"{stored.id}.png")
    assert (photo.image.width, photo.image.url) == (30, stored.url.rpartition(".")[0] + ".png")
    assert set(fake.requests) == {("GET", f"/images/{stored.id}")}


def test_a_model_in_a_cache_has_its_image(fake: FakeImageHost) -> None:
    photo = save()
    for copied in (pickle.loads(pickle.dumps(photo)), copy.deepcopy(photo)):
        assert (copied.image.url, copied.image.width) == (photo.image.url, 640)


def test_a_file_is_read_as_it_is_stored(fake: FakeImageHost) -> None:
    photo = save()
    name = str(photo.image.name)
    (stored,) = stored_images(fake)
    with photo.image.open() as file:
        assert file.read() == fake.content(stored.id)
    assert photo.image.size == stored.size
    assert default_storage.get_created_time(name) == stored.created_at
    assert default_storage.get_modified_time(name) == stored.created_at
    with pytest.raises(ValueError, match="mode rb"):
        default_storage.open(name, "wb")


def test_deleting_a_file_deletes_the_image(fake: FakeImageHost) -> None:
    photo = save()
    name = str(photo.image.name)
    assert default_storage.exists(name)
    photo.image.delete()
    assert stored_images(fake) == []
    assert (photo.width, photo.height) == (None, None)
    assert not default_storage.exists(name)
    default_storage.delete(name)
    default_storage.delete("photo.png")
    for read in (default_storage.open, default_storage.size):
        with pytest.raises(FileNotFoundError):
            read(name)


def test_names_of_other_storages_are_missing_files_without_a_request(fake: FakeImageHost) -> None:
    assert not default_storage.exists("photos/2026/cat.png")
    with pytest.raises(FileNotFoundError):
        default_storage.url("photos/2026/cat.png")
    assert fake.requests == []


def test_a_field_that_is_too_short_for_names_uploads_nothing(fake: FakeImageHost) -> None:
    with pytest.raises(SuspiciousFileOperation, match="max_length"):
        default_storage.save("cat.png", ContentFile(make_png()), max_length=40)
    assert fake.requests == []


def test_a_private_storage_has_private_images_and_signed_urls(fake: FakeImageHost) -> None:
    photo = save(field="secret")
    (stored,) = stored_images(fake)
    assert not stored.is_public
    html = render(
        "{% imagehost_picture photo.secret 100 200 %}{{ photo.secret|imagehost_url:'w=50' }}", photo=photo
    )
    urls = [str(photo.secret.url), *re.findall(r"https://[^\s\"]+", html.replace("&amp;", "&"))]
    assert len(urls) == 5
    anonymous = httpx2.Client(transport=fake)
    assert [anonymous.get(str(url)).status_code for url in urls] == [200] * 5
    assert anonymous.get(str(stored.url)).status_code == 404
    fake.clock.advance(61)
    assert [anonymous.get(str(url)).status_code for url in urls] == [404] * 5


def test_a_signing_key_signs_private_urls_without_requests(fake: FakeImageHost) -> None:
    photo = save(field="secret")
    key = fake.core.images.signing_key(owner="admin")
    fake.requests.clear()
    with override_settings(IMAGEHOST={"signing_key": key}):
        html = render("{% imagehost_picture photo.secret 100 %}", photo=photo)
        urls = [str(photo.secret.url), *re.findall(r"https://[^\s\"]+", html.replace("&amp;", "&"))]
    assert fake.requests == []
    anonymous = httpx2.Client(transport=fake)
    assert [anonymous.get(url).status_code for url in urls] == [200] * 3


def test_a_picture_has_a_srcset_within_the_image_without_a_request(fake: FakeImageHost) -> None:
    photo = save()
    fake.requests.clear()
    html = render(
        "{% imagehost_picture photo.image 320 2000 alt='A \"cat\"' class='hero' data_id=3"
        " formats='avif,webp' %}",
        photo=Photo.objects.get(pk=photo.pk),
    )
    assert fake.requests == []
    url = photo.image.url
    assert f"{url}?w=320&amp;fm=auto 320w, {url}?w=640&amp;fm=auto 640w" in html
    assert html.count("<source") == 2
    for part in ('width="640"', 'height="480"', 'alt="A &quot;cat&quot;"', 'class="hero"', 'data-id="3"'):
        assert part in html
    (stored,) = stored_images(fake)
    assert f'data-thumbhash="{stored.placeholder}"' in html
    client = fake.client()
    assert render("{% imagehost_picture image 320 %}", image=client.images.get(stored.id)).startswith(
        "<picture>"
    )


def test_a_url_has_the_parameters_of_the_filter(fake: FakeImageHost) -> None:
    photo = save()
    assert render("{{ photo.image|imagehost_url:'w=32&h=24&fit=contain' }}", photo=photo) == (
        f"{photo.image.url}?w=32&amp;h=24&amp;fit=contain"
    )
    assert render("{{ photo.image|imagehost_url }}", photo=photo) == photo.image.url
    assert (
        render("{{ photo.image|imagehost_url:'w=32' }}|{% imagehost_picture photo.image %}", photo=Photo())
        == "|"
    )
    with pytest.raises(ImageHostError, match="expected an integer from 1 to 8192 for w"):
        render("{{ photo.image|imagehost_url:'w=32px' }}", photo=photo)
    with pytest.raises(TypeError, match="width"):
        render("{{ photo.image|imagehost_url:'width=32' }}", photo=photo)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 25])
def test_a_name_has_all_of_a_placeholder(length: int) -> None:
    from base64 import b64encode

    from imagehost_client.django.storage import LONGEST_NAME, StoredName

    for first in range(0, 256, 5):
        placeholder = b64encode(bytes((first + at * 37) % 256 for at in range(length))).decode()
        name = StoredName(
            id="0aZ" * 5 + "9", extension="jpeg", width=65535, height=65535, placeholder=placeholder
        )
        assert StoredName.parse(str(name)) == name
        assert len(str(name)) <= LONGEST_NAME


def test_the_setting_has_the_options_of_uploads_and_the_client(fake: FakeImageHost) -> None:
    album = fake.client().albums.create("Site")
    with override_settings(
        IMAGEHOST={"upload": {"album_id": album.id, "format": "png"}, "client": {"app_info": "shop/1"}}
    ):
        photo = save()
        assert "shop/1" in str(default_storage.client.config.app_info)  # type: ignore[attr-defined]
    (stored,) = stored_images(fake)
    assert (stored.album_id, stored.url) == (album.id, photo.image.url)
    assert str(photo.image.name).endswith(".png")


def test_unknown_options_are_refused_by_name() -> None:
    with pytest.raises(ImproperlyConfigured, match="'privat'"):
        ImageHostStorage(privat=True)
    with override_settings(IMAGEHOST={"bucket": "x"}), pytest.raises(ImproperlyConfigured, match="'bucket'"):
        default_storage.exists("0" * 16 + ".png")


def test_a_storage_of_a_field_is_written_to_migrations() -> None:
    from django.db.migrations.writer import MigrationWriter

    field = Photo._meta.get_field("secret")
    text, imports = MigrationWriter.serialize(field)
    assert "imagehost_client.django.ImageHostStorage(expires_in=60, private=True)" in text
    assert "import imagehost_client.django" in imports


def test_errors_of_the_host_are_those_of_the_client(fake: FakeImageHost) -> None:
    fake.fail(413)
    with pytest.raises(PayloadTooLargeError):
        save()


def test_each_host_of_tests_has_a_client_of_its_own(fake: FakeImageHost) -> None:
    save()
    other = FakeImageHost()
    with other.patch():
        assert default_storage.exists(str(save().image.name))
    assert (len(stored_images(fake)), len(stored_images(other))) == (1, 1)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_async_view_stores_an_image(fake: FakeImageHost) -> None:
    file = SimpleUploadedFile("a.png", make_png(30, 20), "image/png")
    response = await AsyncClient().post("/photos/", {"image": file})
    (stored,) = stored_images(fake)
    body: Any = response.json()
    assert body == {"url": stored.url, "width": 30}
