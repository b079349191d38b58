"""Landlock: the kernel takes the file system, TCP and signals to others away from a thread.

The calling thread and all that it starts afterwards are confined, for good (landlock(7)).
"""

from __future__ import annotations

import ctypes
import os

from imagehost_core.sandbox import _libc as kernel

# One number on every architecture but Alpha, from asm-generic/unistd.h.
CREATE_RULESET = 444
RESTRICT_SELF = 446
VERSION_FLAG = 1

FILE_RIGHTS: tuple[tuple[int, int], ...] = ((1, 13), (2, 14), (3, 15), (5, 16))
"""Since which version of Landlock how many file-system rights are known (linux/landlock.h)."""
NET_RIGHTS = 0b11
"""To bind and to connect TCP sockets; since version 4."""
SCOPES = 0b11
"""To reach abstract UNIX sockets and to signal processes outside; since version 6."""


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


def version() -> int:
    """Return the version of Landlock that this kernel speaks.

    Raises:
        OSError: It has none, or it is switched off.
    """
    return kernel.syscall(CREATE_RULESET, ctypes.c_void_p(), 0, VERSION_FLAG)


def restrict() -> None:
    """Take every right that this kernel's Landlock knows away from this thread.

    `no_new_privs` must be set before.

    Raises:
        OSError: The kernel has no Landlock, or refused.
    """
    spoken = version()
    rights = (1 << max(count for since, count in FILE_RIGHTS if since <= spoken)) - 1
    rules = _Ruleset(rights, NET_RIGHTS if spoken >= 4 else 0, SCOPES if spoken >= 6 else 0)
    # An older kernel takes a shorter structure; a longer one it takes where the rest is zero.
    where = ctypes.cast(ctypes.pointer(rules), ctypes.c_void_p)
    ruleset = kernel.syscall(CREATE_RULESET, where, ctypes.sizeof(rules), 0)
    try:
        kernel.syscall(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
