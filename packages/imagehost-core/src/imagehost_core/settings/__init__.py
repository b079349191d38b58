"""Settings of the core and the loader that reads them from the environment and TOML."""

from imagehost_core.settings.model import (
    DeliverySettings,
    LimitSettings,
    PrivateDelivery,
    RenderingSettings,
    SessionSettings,
    Settings,
    StorageSettings,
    WebhookSettings,
)

__all__ = [
    "DeliverySettings",
    "LimitSettings",
    "PrivateDelivery",
    "RenderingSettings",
    "SessionSettings",
    "Settings",
    "StorageSettings",
    "WebhookSettings",
]
