"""The order of lists of images, as sorting in memory has it."""

from __future__ import annotations

from collections.abc import Iterable

from imagehost_core import Image
from imagehost_core.lists import ImageSort


def in_order(images: Iterable[Image], sort: ImageSort) -> list[Image]:
    """Return images in an order; those without a value are the last."""
    images = list(images)

    def ordered(has_value: bool) -> list[Image]:
        part = [image for image in images if (getattr(image, sort.field) is not None) is has_value]
        return sorted(
            part,
            key=lambda image: (getattr(image, sort.field) if has_value else 0, image.id),
            reverse=sort.is_descending,
        )

    return ordered(True) + ordered(False)
