"""Transform parameters and geometry: from a query string to a plan, without any image work."""

from imagehost_core.transform.parameters import (
    AUTO,
    DEFAULT_QUALITY,
    EXTENSIONS,
    FORMAT_NAMES,
    MAX_PARAMETERS,
    MAX_QUALITY,
    MAX_SIDE,
    Auto,
    Fit,
    Transform,
    negotiate,
    parse_extension,
    parse_transform,
)

__all__ = [
    "AUTO",
    "DEFAULT_QUALITY",
    "EXTENSIONS",
    "FORMAT_NAMES",
    "MAX_PARAMETERS",
    "MAX_QUALITY",
    "MAX_SIDE",
    "Auto",
    "Fit",
    "Transform",
    "negotiate",
    "parse_extension",
    "parse_transform",
]
