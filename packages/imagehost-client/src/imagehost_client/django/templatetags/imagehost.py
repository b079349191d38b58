"""The template tag `imagehost_picture` and the filter `imagehost_url`."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from django import template
from django.db.models.fields.files import FieldFile
from django.utils.safestring import SafeString, mark_safe

from imagehost_client import urls
from imagehost_client.django.storage import ImageHostStorage

register: template.Library = template.Library()

NUMBERS = ("w", "h", "q")
"""The transform parameters that are numbers."""


@register.simple_tag
def imagehost_picture(image: Any, *widths: int, formats: str = "", **options: Any) -> SafeString:
    """Return a responsive `<picture>` element.

    Args:
        image: The file of an `ImageField`, or an image of the client.
        *widths: Widths in pixels; by default from 320 to 2560.
        formats: Formats in `<source>` elements, separated by commas; `urls.PictureOptions` describes them.
        **options: `alt`, `loading`, `sizes`, `h`, `q` and `fit`, as for `urls.picture`. Others are attributes
            of `<img>`, with `_` for `-`.
    """
    if not image:
        return SafeString()
    names = {*urls.PICTURE_DEFAULTS, "h", "q", "fit"}
    given: Any = {name: value for name, value in options.items() if name in names}
    given["attributes"] = {
        name.replace("_", "-"): value for name, value in options.items() if name not in names
    }
    given["formats"] = [name.strip() for name in formats.split(",") if name.strip()]
    storage = _storage_of(image)
    if storage is None:
        return mark_safe(urls.picture(image, widths or urls.DEFAULT_WIDTHS, **given))  # noqa: S308 - escaped
    plan = urls.plan_picture(storage.displayed(image.name), widths or urls.DEFAULT_WIDTHS, given)
    return mark_safe(plan.html(storage.variant_urls(image.name, plan.variants)))  # noqa: S308 - escaped


@register.filter
def imagehost_url(image: Any, parameters: str = "") -> str:
    """Return the URL of an image with parameters, such as `w=320` or `w=320&h=240&fit=contain`.

    Args:
        image: The file of an `ImageField`, or an image of the client.
        parameters: `w`, `h`, `q`, `fit` and `fm`, as in a URL.
    """
    if not image:
        return ""
    pairs = parse_qsl(parameters, keep_blank_values=True, strict_parsing=bool(parameters))
    params: Any = {name: _number(value) if name in NUMBERS else value for name, value in pairs}
    storage = _storage_of(image)
    if storage is None:
        return urls.image_url(image, **params)
    return storage.variant_urls(image.name, [params])[0]


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text


def _storage_of(image: object) -> ImageHostStorage | None:
    """Return the storage of a field's file; raise ValueError if it is another one."""
    if not isinstance(image, FieldFile):
        return None
    if not isinstance(image.storage, ImageHostStorage):
        raise ValueError(f"expected ImageHostStorage for {image.field} but received {image.storage!r}")
    # The storage behind `default_storage`, which is found anew after a change of the settings.
    return image.storage
