"""What pages say of an error: what to do, in the language of the page, and never the words of the API.

`static/failures.js` does the same for the errors that scripts receive.
"""

from __future__ import annotations

import re

from imagehost_server.web.catalog import Texts

OF_FILES = ("PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE")
"""The codes whose own sentences say all about a file."""
_FIELD = re.compile(r" for ((?:(?! for ).)+?)(?:\[\d+\])? but received ")


def describe_failure(code: str, details: str, texts: Texts) -> str:
    """Return the sentence of each field that an error names; if it has none of them, that of the code.

    Args:
        code: The error code.
        details: The details of the error, *expected … for <field> but received …*.
        texts: The texts in the language of the page.
    """
    named = () if code in OF_FILES else _FIELD.findall(details)
    known = [field for field in named if f"error.field.{field}" in texts.entries]
    sentences = dict.fromkeys(texts(f"error.field.{field}") for field in known)
    return " ".join(sentences) or f"{texts(f'error.title.{code}')}. {texts(f'error.text.{code}')}"
