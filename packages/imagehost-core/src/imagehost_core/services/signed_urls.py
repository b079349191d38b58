"""Signed image URLs: access to a private image, or to a transform that must be signed, until they expire."""

from __future__ import annotations

from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.errors import FieldError, ValidationError, quote_value
from imagehost_core.formats import FORMATS, Format
from imagehost_core.models import Image
from imagehost_core.resources import UrlBuilder
from imagehost_core.services.access import require_allowed_transform
from imagehost_core.services.delivery import ImageResolver
from imagehost_core.settings import DeliverySettings
from imagehost_core.transform import MAX_LIFETIME_SECONDS, Transform, sign_url


@frozen
class UrlSigner:
    """The signer of image URLs, with the host's secret."""

    _resolver: ImageResolver = field(repr=False)
    _urls: UrlBuilder = field(repr=False)
    _settings: DeliverySettings = field(repr=False)
    _secret: bytes = field(repr=False)
    _clock: Clock = field(repr=False)

    def sign(self, image: Image, transform: Transform, expires_in: int) -> str:
        """Return the signed URL of a transform of an image.

        Args:
            image: The image.
            transform: The transform.
            expires_in: Seconds, from 1 to a year; the caller has checked it with `require_lifetime`.

        Raises:
            BadRequestError: The transform is not possible or not allowed.
        """
        self._resolver.build(image, transform)
        require_allowed_transform(transform, True, self._settings)
        expires = int(self._clock().timestamp()) + expires_in
        signature = sign_url(self._secret, image.id, transform, expires)
        query = transform.to_query()
        signed = "&".join(filter(None, (query, f"exp={expires}", f"sig={signature}")))
        # `fm` cannot name every format; the extension can.
        extension = FORMATS[transform.format].extensions[0] if isinstance(transform.format, Format) else None
        return self._urls.image(image, signed, extension)


def require_lifetime(expires_in: int) -> None:
    """Raise ValidationError unless `expires_in` is an integer from 1 to a year, in seconds."""
    if type(expires_in) is not int or not 1 <= expires_in <= MAX_LIFETIME_SECONDS:
        expected = f"an integer from 1 to {MAX_LIFETIME_SECONDS} seconds"
        raise ValidationError(errors=[FieldError("expires_in", expected, quote_value(expires_in))])
