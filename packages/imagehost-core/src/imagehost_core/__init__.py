"""Image hosting inside a Python program.

```python
from imagehost_core import ImageHost
from imagehost_core.testing import make_image

with ImageHost.open("data") as host:
    image = host.upload(make_image(), owner="admin", filename="cat.png")
    thumb = host.render(image.id, "w=200&h=200&fit=cover&fm=webp")
```

The packages `transform`, `limits`, `events`, `uploads`, `webhooks` and `settings` are pure functions and
values, and can be used alone. Names are imported from their modules on first use (PEP 562), so that these
packages load neither Pillow nor SQLite.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imagehost_core._util.clock import Clock, to_rfc3339, utc_now
    from imagehost_core.authorization import AuthorizedAccount, Requirement, SessionRequirement, authorize
    from imagehost_core.cache_purges import CachePurge, PurgeAttempt, PurgeRequest
    from imagehost_core.db.engines.database import SqlRow, SqlValue, Transaction
    from imagehost_core.db.engines.dialect import Dialect
    from imagehost_core.db.repositories.idempotency import StoredResponse
    from imagehost_core.maintenance.recount import CounterMismatch
    from imagehost_core.maintenance.statistics import DatabaseStatistics

    # isort: off
    from imagehost_core.errors import (
        BadRequestError, ConflictError, ErrorCollector, FieldError, ForbiddenError, ImageHostError,
        InsufficientStorageError, InternalError, MethodNotAllowedError, NotFoundError, PayloadTooLargeError,
        RateLimitError, UnauthorizedError, UnavailableError, UnsupportedMediaTypeError, ValidationError,
    )  # fmt: skip

    # isort: on
    from imagehost_core.events import (
        AlbumCreated,
        AlbumUpdated,
        DeletedImage,
        Event,
        ImageDeleted,
        ImageUploaded,
        deserialize_event,
        event_schemas,
        serialize_event,
    )
    from imagehost_core.formats import Format, sniff
    from imagehost_core.headers import CameraData, ImageHeader, MetadataKind, SourceLimits, scan
    from imagehost_core.host import ImageHost
    from imagehost_core.ids import (
        AccountId,
        AlbumId,
        DeliveryId,
        EventId,
        ImageId,
        KeyId,
        Random,
        SessionId,
        WebhookId,
    )
    from imagehost_core.installation import InstallationRecord, RecordState
    from imagehost_core.jobs import RenderJob
    from imagehost_core.limits import Decision, RateLimitPolicy, Window, decide
    from imagehost_core.lists import (
        CursorPosition,
        ImageFilter,
        ImageListRequest,
        ImageSort,
        PageRequest,
        parse_image_list,
        parse_page_request,
    )
    from imagehost_core.maintenance.adoption import Adoption, adopt
    from imagehost_core.maintenance.backup import BackupInfo, BackupProgress, BackupResult, BackupService
    from imagehost_core.maintenance.check import (
        CheckName,
        CheckProgress,
        Finding,
        FindingKind,
        IntegrityService,
        ProgressCallback,
    )
    from imagehost_core.maintenance.garbage import GarbageReport
    from imagehost_core.maintenance.importers import (
        ImportAlbum,
        ImportItem,
        ImportOptions,
        ImportResult,
        ImportService,
        ImportSource,
        ImportStatus,
        OmittedItem,
        SourceItem,
    )
    from imagehost_core.maintenance.restore import RestoreResult, restore
    from imagehost_core.maintenance.service import HostStatistics, MaintenanceService
    from imagehost_core.models import (
        Account,
        AccountUsage,
        Album,
        ApiKey,
        ApiKeyWithToken,
        DeliveryState,
        GalleryPage,
        Image,
        ImageChanges,
        LimitOverrides,
        Page,
        Principal,
        PublicAlbum,
        Role,
        Scope,
        Session,
        SessionWithToken,
        Webhook,
        WebhookDelivery,
        WebhookWithSecret,
    )
    from imagehost_core.observer import Measurement, Observer, PoolLoad
    from imagehost_core.resources import (
        AlbumRecord,
        ImageRecord,
        Links,
        PublicAlbumRecord,
        PublicImageRecord,
        UrlBuilder,
    )
    from imagehost_core.services import (
        AccountService,
        AlbumService,
        Blob,
        IdempotentRequest,
        KeyService,
        LeasedDelivery,
        MembershipResult,
        MemberStatus,
        RateLimiter,
        Rendered,
        ResolvedImage,
        SessionService,
        SignInAttempt,
        SubOperation,
        WebhookService,
        WindowState,
    )
    from imagehost_core.services.accounts import AccountChanges
    from imagehost_core.services.cache_purges import CachePurgeService
    from imagehost_core.services.delivery import ImageResolver
    from imagehost_core.services.idempotency import IdempotencyService, ResultRecorder
    from imagehost_core.services.images import Admit, BulkResult, BulkStatus, ImageService
    from imagehost_core.services.references import (
        AccountRef,
        AlbumRef,
        DeliveryRef,
        ImageRef,
        KeyRef,
        Owner,
        SessionRef,
        WebhookRef,
    )
    from imagehost_core.services.unit_of_work import Subscriber
    from imagehost_core.services.upload import UploadService, UploadSource
    from imagehost_core.settings import (
        DeliverySettings,
        LimitSettings,
        ListSettings,
        PostgresSettings,
        PrivateDelivery,
        PurgeSettings,
        RenderingSettings,
        SessionSettings,
        Settings,
        StorageSettings,
        UploadSettings,
        WebhookSettings,
    )
    from imagehost_core.storage import BlobStore, LocalBlobStore, MemoryBlobStore, StagedFile
    from imagehost_core.transform import AUTO, Auto, Fit, Plan, Point, Size, Transform, parse_transform, plan
    from imagehost_core.uploads import UploadKeywords, UploadOptions, parse_upload_options
    from imagehost_core.webhooks import Attempt, HostResolver, SenderLoad

__all__ = [
    "AUTO",
    "Account",
    "AccountChanges",
    "AccountId",
    "AccountRef",
    "AccountService",
    "AccountUsage",
    "Admit",
    "Adoption",
    "Album",
    "AlbumCreated",
    "AlbumId",
    "AlbumRecord",
    "AlbumRef",
    "AlbumService",
    "AlbumUpdated",
    "ApiKey",
    "ApiKeyWithToken",
    "Attempt",
    "AuthorizedAccount",
    "Auto",
    "BackupInfo",
    "BackupProgress",
    "BackupResult",
    "BackupService",
    "BadRequestError",
    "Blob",
    "BlobStore",
    "BulkResult",
    "BulkStatus",
    "CachePurge",
    "CachePurgeService",
    "CameraData",
    "CheckName",
    "CheckProgress",
    "Clock",
    "ConflictError",
    "CounterMismatch",
    "CursorPosition",
    "DatabaseStatistics",
    "Decision",
    "DeletedImage",
    "DeliveryId",
    "DeliveryRef",
    "DeliverySettings",
    "DeliveryState",
    "Dialect",
    "ErrorCollector",
    "Event",
    "EventId",
    "FieldError",
    "Finding",
    "FindingKind",
    "Fit",
    "ForbiddenError",
    "Format",
    "GalleryPage",
    "GarbageReport",
    "HostResolver",
    "HostStatistics",
    "IdempotencyService",
    "IdempotentRequest",
    "Image",
    "ImageChanges",
    "ImageDeleted",
    "ImageFilter",
    "ImageHeader",
    "ImageHost",
    "ImageHostError",
    "ImageId",
    "ImageListRequest",
    "ImageRecord",
    "ImageRef",
    "ImageResolver",
    "ImageService",
    "ImageSort",
    "ImageUploaded",
    "ImportAlbum",
    "ImportItem",
    "ImportOptions",
    "ImportResult",
    "ImportService",
    "ImportSource",
    "ImportStatus",
    "InstallationRecord",
    "InsufficientStorageError",
    "IntegrityService",
    "InternalError",
    "KeyId",
    "KeyRef",
    "KeyService",
    "LeasedDelivery",
    "LimitOverrides",
    "LimitSettings",
    "Links",
    "ListSettings",
    "LocalBlobStore",
    "MaintenanceService",
    "Measurement",
    "MemberStatus",
    "MembershipResult",
    "MemoryBlobStore",
    "MetadataKind",
    "MethodNotAllowedError",
    "NotFoundError",
    "Observer",
    "OmittedItem",
    "Owner",
    "Page",
    "PageRequest",
    "PayloadTooLargeError",
    "Plan",
    "Point",
    "PoolLoad",
    "PostgresSettings",
    "Principal",
    "PrivateDelivery",
    "ProgressCallback",
    "PublicAlbum",
    "PublicAlbumRecord",
    "PublicImageRecord",
    "PurgeAttempt",
    "PurgeRequest",
    "PurgeSettings",
    "Random",
    "RateLimitError",
    "RateLimitPolicy",
    "RateLimiter",
    "RecordState",
    "RenderJob",
    "Rendered",
    "RenderingSettings",
    "Requirement",
    "ResolvedImage",
    "RestoreResult",
    "ResultRecorder",
    "Role",
    "Scope",
    "SenderLoad",
    "Session",
    "SessionId",
    "SessionRef",
    "SessionRequirement",
    "SessionService",
    "SessionSettings",
    "SessionWithToken",
    "Settings",
    "SignInAttempt",
    "Size",
    "SourceItem",
    "SourceLimits",
    "SqlRow",
    "SqlValue",
    "StagedFile",
    "StorageSettings",
    "StoredResponse",
    "SubOperation",
    "Subscriber",
    "Transaction",
    "Transform",
    "UnauthorizedError",
    "UnavailableError",
    "UnsupportedMediaTypeError",
    "UploadKeywords",
    "UploadOptions",
    "UploadService",
    "UploadSettings",
    "UploadSource",
    "UrlBuilder",
    "ValidationError",
    "Webhook",
    "WebhookDelivery",
    "WebhookId",
    "WebhookRef",
    "WebhookService",
    "WebhookSettings",
    "WebhookWithSecret",
    "Window",
    "WindowState",
    "adopt",
    "authorize",
    "decide",
    "deserialize_event",
    "event_schemas",
    "parse_image_list",
    "parse_page_request",
    "parse_transform",
    "parse_upload_options",
    "plan",
    "restore",
    "scan",
    "serialize_event",
    "sniff",
    "to_rfc3339",
    "utc_now",
]


def __getattr__(name: str) -> object:
    from imagehost_core._exports import MODULE_OF

    if name not in MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
