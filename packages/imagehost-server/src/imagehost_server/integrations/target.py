"""Where a program uploads to: the values that every configuration file is made of."""

from __future__ import annotations

from urllib.parse import urlsplit

from attrs import field, frozen

TOKEN_PLACEHOLDER = "YOUR_API_TOKEN"  # noqa: S105
"""Stands for the token in a file for a person who pastes one."""

FILE_FIELD = "image"
"""The form field of the file: form 2, whose response is the image record."""

URL_PATH = ("data", "url")
"""The members of the response that lead to the URL of the image."""


@frozen
class UploadTarget:
    """The server that a program uploads to.

    Attributes:
        base_url: The configured URL of the HTTP interface, ending in `/v1`.
        token: An API token with the scope `images:write`, or `TOKEN_PLACEHOLDER`.
    """

    base_url: str
    token: str = field(default=TOKEN_PLACEHOLDER, repr=False)

    @property
    def upload_url(self) -> str:
        """The URL of the upload route."""
        return f"{self.base_url}/upload"

    @property
    def name(self) -> str:
        """The host and port of the server, as programs show it in lists."""
        return urlsplit(self.base_url).netloc

    @property
    def authorization(self) -> str:
        """The value of the `Authorization` header."""
        return f"Bearer {self.token}"
