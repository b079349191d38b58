"""Uploads an image through Wagtail's admin and prints its size and URLs, or deletes it there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path.cwd()))
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"

import django

django.setup()

from django.conf import settings  # noqa: E402
from django.contrib.auth import get_user_model  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import reverse  # noqa: E402
from wagtail.images import get_image_model  # noqa: E402

settings.ALLOWED_HOSTS = ["testserver"]
visitor = Client()
visitor.force_login(get_user_model().objects.get())
if sys.argv[1] == "upload":
    with Path("cat.png").open("rb") as file:
        response = visitor.post(reverse("wagtailimages:add"), {"title": "Cat", "file": file, "collection": 1})
    assert response.status_code == 302, response.content.decode()
    image = get_image_model().objects.get()
    page = visitor.get(reverse("wagtailimages:edit", args=[image.pk])).content.decode()
    rendition = image.renditions.first()
    assert rendition.url in page
    print(f"{image.width}x{image.height}", image.file.url, rendition.url)
else:
    image = get_image_model().objects.get()
    assert visitor.post(reverse("wagtailimages:delete", args=[image.pk])).status_code == 302
