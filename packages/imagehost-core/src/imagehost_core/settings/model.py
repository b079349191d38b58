"""All settings of the core, with their defaults.

`imagehost_core.settings.loader` reads each from the variable `IMAGEHOST_<SECTION>_<NAME>`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from urllib.parse import urlsplit

from attrs import Attribute, asdict, evolve, field, frozen
from attrs.converters import optional as optional_converter
from attrs.validators import ge, le, matches_re, optional

from imagehost_core._util.machine import available_cores, available_memory
from imagehost_core.formats import DEFAULT_AVIF_SPEED
from imagehost_core.limits import DAY, HOUR, MINUTE, RateLimitPolicy, Window
from imagehost_core.models import Account, AccountLimits
from imagehost_core.settings.engines import (
    FOLDER,
    SQLITE,
    PostgresSettings,
    require_database,
    require_storage_url,
)
from imagehost_core.settings.secrets import redact_header, redact_password, redact_url, secret, show_value

_PURGE_URL = re.compile(
    r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[!\"$-\[\]-~]*)?", re.ASCII
)
_STATUS = re.compile(r"[2-5][0-9]{2}", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
"""A token of RFC 9110, section 5.6.2: a method or the name of a header."""
_HEADER = re.compile(rf"(?P<name>{_TOKEN.pattern}):[ \t]*(?P<value>[!-~]+(?:[ \t]+[!-~]+)*)?", re.ASCII)


def _matching(pattern: re.Pattern[str], expected: str) -> Callable[..., None]:
    """Return an attrs validator that raises ValueError unless a text, or each one of several, matches."""

    def validate(_settings: object, attribute: Attribute[object], value: str | tuple[str, ...]) -> None:
        for text in (value,) if isinstance(value, str) else value:
            if pattern.fullmatch(text) is None:
                received = show_value(attribute, text)
                raise ValueError(f"expected {expected} for {attribute.name} but received {received}")

    return validate


_require_token = _matching(_TOKEN, "letters, digits and hyphens")


def _require_headers(
    _settings: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]
) -> None:
    for line in value:
        if _HEADER.fullmatch(line) is None:
            raise ValueError(f"expected lines like 'Name: value' for {attribute.name} but received another")


@frozen(kw_only=True)
class PurgeSettings:
    """The request that is sent to a shared cache when a public image is deleted, hidden or renamed.

    In `url`, `headers` and `body`, `{id}` is the id of the image, `{tag}` its cache tag, `img-<id>`, and
    `{url}` its URL without an extension and parameters.

    Attributes:
        url: The URL of the request; `None` sends none. It may be of a private network.
        method: The method of the request, such as `POST`, `PURGE` or `BAN`.
        headers: Its headers, as lines like `Name: value`.
        body: Its body.
        tag_header: A response header that has the cache tag, in addition to `Cache-Tag`.
        success_statuses: Statuses that mean success besides 2xx, such as the 404 of a cache that has nothing.
        timeout_seconds: The longest duration of an attempt.
    """

    url: str | None = field(
        default=None,
        validator=optional(_matching(_PURGE_URL, "an http or https URL without user or fragment")),
        repr=False,
        metadata=secret(redact_url),
    )
    method: str = field(default="POST", validator=_require_token)
    headers: tuple[str, ...] = field(
        default=(), validator=_require_headers, repr=False, metadata=secret(redact_header)
    )
    body: str | None = field(default=None, repr=False, metadata=secret())
    tag_header: str | None = field(default=None, validator=optional(_require_token))
    success_statuses: tuple[str, ...] = field(default=(), validator=_matching(_STATUS, "HTTP statuses"))
    timeout_seconds: float = field(default=10.0, validator=ge(0.1))


MIB, GIB = 2**20, 2**30


class PrivateDelivery(StrEnum):
    """Access to images that are not public."""

    RESTRICTED = "restricted"
    """The owner's token or a signed URL is required."""
    UNLISTED = "unlisted"
    """Every client that knows the URL has access."""


_URL = re.compile(
    r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>(?:/[A-Za-z0-9._~%!$+,;=:@-]+)*)",
    re.ASCII,
)
"""A subset of RFC 3986 that needs no escaping in JSON, HTML or Markdown: no user, query or fragment."""


def _is_url(text: str, suffix: str = "") -> bool:
    match = _URL.fullmatch(text)
    return match is not None and int(match["port"] or 443) <= 65_535 and match["path"].endswith(suffix)


OWN_PATHS = frozenset(
    (
        ".well-known", "a", "admin", "albums", "api", "assets", "favicon.ico", "feed.xml", "healthz", "i",
        "images", "img", "integrations", "login", "logout", "manifest.webmanifest", "metrics", "oembed",
        "readyz", "robots.txt", "s", "selection.zip", "settings", "sitemap.xml", "upload", "v1",
    )
)  # fmt: skip
"""The first segments of the paths that the server itself has.

Below one of them the server could not tell its own path from one whose root path a proxy has left in it.
"""

_ROOT_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)*")


def with_version(value: str) -> str:
    """Return a `base_url` with `/v1` at its end, which may be left out as in the client."""
    given: object = value
    return f"{value.rstrip('/').removesuffix('/v1')}/v1" if isinstance(given, str) and value else value


def require_base_url(_settings: object, attribute: Attribute[str], value: str) -> None:
    """Raise ValueError unless a value can be a `base_url`."""
    expected = None
    if not _is_url(value, "/v1"):
        expected = "an http or https URL that ends in /v1, without user, query or fragment,"
    else:
        root_path = urlsplit(value).path.removesuffix("/v1")
        if not _ROOT_PATH.fullmatch(root_path):
            expected = "a path of letters, digits, ., _, ~ and -"
        elif root_path.endswith("/api") or root_path[1:].partition("/")[0] in OWN_PATHS:
            expected = (
                "a path that does not begin with a path of the host, such as /images, or end in /api/v1,"
            )
    if expected:
        raise ValueError(
            f"expected {expected} for {attribute.name} but received {show_value(attribute, value)}"
        )


def _require_optional_url(_settings: object, attribute: Attribute[str | None], value: str | None) -> None:
    if value is not None and not _is_url(value):
        expected = "an http or https URL without a trailing slash, user, query or fragment"
        raise ValueError(
            f"expected {expected} for {attribute.name} but received {show_value(attribute, value)}"
        )


_ALLOWED_SIZE = re.compile(r"(?=.*[0-9])([1-9][0-9]{0,3})?x([1-9][0-9]{0,3})?", re.ASCII)


def require_section(section: type[object]) -> Callable[..., None]:
    """Return an attrs validator that raises TypeError unless a value is an instance of a settings class."""

    def validate(_settings: object, attribute: Attribute[object], value: object) -> None:
        if not isinstance(value, section):
            package = ".".join(section.__module__.split(".")[:2])
            expected, received = f"{package}.{section.__name__}", type(value).__name__
            raise TypeError(f"expected {expected} for {attribute.name} but received {received}")

    return validate


@frozen(kw_only=True, cache_hash=True)
class LimitSettings:
    """Rate limits and quotas; 0 means unlimited.

    Attributes:
        api_per_minute: API requests per account and minute.
        api_per_hour: API requests per account and hour.
        api_per_day: API requests per account and day.
        uploads_per_minute: Upload requests per account and minute.
        bulk_ids_per_minute: Image ids in bulk requests per account and minute.
        unauthenticated_per_minute: Requests without a valid token per client IP address and minute.
        sign_ins_per_minute: Sign-in attempts per client IP address and minute, and of an account per minute
            that are not delayed.
        pages_per_minute: Web pages per client IP address and minute.
        quota_bytes: Bytes of masters per account.
    """

    api_per_minute: int = field(default=60, validator=ge(0))
    api_per_hour: int = field(default=1_000, validator=ge(0))
    api_per_day: int = field(default=10_000, validator=ge(0))
    uploads_per_minute: int = field(default=10, validator=ge(0))
    bulk_ids_per_minute: int = field(default=1_000, validator=ge(0))
    unauthenticated_per_minute: int = field(default=60, validator=ge(0))
    sign_ins_per_minute: int = field(default=10, validator=ge(0))
    pages_per_minute: int = field(default=300, validator=ge(0))
    quota_bytes: int = field(default=0, validator=ge(0))

    @property
    def api(self) -> RateLimitPolicy:
        """The windows of an API request."""
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
    def bulk_ids(self) -> RateLimitPolicy:
        """The window of the image ids in bulk requests."""
        return (Window("bulk_ids_per_minute", MINUTE, self.bulk_ids_per_minute, "ids"),)

    @property
    def sign_ins(self) -> RateLimitPolicy:
        """The windows of a sign-in attempt."""
        return (Window("sign_ins_per_minute", MINUTE, self.sign_ins_per_minute),)

    def for_account(self, account: Account) -> LimitSettings:
        """Return the limits of an account: these, overridden by its own."""
        limits = self if account.quota_bytes is None else evolve(self, quota_bytes=account.quota_bytes)
        return limits.overridden(account.limits)

    def overridden(self, limits: AccountLimits) -> LimitSettings:
        """Return these limits, overridden by those that an account has."""
        return evolve(self, **asdict(limits, filter=lambda _, value: value is not None))

    @property
    def unauthenticated(self) -> RateLimitPolicy:
        """The windows of a request without a valid token."""
        return (Window("unauthenticated_per_minute", MINUTE, self.unauthenticated_per_minute),)

    @property
    def pages(self) -> RateLimitPolicy:
        """The windows of a web page."""
        return (Window("pages_per_minute", MINUTE, self.pages_per_minute, "pages"),)


@frozen(kw_only=True)
class DeliverySettings:
    """The image delivery route and its caches.

    Attributes:
        private: Access to images that are not public.
        require_signed: Whether a URL with transform parameters must be signed.
        allowed_sizes: The allowed output sizes, like `320x240`, `640x` or `x480`; empty allows all. The size
            of `thumb_url` is always allowed.
        max_age_seconds: The `max-age` of public images in `Cache-Control`, for browsers.
        shared_max_age_seconds: Their `s-maxage`, for shared caches (RFC 9111, section 5.2.2.10). With 0 these
            store nothing or revalidate, so that they never serve a deleted image.
        enlarge: Whether images are enlarged for a larger width or height; if not, a variant is at most as
            large as its image, or padded for `fit=contain`.
        avif_speed: The speed of the AVIF encoder, from 0, the slowest and best, to 10.
        variants_per_image: The largest number of cached variants of an image; when it is exceeded, the least
            recently used eighth is evicted.
        disk_cache_bytes: The size of the variant cache on disk.
        memory_cache_bytes: The size of the variant cache in memory, in each process.
        accel_redirect: The internal location of nginx, such as `/imagehost-files/`, that is the directory
            `images` of the data directory: nginx sends the masters of public images from there.
    """

    private: PrivateDelivery = PrivateDelivery.RESTRICTED
    require_signed: bool = False
    allowed_sizes: tuple[str, ...] = field(
        default=(), validator=_matching(_ALLOWED_SIZE, "sizes like 320x240, 640x or x480")
    )
    max_age_seconds: int = field(default=86_400, validator=ge(0))
    shared_max_age_seconds: int = field(default=0, validator=ge(0))
    enlarge: bool = True
    avif_speed: int = field(default=DEFAULT_AVIF_SPEED, validator=[ge(0), le(10)])
    variants_per_image: int = field(default=200, validator=ge(1))
    disk_cache_bytes: int = field(default=10 * GIB, validator=ge(0))
    memory_cache_bytes: int = field(default=64 * MIB, validator=ge(0))
    accel_redirect: str | None = field(default=None, validator=optional(matches_re(r"/([a-z0-9_-]+/)+")))


@frozen(kw_only=True)
class StorageSettings:
    """File storage.

    Attributes:
        url: Where masters and derivatives are stored: `folder`, which is the data directory, or the URL of an
            object store, such as `s3://bucket/prefix`.
        timeout_seconds: The longest duration of an operation on a file of an object store; later the request
            is rejected.
        cache_bytes: The size of the cache of an object store's files in the data directory.
        min_free_bytes: The free disk space that a write must leave; a write that would leave less is
            rejected.
    """

    url: str = field(default=FOLDER, validator=require_storage_url, metadata=secret(str))
    timeout_seconds: float = field(default=20.0, validator=ge(0.1))
    cache_bytes: int = field(default=10 * GIB, validator=ge(0))

    min_free_bytes: int = field(default=512 * MIB, validator=ge(0))


@frozen(kw_only=True)
class UploadSettings:
    """Defaults of upload options.

    Attributes:
        remove_exif: Whether EXIF, XMP and IPTC, which can contain the place of a photograph, are removed from
            uploads that do not set the option.
    """

    remove_exif: bool = False


@frozen(kw_only=True)
class RenderingSettings:
    """The worker processes that decode and encode images.

    Attributes:
        processes: The number of processes; by default that of the CPU cores that this process may use.
        queue: The number of small and of large tasks that may wait for a process, each.
        ingest_timeout_seconds: The longest processing time of an upload.
        render_timeout_seconds: The longest rendering time of a variant.
        cpu_seconds: The CPU time of one upload or rendering; 0 means unlimited.
        memory_limit_bytes: The address space limit of each process; 0 means unlimited.
        memory_budget_bytes: The memory of all processes together; by default half of that of the machine, or
            of the limit of the cgroup; 0 means unlimited.
    """

    processes: int = field(factory=available_cores, validator=ge(1))
    queue: int = field(default=64, validator=ge(1))
    ingest_timeout_seconds: float = field(default=60.0, validator=ge(0.1))
    render_timeout_seconds: float = field(default=20.0, validator=ge(0.1))
    cpu_seconds: float = field(default=10.0, validator=ge(0))
    memory_limit_bytes: int = field(default=4 * GIB, validator=ge(0))
    memory_budget_bytes: int = field(factory=lambda: available_memory() // 2, validator=ge(0))


@frozen(kw_only=True)
class ListSettings:
    """Lists of images.

    Attributes:
        timeout_seconds: The longest time for reading a page; a request that takes longer is rejected.
    """

    timeout_seconds: float = field(default=3.0, validator=ge(0.01))


@frozen(kw_only=True)
class SessionSettings:
    """Sessions of signed-in users.

    Attributes:
        lifetime_seconds: The time from sign-in to expiry.
    """

    lifetime_seconds: int = field(default=7 * DAY, validator=ge(60))


@frozen(kw_only=True)
class WebhookSettings:
    """Webhook delivery.

    Attributes:
        send_in_server: Whether the server sends webhooks; false if `imagehost webhook-sender` runs.
        allow_loopback: Whether endpoints may be on loopback, and use http there.
        timeout_seconds: The longest time from the start of an attempt to the response's status.
        concurrency: The number of concurrent attempts of each sender.
        retention_seconds: The time for which events and their deliveries are stored.
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
        base_url: The public URL of the HTTP interface; `/v1` is added if it is missing. Without it and
            `cdn_url`, images have no URLs.
        cdn_url: The public URL of the image delivery route; by default `<site_url>/img`.
        database: `sqlite` for a file in the data directory, or the URL of a PostgreSQL database.
        postgres: The connections to PostgreSQL.
        limits: Rate limits and quotas.
        delivery: The image delivery route and its caches.
        storage: File storage.
        uploads: Defaults of upload options.
        rendering: The worker processes that decode and encode images.
        lists: Lists of images.
        sessions: Sessions of signed-in users.
        webhooks: Webhook delivery.
        purge: Requests to shared caches.

    Raises:
        TypeError: A section is not an instance of its class.
        ValueError: A value is not allowed.
    """

    base_url: str | None = field(
        default=None,
        converter=optional_converter(with_version),
        validator=optional(require_base_url),
        metadata=secret(redact_url),
    )
    cdn_url: str | None = field(default=None, validator=_require_optional_url, metadata=secret(redact_url))
    database: str = field(
        default=SQLITE, validator=require_database, repr=redact_password, metadata=secret(redact_password)
    )
    postgres: PostgresSettings = field(factory=PostgresSettings, validator=require_section(PostgresSettings))
    limits: LimitSettings = field(factory=LimitSettings, validator=require_section(LimitSettings))
    delivery: DeliverySettings = field(factory=DeliverySettings, validator=require_section(DeliverySettings))
    storage: StorageSettings = field(factory=StorageSettings, validator=require_section(StorageSettings))
    uploads: UploadSettings = field(factory=UploadSettings, validator=require_section(UploadSettings))
    rendering: RenderingSettings = field(
        factory=RenderingSettings, validator=require_section(RenderingSettings)
    )
    lists: ListSettings = field(factory=ListSettings, validator=require_section(ListSettings))
    sessions: SessionSettings = field(factory=SessionSettings, validator=require_section(SessionSettings))
    webhooks: WebhookSettings = field(factory=WebhookSettings, validator=require_section(WebhookSettings))
    purge: PurgeSettings = field(factory=PurgeSettings, validator=require_section(PurgeSettings))

    @property
    def site_url(self) -> str:
        """The public URL of the pages: `base_url` without its `/v1`; "" without it."""
        return (self.base_url or "").removesuffix("/v1")

    @property
    def root_path(self) -> str:
        """The path of `site_url`: empty, or like `/photos` for a site below a path."""
        return urlsplit(self.site_url).path

    @property
    def delivery_url(self) -> str:
        """The public URL of the image delivery route; "" without `base_url` and `cdn_url`."""
        return self.cdn_url or (f"{self.site_url}/img" if self.base_url else "")
