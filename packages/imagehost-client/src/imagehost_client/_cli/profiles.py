"""Profiles: hosts and accounts that `login` keeps, in a file that only its owner can read.

Tokens are in the system's keyring where there is one, else in the file.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from attrs import asdict, evolve, field, frozen

from imagehost_client._redact import Secret
from imagehost_client.errors import ConfigurationError

if TYPE_CHECKING:
    from types import ModuleType

APPLICATION = "imagehost-client"
"""The name of the directory of settings, and of the service in keyrings."""

FORMAT = 1
"""The version of the file's format."""

MIN_PRIORITY = 1.0
"""The priority from which a keyring's backend is recommended, according to the documentation of keyring."""


@frozen(kw_only=True)
class Profile:
    """A host with an account on it.

    Attributes:
        name: The name of the profile.
        base_url: The base URL of the API.
        account: The name of the account; empty if the token may not read it.
        cdn_url: The base URL of image delivery; `None` for `/img` beside `/v1`.
        allow_http: Whether the host is reached over plain HTTP.
        token: The token, if it is in the file.
        in_keyring: Whether the token is in the keyring.
    """

    name: str
    base_url: str
    account: str = ""
    cdn_url: str | None = None
    allow_http: bool = False
    token: Secret | None = None
    in_keyring: bool = False


@frozen(kw_only=True)
class Profiles:
    """The content of the file: profiles by name, and the name of the current one."""

    profiles: Mapping[str, Profile] = field(factory=dict)
    current: str | None = None

    def get(self, name: str) -> Profile:
        """Return the profile `name`.

        Raises:
            ConfigurationError: There is no such profile.
        """
        if name not in self.profiles:
            known = ", ".join(sorted(self.profiles)) or "none"
            raise ConfigurationError(f"expected one of the profiles ({known}) but received {name!r}")
        return self.profiles[name]


def default_path() -> Path:
    """Return the path of the file in the user's directory of settings."""
    return platformdirs.user_config_path(APPLICATION, appauthor=False) / "profiles.json"


def default_journals() -> Path:
    """Return the directory of journals in the user's directory of state."""
    return platformdirs.user_state_path(APPLICATION, appauthor=False) / "uploads"


@frozen
class ProfileStore:
    """The file of profiles.

    Attributes:
        path: The path of the file, which exists after the first `save`.
    """

    path: Path = field(factory=default_path)

    def load(self) -> Profiles:
        """Return the profiles, none if the file does not exist.

        Raises:
            ConfigurationError: The file's content is malformed.
            OSError: The file cannot be read.
        """
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return Profiles()
        try:
            return _decode(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigurationError(
                f"expected profiles of format {FORMAT} in {self.path} but received other content"
            ) from error

    def is_exposed(self) -> bool:
        """Return whether other users of this machine can read the file."""
        try:
            return os.name == "posix" and bool(self.path.stat().st_mode & 0o077)
        except OSError:
            return False

    def save(self, profile: Profile, token: str, *, use_keyring: bool = True) -> Profile:
        """Save a profile with its token, make it the current one, and return it as saved.

        Args:
            profile: The profile; one of the same name is replaced.
            token: The token, kept in the keyring if there is one.
            use_keyring: Whether the keyring may be used.
        """
        profiles = self.load()
        if profile.name in profiles.profiles:
            _forget(profiles.profiles[profile.name])
        in_keyring = use_keyring and _remember(profile, token)
        saved = evolve(profile, token=None if in_keyring else Secret(token), in_keyring=in_keyring)
        self._write(Profiles(profiles={**profiles.profiles, profile.name: saved}, current=profile.name))
        return saved

    def use(self, name: str) -> Profile:
        """Make a profile the current one, and return it."""
        profiles = self.load()
        profile = profiles.get(name)
        self._write(evolve(profiles, current=name))
        return profile

    def delete(self, name: str) -> None:
        """Delete a profile and its token; no other one becomes the current one."""
        profiles = self.load()
        _forget(profiles.get(name))
        remaining = {other: profile for other, profile in profiles.profiles.items() if other != name}
        self._write(
            Profiles(profiles=remaining, current=None if profiles.current == name else profiles.current)
        )

    def _write(self, profiles: Profiles) -> None:
        """Replace the file; temporary files have mode 0600 from the start."""
        path = self.path.resolve()  # where the file is a symbolic link, its target is replaced
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
                json.dump(_encode(profiles), file, indent=2, ensure_ascii=False)
                file.write("\n")
            os.replace(temporary, path)  # noqa: PTH105 - a string
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def token_of(profile: Profile) -> str | None:
    """Return the token of a profile, from the keyring or the file; `None` if it is gone.

    Raises:
        ConfigurationError: The keyring is locked, or not installed any more.
    """
    if not profile.in_keyring:
        return None if profile.token is None else profile.token.get_secret_value()
    keyring = _keyring()
    if keyring is None:
        raise ConfigurationError(
            f"expected the system's keyring, which has the token of profile {profile.name!r}, but found none"
        )
    try:
        token: str | None = keyring.get_password(APPLICATION, _entry(profile))
    except keyring.errors.KeyringError as error:
        raise ConfigurationError(f"the keyring did not return the token: {error}") from error
    return token


def _keyring() -> ModuleType | None:
    """Return the package `keyring` if it is installed and has a backend for this system."""
    if find_spec("keyring") is None:
        return None
    import keyring
    import keyring.errors

    backend = keyring.get_keyring()
    return keyring if float(backend.priority) >= MIN_PRIORITY else None


def _remember(profile: Profile, token: str) -> bool:
    """Save a token in the keyring; return False if there is none or it refuses."""
    keyring = _keyring()
    if keyring is None:
        return False
    try:
        keyring.set_password(APPLICATION, _entry(profile), token)
    except keyring.errors.KeyringError:
        return False
    return True


def _forget(profile: Profile) -> None:
    """Delete the token of a profile from the keyring, if it is there."""
    keyring = _keyring() if profile.in_keyring else None
    if keyring is not None:
        try:
            keyring.delete_password(APPLICATION, _entry(profile))
        except keyring.errors.KeyringError:
            return


def _entry(profile: Profile) -> str:
    """Return the name of a profile's entry in the keyring, which includes the host that gets the token."""
    return f"{profile.name} {profile.base_url}"


def _encode(profiles: Profiles) -> dict[str, object]:
    return {
        "format": FORMAT,
        "current": profiles.current,
        "profiles": {
            name: asdict(
                profile, filter=lambda attribute, _: attribute.name != "name", value_serializer=_plain
            )
            for name, profile in sorted(profiles.profiles.items())
        },
    }


def _plain(_profile: object, _attribute: object, value: object) -> object:
    return value.get_secret_value() if isinstance(value, Secret) else value


def _decode(content: dict[str, object]) -> Profiles:
    if content["format"] != FORMAT:
        raise ValueError
    entries = content["profiles"]
    assert isinstance(entries, dict)
    profiles = {}
    for name, entry in entries.items():
        token = entry.pop("token")
        profiles[name] = Profile(name=name, token=None if token is None else Secret(str(token)), **entry)
    current = content["current"]
    return Profiles(profiles=profiles, current=str(current) if current in profiles else None)
