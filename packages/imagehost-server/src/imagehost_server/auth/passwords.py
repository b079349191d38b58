"""Passwords: made, and turned into what may be stored.

The core keeps the text of a hash and knows nothing of how it was made.
"""

from __future__ import annotations

import os
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError

from imagehost_core.errors import FieldError, ValidationError
from imagehost_core.ids import Random, base62

MIN_PASSWORD = 8
"""Characters of a password that somebody chooses (NIST SP 800-63B, 5.1.1.2)."""
MAX_PASSWORD = 1_024
"""Bytes of a password that are looked at; more are refused."""
LENGTH = 20
"""Characters of a password that we make: 20 × log2 62 = 119 random bits."""


def new_password(random: Random = os.urandom) -> str:
    """Return a password that nobody can guess.

    Args:
        random: The source of unpredictable bytes.
    """
    return base62(LENGTH, random)


def require_new_password(password: str) -> None:
    """Let a password pass that somebody has chosen.

    Raises:
        ValidationError: It is too short or too long. Never shows it.
    """
    if len(password) < MIN_PASSWORD:
        fault = FieldError("password", f"at least {MIN_PASSWORD} characters", f"{len(password)}")
        raise ValidationError(errors=[fault])
    require_length(password)


def require_length(password: str) -> None:
    """Let a password pass that is not too long to be hashed.

    Raises:
        ValidationError: It is. Never shows it.
    """
    if len(password.encode()) > MAX_PASSWORD:
        raise ValidationError(errors=[FieldError("password", f"at most {MAX_PASSWORD} bytes", "more")])


def verify_password(stored: str | None, password: str) -> bool:
    """Return whether a password is the one that was hashed.

    It takes as long where there is no account, or one without a password: who asks must not learn which
    names there are.

    Args:
        stored: The hash, or `None`.
        password: What was given.
    """
    try:
        PasswordHasher().verify(stored or _dummy_hash(), password)
    except (VerifyMismatchError, InvalidHashError):
        return False
    return stored is not None


@cache
def _dummy_hash() -> str:
    return hash_password(new_password())


def hash_password(password: str) -> str:
    """Return the argon2id hash of a password, with its salt and costs (RFC 9106, second recommendation)."""
    return PasswordHasher().hash(password)
