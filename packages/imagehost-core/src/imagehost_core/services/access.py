"""Access rules of the processing route: who can see an image, and which transforms are allowed."""

from __future__ import annotations

from imagehost_core.errors import BadRequestError, FieldError, ForbiddenError
from imagehost_core.formats import Format
from imagehost_core.models import Account, Image
from imagehost_core.resources import THUMB_SIDE
from imagehost_core.settings import DeliverySettings, PrivateDelivery
from imagehost_core.transform import Fit, Transform


def can_view(image: Image, viewer: Account | None, signed: bool, settings: DeliverySettings) -> bool:
    """Return whether the bytes of an image may be sent.

    A private image needs its owner's token or a valid signed URL, unless `private` is `unlisted`.

    Args:
        image: The image.
        viewer: The account of the request's token, or `None`.
        signed: Whether the URL carries a valid signature.
        settings: The delivery settings.
    """
    owned = viewer is not None and viewer.id == image.account_id
    return owned or not is_restricted(image, signed, settings)


def is_restricted(image: Image, signed: bool, settings: DeliverySettings) -> bool:
    """Return whether the bytes of an image may be sent to its owner only.

    Args:
        image: The image.
        signed: Whether the URL carries a valid signature.
        settings: The delivery settings.
    """
    unlisted = settings.private is PrivateDelivery.UNLISTED
    return not (image.is_public or unlisted or signed)


def require_allowed_transform(transform: Transform, signed: bool, settings: DeliverySettings) -> None:
    """Raise unless the settings allow a transform; that of `thumb_url`, which every record has, always is.

    Raises:
        ForbiddenError: Transforms must be signed, and this one is not.
        BadRequestError: Only certain sizes are allowed, and this is not one of them.
    """
    if settings.require_signed and not signed and not _is_thumb(transform):
        raise ForbiddenError("expected a valid sig and exp for a transform but received none")
    if not settings.allowed_sizes or (transform.width is None and transform.height is None):
        return
    requested = f"{transform.width or ''}x{transform.height or ''}"
    allowed = (*settings.allowed_sizes, f"{THUMB_SIDE}x{THUMB_SIDE}")
    if requested not in allowed:
        raise BadRequestError(errors=[FieldError("w and h", f"one of {', '.join(allowed)}", requested)])


def _is_thumb(transform: Transform) -> bool:
    bare = Transform(format=transform.format)
    boxed = Transform(width=THUMB_SIDE, height=THUMB_SIDE, fit=Fit.INSIDE, format=transform.format)
    return transform.format in (Format.WEBP, Format.JPEG) and transform in (bare, boxed)
