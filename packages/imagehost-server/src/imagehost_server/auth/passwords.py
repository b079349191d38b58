"""Passwords: generation, length rules, hashing and verification (argon2id)."""

from __future__ import annotations

import os
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError

from imagehost_core.errors import FieldError
from imagehost_core.ids import Random, base62

MIN_PASSWORD = 8
"""Minimum length of a chosen password, in characters (NIST SP 800-63B, section 5.1.1.2)."""
MAX_PASSWORD = 1_024
"""Maximum length of a password, in bytes of UTF-8."""
GENERATED_LENGTH = 20
"""Length of a generated password, in characters: 20 × log2 62 = 119 random bits."""
HASHER = PasswordHasher()
"""argon2id with the second recommendation of RFC 9106."""


def new_password(random: Random = os.urandom) -> str:
    """Return a random password.

    Args:
        random: The source of unpredictable bytes.
    """
    return base62(GENERATED_LENGTH, random)


def new_password_errors(password: str, name: str = "password") -> tuple[FieldError, ...]:
    """Return an error unless a chosen password has an allowed length. It never contains the password.

    Args:
        password: The chosen password.
        name: The name of its field.
    """
    if len(password) < MIN_PASSWORD:
        return (FieldError(name, f"at least {MIN_PASSWORD} characters", f"{len(password)}"),)
    return password_errors(password, name)


def password_errors(password: str, name: str = "password") -> tuple[FieldError, ...]:
    """Return an error if a password is longer than `MAX_PASSWORD` bytes. It never contains the password.

    Args:
        password: The password.
        name: The name of its field.
    """
    if len(password.encode()) <= MAX_PASSWORD:
        return ()
    return (FieldError(name, f"at most {MAX_PASSWORD} bytes", "more"),)


def verify_password(stored_hash: str | None, password: str) -> bool:
    """Return whether a password matches a stored hash.

    It takes as long for an account that does not exist or has no password, so that response times do not
    reveal account names.

    Args:
        stored_hash: The hash, or `None` where there is none.
        password: The password to verify.
    """
    try:
        HASHER.verify(stored_hash or _dummy_hash(), password)
    except (VerifyMismatchError, InvalidHashError):
        return False
    return stored_hash is not None


@cache
def _dummy_hash() -> str:
    return hash_password(new_password())


def hash_password(password: str) -> str:
    """Return the argon2id hash of a password, with its salt and parameters."""
    return HASHER.hash(password)
