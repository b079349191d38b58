"""Django's images on an image host: a storage for `ImageField`, and template tags.

It needs the extra `imagehost-client[django]`, and `imagehost_client.django` in `INSTALLED_APPS`.
"""

from __future__ import annotations

from imagehost_client.django.storage import ImageHostStorage

__all__ = ["ImageHostStorage"]
