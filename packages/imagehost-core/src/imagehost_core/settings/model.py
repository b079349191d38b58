"""Every setting of the core, with its default, in one place.

Each is read from the variable `IMAGEHOST_<SECTION>_<NAME>` (`imagehost_core.settings.loader`).
"""

from __future__ import annotations

import os
import re
from enum import StrEnum
from urllib.parse import urlsplit

from attrs import Attribute, Factory, asdict, evolve, field, frozen
from attrs.validators import ge

from imagehost_core.limits import DAY, HOUR, MINUTE, RateLimitPolicy, Window
from imagehost_core.models import LimitOverrides

KIB, MIB, GIB = 2**10, 2**20, 2**30


class PrivateDelivery(StrEnum):
    """Who gets the bytes of images that are not public (contract 7)."""

    RESTRICTED = "restricted"
    """Only the owner's token, or a signed address."""
    UNLISTED = "unlisted"
    """Whoever knows the address."""


_URL = re.compile(
    r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>(?:/[A-Za-z0-9._~%!$+,;=:@-]+)*)",
    re.ASCII,
)
"""What is printed in every answer, page and link: nothing in it has to be escaped anywhere, and it
has no user, query or fragment (RFC 3986, with what it allows cut down)."""


def _is_url(text: str, ending: str = "") -> bool:
    match = _URL.fullmatch(text)
    return match is not None and int(match["port"] or 443) <= 65_535 and match["path"].endswith(ending)


def _require_base_url(_settings: object, attribute: Attribute[str], value: str) -> None:
    if not _is_url(value, "/v1"):
        expected = "an http or https address that ends in /v1, without user, query or fragment,"
        raise ValueError(f"expected {expected} for {attribute.name} but received {value!r}")


def _require_optional_url(_settings: object, attribute: Attribute[str | None], value: str | None) -> None:
    if value is not None and not _is_url(value):
        expected = "an http or https address without a trailing slash, user, query or fragment"
        raise ValueError(f"expected {expected} for {attribute.name} but received {value!r}")


_ALLOWED_SIZE = re.compile(r"(?=.*[0-9])([1-9][0-9]{0,3})?x([1-9][0-9]{0,3})?", re.ASCII)


def _require_sizes(_settings: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    for entry in value:
        if _ALLOWED_SIZE.fullmatch(entry) is None:
            expected = "sizes like 320x240, 640x or x480"
            raise ValueError(f"expected {expected} for {attribute.name} but received {entry!r}")


@frozen(kw_only=True)
class LimitSettings:
    """Requests in a window, and bytes; 0 = none, that is, no limit.

    Attributes:
        api_per_minute: API requests of an account in a minute.
        api_per_hour: The same in an hour.
        api_per_day: The same in a day.
        uploads_per_minute: Upload requests of an account in a minute.
        unauthenticated_per_minute: Requests without a good token from one client address in a minute.
        sign_ins_per_minute: Attempts to sign in to one account, and from one client address, in a minute.
        quota_bytes: Bytes of masters of an account.
    """

    api_per_minute: int = field(default=60, validator=ge(0))
    api_per_hour: int = field(default=1_000, validator=ge(0))
    api_per_day: int = field(default=10_000, validator=ge(0))
    uploads_per_minute: int = field(default=10, validator=ge(0))
    unauthenticated_per_minute: int = field(default=60, validator=ge(0))
    sign_ins_per_minute: int = field(default=10, validator=ge(0))
    quota_bytes: int = field(default=0, validator=ge(0))

    @property
    def api(self) -> RateLimitPolicy:
        """The windows of every API request."""
        return (
            Window("api_per_minute", MINUTE, self.api_per_minute),
            Window("api_per_hour", HOUR, self.api_per_hour),
            Window("api_per_day", DAY, self.api_per_day),
        )

    @property
    def uploads(self) -> RateLimitPolicy:
        """The windows of an upload request."""
        return (*self.api, Window("uploads_per_minute", MINUTE, self.uploads_per_minute))

    @property
    def sign_ins(self) -> RateLimitPolicy:
        """The windows of an attempt to sign in."""
        return (Window("sign_ins_per_minute", MINUTE, self.sign_ins_per_minute),)

    def for_account(self, own: LimitOverrides) -> LimitSettings:
        """Return the limits of an account that has some of its own."""
        given = asdict(own, filter=lambda _, value: value is not None)
        return evolve(self, **given)

    @property
    def unauthenticated(self) -> RateLimitPolicy:
        """The windows of a request without a good token."""
        return (Window("unauthenticated_per_minute", MINUTE, self.unauthenticated_per_minute),)


@frozen(kw_only=True)
class DeliverySettings:
    """What the processing route serves, and to whom.

    Attributes:
        private: Who gets the bytes of images that are not public.
        require_signed: Whether an address with parameters must be signed.
        allowed_sizes: The only sizes that may be asked for, like `320x240`, `640x` or `x480`; empty:
            all. The size of `thumb_url` is always allowed.
        max_age: Seconds for which public variants may be kept by others.
        variants_per_image: How many variants of one image are kept at most; beyond it the least recently
            used eighth goes.
        cache_bytes: How many bytes of variants are kept on disk.
        memory_bytes: How many bytes of variants are kept in memory, in each process.
    """

    private: PrivateDelivery = PrivateDelivery.RESTRICTED
    require_signed: bool = False
    allowed_sizes: tuple[str, ...] = field(default=(), validator=_require_sizes)
    max_age_seconds: int = field(default=86_400, validator=ge(0))
    variants_per_image: int = field(default=200, validator=ge(1))
    disk_cache_bytes: int = field(default=10 * GIB, validator=ge(0))
    memory_cache_bytes: int = field(default=64 * MIB, validator=ge(0))


@frozen(kw_only=True)
class StorageSettings:
    """Where bytes are kept.

    Attributes:
        free_bytes: The floor: a write that would leave less of the disk free is refused.
    """

    min_free_bytes: int = field(default=512 * MIB, validator=ge(0))


@frozen(kw_only=True)
class RenderingSettings:
    """The processes that decode and encode.

    Attributes:
        processes: How many there are; the machine's cores, unless set.
        queue: How many requests may wait for one; a quarter of these places is kept for light variants, and
            a quarter for uploads.
        ingest_deadline: Seconds after which the work on an upload is stopped.
        render_deadline: Seconds after which the work on a variant is stopped.
        memory_bytes: The address space that each may use; 0 = no limit.
    """

    processes: int = field(default=Factory(lambda: os.cpu_count() or 1), validator=ge(1))
    queue: int = field(default=64, validator=ge(1))
    ingest_timeout_seconds: float = field(default=60.0, validator=ge(0.1))
    render_timeout_seconds: float = field(default=20.0, validator=ge(0.1))
    memory_limit_bytes: int = field(default=4 * GIB, validator=ge(0))


@frozen(kw_only=True)
class SessionSettings:
    """Sessions of signed-in users.

    Attributes:
        lifetime: Seconds after which a session ends by itself.
    """

    lifetime_seconds: int = field(default=7 * DAY, validator=ge(60))


@frozen(kw_only=True)
class WebhookSettings:
    """How events are sent.

    Attributes:
        sender: Whether the server sends events itself; not where `imagehost worker` does.
        allow_loopback: Whether plain http on loopback is taken for a destination.
        timeout: Seconds that a destination has for its answer.
        concurrency: How many attempts are under way at a time, in each sender.
        retention: Seconds for which events and their deliveries are kept.
    """

    send_in_server: bool = True
    allow_loopback: bool = False
    timeout_seconds: float = field(default=15.0, validator=ge(0.1))
    concurrency: int = field(default=32, validator=ge(1))
    retention_seconds: int = field(default=30 * DAY, validator=ge(DAY))


@frozen(kw_only=True)
class Settings:
    """All settings of the core.

    Attributes:
        base_url: The address of the interface, ending in `/v1`.
        cdn_url: The address of the processing route; `<origin of base_url>/img`, unless set.
        limits: Requests and bytes.
        delivery: The processing route.
        storage: Where bytes are kept.
        workers: The processes that decode and encode.
        sessions: Sessions of signed-in users.
        webhooks: How events are sent.

    Raises:
        ValueError: A value is not allowed.
    """

    base_url: str = field(default="http://127.0.0.1:8000/v1", validator=_require_base_url)
    cdn_url: str | None = field(default=None, validator=_require_optional_url)
    limits: LimitSettings = LimitSettings()
    delivery: DeliverySettings = DeliverySettings()
    storage: StorageSettings = StorageSettings()
    rendering: RenderingSettings = Factory(RenderingSettings)
    sessions: SessionSettings = SessionSettings()
    webhooks: WebhookSettings = WebhookSettings()

    @property
    def delivery_url(self) -> str:
        """The address of the processing route, as it is printed."""
        if self.cdn_url is not None:
            return self.cdn_url
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc}/img"
