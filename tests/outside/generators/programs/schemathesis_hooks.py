"""Uploads of schemathesis: image files instead of random bytes, and mostly those of one of the two forms.

The directory `IMAGEHOST_TEST_IMAGES` has the image files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import strategies as st

FILES = tuple(path.read_bytes() for path in sorted(Path(os.environ["IMAGEHOST_TEST_IMAGES"]).iterdir()))

schemathesis.openapi.format("binary", st.sampled_from(FILES) | st.binary(max_size=64))


@schemathesis.hook  # type: ignore[untyped-decorator]
def flatmap_body(context: Any, body: Any) -> st.SearchStrategy[Any]:
    """Leave out the files of one form, and the id of an album that does not exist."""
    if not isinstance(body, dict) or not {"files[]", "image"} & body.keys():
        return st.just(body)
    left_out = st.sampled_from([("files[]", "album_id"), ("image", "album_id"), ("album_id",), ()])
    return left_out.map(lambda names: {name: body[name] for name in body if name not in names})
