"""The first start on an empty data folder: an administrator, a token, and a picture to try them with."""

from __future__ import annotations

from pathlib import Path

from attrs import field, frozen

from imagehost_core import ImageHost
from imagehost_server.auth.passwords import hash_password, new_password
from imagehost_server.cli.sample_image import write_sample

KEY_NAME = "first token"


@frozen
class InitialCredentials:
    """What is told once.

    Attributes:
        account: The administrator's name.
        password: Its password.
        token: An API token with every scope.
        upload: A command that uploads the sample.
        address: The shape of the address that the picture will have.
    """

    account: str
    password: str = field(repr=False)
    token: str = field(repr=False)
    upload: str = field(repr=False)
    image_url: str = ""

    def text(self) -> str:
        """Return it as it is printed."""
        return (
            "This folder was empty. Its first account, shown this once:\n"
            f"  account   {self.account}\n"
            f"  password  {self.password}\n"
            f"  token     {self.token}\n"
            "Upload a picture:\n"
            f"  {self.upload}\n"
            "The answer has its address in data.url:\n"
            f"  {self.image_url}\n"
        )


def create_initial_credentials(host: ImageHost, data: Path) -> InitialCredentials | None:
    """Give the first account of a fresh folder a password and a token; return what is to be told.

    Args:
        host: The host of the folder.
        data: The folder.

    Returns:
        `None` where the folder is in use already: it has several accounts, or a key.
    """
    accounts = host.accounts.list()
    if len(accounts) != 1 or host.keys.list(owner=accounts[0]).total:
        return None
    name, password = accounts[0].name, new_password()
    host.accounts.set_password_hash(name, hash_password(password))
    token = host.keys.create(owner=name, name=KEY_NAME).token
    sample = write_sample(data)
    addresses = host.urls
    command = f"curl -H 'Authorization: Bearer {token}' -F 'image=@{sample}' {addresses.base_url}/upload"
    return InitialCredentials(name, password, token, command, f"{addresses.cdn_url}/<id>.webp")
