"""Upload options and file names: parsing and validation.

```python
>>> from imagehost_core.uploads import clean_filename, parse_upload_options
>>> options = parse_upload_options([("quality", "75"), ("format", "webp")])
>>> options.quality, options.format.value
(75, 'webp')
>>> clean_filename("../photos/cat.jpg")
'cat.jpg'

```
"""

from imagehost_core.uploads.filenames import (
    MAX_FILENAME_BYTES,
    clean_filename,
    has_visible_character,
    with_extension,
)
from imagehost_core.uploads.options import (
    BOOLEANS,
    FORM_FIELDS,
    INVALID_TEXT,
    MAX_DESCRIPTION,
    STORED_FORMATS,
    UploadKeywords,
    UploadOptions,
    description_errors,
    is_valid_text,
    parse_upload_options,
)

__all__ = [
    "BOOLEANS",
    "FORM_FIELDS",
    "INVALID_TEXT",
    "MAX_DESCRIPTION",
    "MAX_FILENAME_BYTES",
    "STORED_FORMATS",
    "UploadKeywords",
    "UploadOptions",
    "clean_filename",
    "description_errors",
    "has_visible_character",
    "is_valid_text",
    "parse_upload_options",
    "with_extension",
]
