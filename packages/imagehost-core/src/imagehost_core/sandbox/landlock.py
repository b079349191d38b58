"""A Landlock ruleset that denies access to the file system, TCP and other processes (landlock(7)).

The ruleset applies irrevocably to the calling thread and to all threads that it starts later.
"""

from __future__ import annotations

import ctypes
import os

from imagehost_core.sandbox import _libc as libc

# The same on every architecture except Alpha, from asm-generic/unistd.h.
LANDLOCK_CREATE_RULESET = 444
LANDLOCK_RESTRICT_SELF = 446
LANDLOCK_CREATE_RULESET_VERSION = 1

FILE_RIGHTS: tuple[tuple[int, int], ...] = ((1, 13), (2, 14), (3, 15), (5, 16))
"""Pairs of a Landlock ABI version and the number of file-system rights that it knows (linux/landlock.h)."""
NET_RIGHTS = 0b11
"""Binding and connecting TCP sockets; since ABI version 4."""
SCOPES = 0b11
"""Abstract UNIX sockets of, and signals to, processes outside the sandbox; since ABI version 6."""


class RulesetAttr(ctypes.Structure):
    """`struct landlock_ruleset_attr`."""

    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


def abi_version() -> int:
    """Return the Landlock ABI version of this kernel.

    Raises:
        OSError: The kernel has no Landlock, or it is disabled.
    """
    return libc.syscall(LANDLOCK_CREATE_RULESET, ctypes.c_void_p(), 0, LANDLOCK_CREATE_RULESET_VERSION)


def restrict() -> None:
    """Deny this thread every right that the kernel's Landlock version knows.

    `no_new_privs` must be set before.

    Raises:
        OSError: The kernel has no Landlock or refuses the ruleset.
    """
    abi = abi_version()
    rights = (1 << max(count for since, count in FILE_RIGHTS if since <= abi)) - 1
    attributes = RulesetAttr(rights, NET_RIGHTS if abi >= 4 else 0, SCOPES if abi >= 6 else 0)
    # An older kernel has a shorter structure and accepts this one if the fields that it lacks are zero.
    pointer = ctypes.cast(ctypes.pointer(attributes), ctypes.c_void_p)
    ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, pointer, ctypes.sizeof(attributes), 0)
    try:
        libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
