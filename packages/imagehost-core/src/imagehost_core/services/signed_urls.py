"""Signed image URLs: access to a private image, or to a transform that must be signed, until they expire.

They are made with a secret of the account, which `AccountService.renew_signing_secret` replaces to end all of
them. One that a key has made expires no later than the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.errors import (
    BadRequestError,
    ErrorCollector,
    ValidationError,
    misspelled_names,
    quote_value,
)
from imagehost_core.formats import FORMATS, Format
from imagehost_core.image_url import MAX_LIFETIME_SECONDS, sign_deletion, sign_url
from imagehost_core.models import Image, Principal, SignedUrl, UrlBuilder
from imagehost_core.services.access import SigningKeys, require_allowed_transform
from imagehost_core.services.delivery import ImageResolver
from imagehost_core.settings import DeliverySettings
from imagehost_core.transform import (
    TRANSFORM_PARAMETERS,
    Transform,
    TransformSource,
    parse_transform,
)

DELETION_SECONDS = 30 * 86_400
"""The lifetime of the URL that deletes an image."""


@frozen
class UrlSigner:
    """The signer of image URLs, with the secrets of the host and of the account."""

    keys: SigningKeys = field(repr=False)
    _resolver: ImageResolver = field(repr=False)
    _urls: UrlBuilder = field(repr=False)
    _settings: DeliverySettings = field(repr=False)
    _clock: Clock = field(repr=False)

    def validate(self, params: TransformSource, image: Image | None) -> Transform:
        """Return the transform of parameters.

        Args:
            params: A query string, its names and values, or a transform.
            image: The image; `None`, if there is none, to check the parameters alone.

        Raises:
            ValidationError: The parameters are not allowed, or the transform is not possible; every error is
                listed in `errors`.
        """
        errors = ErrorCollector()
        misspelled = misspelled_names(params, TRANSFORM_PARAMETERS) if isinstance(params, Mapping) else ()
        if misspelled:
            errors.add(ValidationError(errors=misspelled))
        try:
            transform = parse_transform(params)
            with errors.catch():
                require_allowed_transform(transform, True, self._settings)
            if image is not None:
                with errors.catch():
                    self._resolver.build(image, transform)
            errors.raise_if_any()
        except BadRequestError as error:
            # 400 is about a URL's query; here the parameters are data.
            raise ValidationError(error.details, errors=error.errors) from error
        return transform

    def sign(
        self, key: bytes, image: Image, transform: Transform, expires_in: int, principal: Principal | None
    ) -> SignedUrl:
        """Return the signed URL of a transform of an image.

        Args:
            key: The key of the image's account, from `keys`.
            image: The image.
            transform: The transform, which `validate` has checked.
            expires_in: Seconds, from 1 to a year, which `require_lifetime` has checked.
            principal: The principal of the token that signs, if one does: the URL outlives no key.
        """
        expires = self._expiry(expires_in, principal)
        signature = sign_url(key, image.id, transform, expires)
        query = transform.to_query()
        signed = "&".join(filter(None, (query, f"exp={expires}", f"sig={signature}")))
        # `fm` cannot name every format; the extension can.
        extension = FORMATS[transform.format].extensions[0] if isinstance(transform.format, Format) else None
        url = self._urls.image(image, signed, extension)
        return SignedUrl(url=url, expires_at=datetime.fromtimestamp(expires, UTC))

    def sign_deletion(self, key: bytes, image: Image, principal: Principal) -> str:
        """Return the query of the URL with which anyone can delete an image.

        Args:
            key: The key of the image's account, from `keys`.
            image: The image.
            principal: The principal of the token that signs: the URL outlives no key.
        """
        expires = self._expiry(DELETION_SECONDS, principal)
        return f"exp={expires}&sig={sign_deletion(key, image.id, expires)}"

    def _expiry(self, expires_in: int, principal: Principal | None) -> int:
        expires = int(self._clock().timestamp()) + expires_in
        if principal is not None and principal.key_id is not None and principal.expires_at is not None:
            expires = min(expires, int(principal.expires_at.timestamp()))
        return expires


def require_lifetime(expires_in: object) -> None:
    """Raise ValidationError unless `expires_in` is an integer from 1 to a year, in seconds."""
    if type(expires_in) is not int or not 1 <= expires_in <= MAX_LIFETIME_SECONDS:
        expected = f"an integer from 1 to {MAX_LIFETIME_SECONDS} seconds"
        raise ValidationError.of("expires_in", expected, quote_value(expires_in))
