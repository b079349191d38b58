"""Access rules of the processing route: who can see an image, which transforms are allowed, and who signs."""

from __future__ import annotations

from attrs import field, frozen

from imagehost_core._util.lru import GenerationCache
from imagehost_core.db.engines.database import Queryable
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.errors import BadRequestError, ForbiddenError, NotFoundError
from imagehost_core.formats import Format
from imagehost_core.ids import AccountId
from imagehost_core.image_url import signing_key
from imagehost_core.models import THUMB_SIDE, Account, Image
from imagehost_core.services.principals import PrincipalCache
from imagehost_core.settings import DeliverySettings, PrivateDelivery
from imagehost_core.transform import Fit, Transform

SIGNING_KEYS_IN_MEMORY = 10_000
"""Accounts whose signing keys are in memory, per process."""


@frozen
class SigningKeys:
    """The keys that sign image URLs: one per account, of its secret and that of the host.

    A key in memory is valid as long as principals are: renewing the secret of an account invalidates both.
    """

    _records: Repositories = field(repr=False)
    _principals: PrincipalCache = field(repr=False)
    _secret: bytes = field(repr=False)
    _keys: GenerationCache[AccountId, bytes] = field(
        factory=lambda: GenerationCache[AccountId, bytes](SIGNING_KEYS_IN_MEMORY), repr=False
    )

    def read(self, account_id: AccountId, queryable: Queryable | None = None) -> bytes:
        """Return the signing key of an account.

        Args:
            account_id: The account.
            queryable: An open transaction; by default the database.

        Raises:
            NotFoundError: There is no such account.
        """
        secret = self._records.accounts.signing_secret(account_id, queryable)
        if secret is None:
            raise NotFoundError("expected an account that exists but it was deleted")
        return signing_key(self._secret, secret)

    def cached(self, account_id: AccountId) -> bytes | None:
        """Return the signing key of an account if it is in memory and valid."""
        return self._keys.get(account_id, self.generation())

    def generation(self) -> int | None:
        """Return the generation to pass to `keep` with a secret that is read next."""
        return self._principals.generation()

    def keep(self, account_id: AccountId, secret: bytes, generation: int | None) -> bytes:
        """Return the signing key of an account with a secret, and keep it in memory."""
        key = signing_key(self._secret, secret)
        self._keys.put(account_id, key, generation)
        return key


def can_view(image: Image, viewer: Account | None, granted: bool, settings: DeliverySettings) -> bool:
    """Return whether the bytes of an image may be sent.

    A private image needs its owner's token, a valid signed URL or a share, unless `private` is `unlisted`.

    Args:
        image: The image.
        viewer: The account of the request's token, or `None`.
        granted: Whether the URL carries a valid signature, or a valid share of the image's album.
        settings: The delivery settings.
    """
    owned = viewer is not None and viewer.id == image.account_id
    return owned or not is_restricted(image, granted, settings)


def is_restricted(image: Image, granted: bool, settings: DeliverySettings) -> bool:
    """Return whether the bytes of an image may be sent to its owner only.

    Args:
        image: The image.
        granted: Whether the URL carries a valid signature, or a valid share of the image's album.
        settings: The delivery settings.
    """
    unlisted = settings.private is PrivateDelivery.UNLISTED
    return not (image.is_public or unlisted or granted)


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
        raise BadRequestError.of("w and h", f"one of {', '.join(allowed)}", requested)


def _is_thumb(transform: Transform) -> bool:
    bare = Transform(format=transform.format)
    boxed = Transform(width=THUMB_SIDE, height=THUMB_SIDE, fit=Fit.INSIDE, format=transform.format)
    return transform.format in (Format.WEBP, Format.JPEG) and transform in (bare, boxed)
