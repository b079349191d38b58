"""Transform parameters of image URLs: parsing, geometry, content negotiation and URL signatures.

Pure functions from a query string to a plan of the output's geometry; no image is decoded.

```python
>>> from imagehost_core.transform import Size, parse_transform, plan
>>> transform = parse_transform("w=320&h=240&fit=inside&fm=webp")
>>> print(plan(Size(2725, 2225), transform).output)
294×240
>>> transform.to_query()
'w=320&h=240&fit=inside&fm=webp'

```
"""

from imagehost_core.transform.geometry import (
    MAX_OUTPUT_PIXELS,
    ORIGIN,
    Plan,
    Point,
    Size,
    plan,
)
from imagehost_core.transform.parameters import (
    AUTO,
    EXTENSIONS,
    FORMAT_NAMES,
    MAX_PARAMETERS,
    MAX_QUALITY,
    MAX_SIDE,
    PARAMETERS,
    Auto,
    Fit,
    Transform,
    negotiate,
    parse_extension,
    parse_transform,
)
from imagehost_core.transform.signing import (
    DEFAULT_LIFETIME_SECONDS,
    MAX_LIFETIME_SECONDS,
    sign_url,
    signing_key,
    verify_signed_url,
)

__all__ = [
    "AUTO",
    "DEFAULT_LIFETIME_SECONDS",
    "EXTENSIONS",
    "FORMAT_NAMES",
    "MAX_LIFETIME_SECONDS",
    "MAX_OUTPUT_PIXELS",
    "MAX_PARAMETERS",
    "MAX_QUALITY",
    "MAX_SIDE",
    "ORIGIN",
    "PARAMETERS",
    "Auto",
    "Fit",
    "Plan",
    "Point",
    "Size",
    "Transform",
    "negotiate",
    "parse_extension",
    "parse_transform",
    "plan",
    "sign_url",
    "signing_key",
    "verify_signed_url",
]
