"""The modules of the names that the package root exports."""

from __future__ import annotations

EXPORTS: dict[str, str] = {
    "_util.clock": "Clock to_rfc3339 utc_now",
    "authorization": "AuthorizedAccount Requirement SessionRequirement authorize",
    "db.engines.database": "SqlRow SqlValue Transaction",
    "db.repositories.idempotency": "StoredResponse",
    "maintenance.recount": "CounterMismatch",
    "cache_purges": "CachePurge PurgeAttempt PurgeRequest",
    "db.engines.dialect": "Dialect",
    "maintenance.statistics": "DatabaseStatistics",
    "errors": """
        BadRequestError ConflictError ErrorCollector FieldError ForbiddenError ImageHostError
        InsufficientStorageError InternalError MethodNotAllowedError NotFoundError PayloadTooLargeError
        RateLimitError UnauthorizedError UnavailableError UnsupportedMediaTypeError ValidationError
    """,
    "events": """
        AlbumCreated AlbumUpdated DeletedImage Event ImageDeleted ImageUploaded deserialize_event
        event_schemas serialize_event
    """,
    "formats": "Format sniff",
    "headers": "CameraData ImageHeader MetadataKind SourceLimits scan",
    "host": "ImageHost",
    "ids": "AccountId AlbumId DeliveryId EventId ImageId KeyId Random SessionId WebhookId",
    "installation": "InstallationRecord RecordState",
    "jobs": "RenderJob",
    "limits": "Decision RateLimitPolicy Window decide",
    "lists": """
        CursorPosition ImageFilter ImageListRequest ImageSort PageRequest parse_image_list parse_page_request
    """,
    "models": """
        Account AccountUsage Album ApiKey ApiKeyWithToken DeliveryState GalleryPage Image ImageChanges
        LimitOverrides Page Principal PublicAlbum Role Scope Session SessionWithToken Webhook WebhookDelivery
        WebhookWithSecret
    """,
    "observer": "Measurement Observer PoolLoad",
    "resources": "AlbumRecord ImageRecord Links PublicAlbumRecord PublicImageRecord UrlBuilder",
    "services": """
        AccountService AlbumService Blob
        IdempotentRequest LeasedDelivery KeyService MemberStatus MembershipResult RateLimiter
        Rendered ResolvedImage SessionService SignInAttempt SubOperation WebhookService WindowState
    """,
    "maintenance.check": "CheckName CheckProgress Finding FindingKind IntegrityService ProgressCallback",
    "maintenance.garbage": "GarbageReport",
    "services.accounts": "AccountChanges",
    "services.cache_purges": "CachePurgeService",
    "maintenance.adoption": "Adoption adopt",
    "maintenance.backup": "BackupInfo BackupProgress BackupResult BackupService",
    "services.images": "Admit BulkResult BulkStatus ImageService",
    "services.delivery": "ImageResolver",
    "services.idempotency": "IdempotencyService ResultRecorder",
    "maintenance.importers": """
        ImportAlbum ImportItem ImportOptions ImportResult ImportService ImportSource ImportStatus OmittedItem
        SourceItem
    """,
    "maintenance.service": "HostStatistics MaintenanceService",
    "services.references": "AccountRef AlbumRef DeliveryRef ImageRef KeyRef Owner SessionRef WebhookRef",
    "maintenance.restore": "RestoreResult restore",
    "services.unit_of_work": "Subscriber",
    "services.upload": "UploadService UploadSource",
    "settings": """
        DeliverySettings LimitSettings ListSettings PostgresSettings PrivateDelivery RenderingSettings
        SessionSettings Settings PurgeSettings StorageSettings UploadSettings WebhookSettings
    """,
    "storage": "BlobStore LocalBlobStore MemoryBlobStore StagedFile",
    "transform": "AUTO Auto Fit Plan Point Size Transform parse_transform plan",
    "uploads": "UploadKeywords UploadOptions parse_upload_options",
    "webhooks": "Attempt HostResolver SenderLoad",
}
"""The exported names of each module, separated by whitespace."""
MODULE_OF = {name: module for module, names in EXPORTS.items() for name in names.split()}
"""The module of each exported name."""
