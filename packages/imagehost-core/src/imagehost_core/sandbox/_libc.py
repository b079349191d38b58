"""Linux system calls that Python's standard library does not wrap, called through the C library."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

LINUX = sys.platform == "linux"

PR_SET_PDEATHSIG = 1
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
"""Operations of prctl(2), from linux/prctl.h."""


class NotSupportedError(OSError):
    """The operating system does not support the operation."""


@cache
def _library() -> ctypes.CDLL:
    if not LINUX:
        raise NotSupportedError("only Linux supports this")
    return ctypes.CDLL(None, use_errno=True)


def prctl(operation: int, *arguments: int | ctypes.c_void_p) -> None:
    """Change an attribute of this process or thread (prctl(2)).

    Raises:
        OSError: The call failed, or the system is not Linux.
    """
    words = [word if isinstance(word, ctypes.c_void_p) else ctypes.c_ulong(word) for word in arguments]
    words += [ctypes.c_ulong(0)] * (4 - len(words))
    _require_success(_library().prctl(ctypes.c_int(operation), *words))


def syscall(number: int, *arguments: int | ctypes.c_void_p) -> int:
    """Make a system call by number and return its result.

    Raises:
        OSError: The call failed, or the system is not Linux.
    """
    words = [word if isinstance(word, ctypes.c_void_p) else ctypes.c_long(word) for word in arguments]
    library = _library()
    library.syscall.restype = ctypes.c_long
    return _require_success(library.syscall(ctypes.c_long(number), *words))


def _require_success(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
