"""Settings of the core, and the loader that reads them from environment variables and TOML.

```python
>>> from imagehost_core.settings import LimitSettings, Settings, settings_from_environment
>>> Settings(limits=LimitSettings(api_per_minute=120)).limits.api_per_minute
120
>>> settings_from_environment({"IMAGEHOST_LIMITS_API_PER_MINUTE": "90"}).limits.api_per_minute
90

```
"""

from imagehost_core.settings.engines import (
    FOLDER,
    SQLITE,
    PostgresSettings,
    StorageProvider,
    StorageUrl,
    parse_storage_url,
)
from imagehost_core.settings.loader import (
    DURATION,
    ENVIRONMENT,
    PREFIX,
    SIZE,
    ResolvedSetting,
    SettingsError,
    SettingsSource,
    from_environment,
    from_toml,
    resolve_settings,
    setting_paths,
    settings_from_environment,
    variable_name,
)
from imagehost_core.settings.model import (
    DeliverySettings,
    LimitSettings,
    ListSettings,
    PrivateDelivery,
    PurgeSettings,
    RenderingSettings,
    SessionSettings,
    Settings,
    StorageSettings,
    UploadSettings,
    WebhookSettings,
    require_base_url,
    require_section,
    with_version,
)
from imagehost_core.settings.secrets import redact_password, secret

__all__ = [
    "DURATION",
    "ENVIRONMENT",
    "FOLDER",
    "PREFIX",
    "SIZE",
    "SQLITE",
    "DeliverySettings",
    "LimitSettings",
    "ListSettings",
    "PostgresSettings",
    "PrivateDelivery",
    "PurgeSettings",
    "RenderingSettings",
    "ResolvedSetting",
    "SessionSettings",
    "Settings",
    "SettingsError",
    "SettingsSource",
    "StorageProvider",
    "StorageSettings",
    "StorageUrl",
    "UploadSettings",
    "WebhookSettings",
    "from_environment",
    "from_toml",
    "parse_storage_url",
    "redact_password",
    "require_base_url",
    "require_section",
    "resolve_settings",
    "secret",
    "setting_paths",
    "settings_from_environment",
    "variable_name",
    "with_version",
]
