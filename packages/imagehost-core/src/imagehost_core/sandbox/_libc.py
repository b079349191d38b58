"""Calls of the Linux kernel that Python's library has no function for, by way of the C library."""

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
    """This system has no such thing."""


@cache
def _library() -> ctypes.CDLL:
    if not LINUX:
        raise NotSupportedError("only Linux has it")
    return ctypes.CDLL(None, use_errno=True)


def prctl(operation: int, *arguments: int | ctypes.c_void_p) -> None:
    """Change something about this process or thread.

    Raises:
        OSError: The kernel refused, or there is no such kernel here.
    """
    words = [word if isinstance(word, ctypes.c_void_p) else ctypes.c_ulong(word) for word in arguments]
    words += [ctypes.c_ulong(0)] * (4 - len(words))
    _checked(_library().prctl(ctypes.c_int(operation), *words))


def syscall(number: int, *arguments: int | ctypes.c_void_p) -> int:
    """Call the kernel by number and return what it returns.

    Raises:
        OSError: The kernel refused, or there is no such kernel here.
    """
    words = [word if isinstance(word, ctypes.c_void_p) else ctypes.c_long(word) for word in arguments]
    library = _library()
    library.syscall.restype = ctypes.c_long
    return _checked(library.syscall(ctypes.c_long(number), *words))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
