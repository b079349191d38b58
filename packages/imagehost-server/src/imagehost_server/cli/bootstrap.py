"""The first start with an empty data directory: initial credentials, and a sample image to upload."""

from __future__ import annotations

import shlex
import struct
import zlib
from pathlib import Path

from attrs import field, frozen

from imagehost_core import ImageHost
from imagehost_core.limits import raise_limit_command
from imagehost_core.settings import LimitSettings, SettingsError
from imagehost_server.auth.passwords import hash_password, new_password, new_password_errors

KEY_NAME = "initial key"

VARIABLE = "IMAGEHOST_ADMIN_PASSWORD_FILE"
"""The variable of the setting `admin.password_file`, for messages."""


@frozen
class InitialCredentials:
    """The credentials that the first start prints.

    Attributes:
        account: The account's name.
        password: Its password; "" if the operator chose it.
        token: An API token with all scopes.
        upload_command: A `curl` command that uploads the sample image.
        image_url: The pattern of the URL that the image will have.
        pages: Where to sign in with a browser; "" if there are no web pages.
        limits: How to raise the limit of uploads; "" if there is none.
    """

    account: str
    password: str = field(repr=False)
    token: str = field(repr=False)
    upload_command: str = field(repr=False)
    image_url: str
    pages: str
    limits: str

    def text(self) -> str:
        """Return the text to print."""
        password = f"  password  {self.password}\n" if self.password else ""
        shown = "password and token are shown" if self.password else "the token is shown"
        return (
            f"Created account {self.account} ({shown} only once):\n"
            f"  account   {self.account}\n"
            f"{password}"
            f"  token     {self.token}\n"
            "Upload an image:\n"
            f"  {self.upload_command}\n"
            "The response has the image URL in data.url:\n"
            f"  {self.image_url}\n"
            f"{self.pages}"
            f"{self.limits}"
        )


def create_initial_credentials(
    host: ImageHost, data: Path, password_file: str | None = None, *, pages: bool = True
) -> InitialCredentials | None:
    """Give the only account of a new data directory a password and an API token.

    Args:
        host: The host of the data directory.
        data: The data directory; the sample image is written to it.
        password_file: The path of a file with the password; without it, one is generated.
        pages: Whether the server has web pages.

    Returns:
        The credentials; `None` if the data directory is in use: it has several accounts, or an API key.

    Raises:
        SettingsError: The file cannot be read, or its content cannot be a password.
    """
    accounts = host.accounts.list()
    if accounts.total != 1 or host.keys.list(owner=accounts.items[0]).total:
        return None
    name, chosen = accounts.items[0].name, read_password(password_file) if password_file else ""
    generated = "" if chosen else new_password()
    password_hash = hash_password(chosen or generated)
    created = host.keys.create_first(owner=name, name=KEY_NAME, password_hash=password_hash)
    if created is None:
        return None  # Another host with the same database was faster.
    token = created.token
    sample = write_sample(data)
    command = f"curl -H 'Authorization: Bearer {token}' -F 'image=@{sample}' {host.urls.base_url}/upload"
    limits = _describe_limits(host.rate_limiter.limits_of(accounts.items[0]), name, data)
    login = f"{host.settings.site_url}/upload"
    return InitialCredentials(
        account=name,
        password=generated,
        token=token,
        upload_command=command,
        image_url=f"{host.urls.cdn_url}/<id>.webp",
        pages=f"Or sign in with a browser:\n  {login}\n" if pages else "",
        limits=limits,
    )


def read_password(path: str) -> str:
    """Return the password in a file, without the line end that editors add.

    Raises:
        SettingsError: The file cannot be read, or its content cannot be a password, and is not shown.
    """
    try:
        password = Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "text that is not UTF-8"
        raise SettingsError(f"expected a password in {path} ({VARIABLE}) but received: {reason}") from None
    for invalid in new_password_errors(password, f"the password in {path} ({VARIABLE})"):
        raise SettingsError(str(invalid))
    return password


def _describe_limits(limits: LimitSettings, account: str, data: Path) -> str:
    uploads = limits.uploads_per_minute
    if not uploads:
        return ""
    command = raise_limit_command(account, "uploads_per_minute", uploads, shlex.quote(str(data)))
    return f"An account may upload {uploads} times a minute. To raise its limit:\n  {command}\n"


WIDTH, HEIGHT = 640, 400

NAME = "sample.png"

TOP, BOTTOM = (38, 24, 74), (255, 153, 94)
"""The colours of an evening sky."""


def write_sample(directory: Path) -> Path:
    """Write the sample image to a directory, unless it exists, and return its path."""
    path = directory / NAME
    if not path.exists():
        path.write_bytes(sample_png())
    return path


def sample_png() -> bytes:
    """Return the sample image as a PNG: a gradient."""
    rows = b"".join(
        b"\0"
        + bytes(top + (bottom - top) * y // HEIGHT for top, bottom in zip(TOP, BOTTOM, strict=True)) * WIDTH
        for y in range(HEIGHT)
    )
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
