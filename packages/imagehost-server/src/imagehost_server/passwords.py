"""Passwords: made, and turned into what may be stored.

The core keeps the text of a hash and knows nothing of how it was made.
"""

from __future__ import annotations

import os

from argon2 import PasswordHasher

from imagehost_core.ids import Random, base62

LENGTH = 20
"""Characters of a password that we make: 20 × log2 62 = 119 random bits."""


def new_password(random: Random = os.urandom) -> str:
    """Return a password that nobody can guess.

    Args:
        random: The source of unpredictable bytes.
    """
    return base62(LENGTH, random)


def hash_password(password: str) -> str:
    """Return the argon2id hash of a password, with its salt and costs (RFC 9106, second recommendation)."""
    return PasswordHasher().hash(password)
