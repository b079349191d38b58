"""Let Linux look like Windows or macOS to imagehost_core, as far as the core can notice.

Modules that choose an implementation by platform when they are imported, in the standard library and in
dependencies, are imported before. What remains is what the core itself does.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import fcntl
import mmap
import os
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import attrs
import cattrs
import sqlite_utils
from PIL import Image

LOADED = (asyncio, ctypes, mmap, resource, signal, sqlite3, subprocess, tempfile, attrs, cattrs, sqlite_utils)
Image.init()

MISSING = {
    os: (
        *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "fork", "register_at_fork", "killpg", "getpgid"),
        *("geteuid", "getuid", "getgid", "pread", "pwrite", "sched_getaffinity", "posix_fallocate"),
        *("setpriority", "pidfd_open", "fchmod", "chown", "mkfifo", "sync", "setsid", "nice"),
    ),
    socket: ("send_fds", "recv_fds"),
}
"""What Windows lacks; types are checked for it too, by `mypy --platform win32`."""


def open_paths() -> set[str]:
    """Return the paths of all files that this process has open or mapped."""
    paths = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            paths.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:
            continue
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths.update(line.split(maxsplit=5)[5].strip() for line in maps if len(line.split(maxsplit=5)) == 6)
    return paths


def require_closed(path: object) -> None:
    """Raise PermissionError if a file or one in a directory is open."""
    text = os.path.realpath(os.fspath(path))  # type: ignore[call-overload]
    for other in open_paths():
        if other == text or other.startswith(text + "/"):
            raise PermissionError(errno.EACCES, f"open: {other}", text)


def replace_functions(**functions: object) -> None:
    """Replace functions of the module `os`."""
    vars(os).update(functions)


def become_windows() -> None:
    """Remove what Windows lacks, and refuse what it refuses."""
    msvcrt = types.ModuleType("msvcrt")

    def locking(descriptor: int, mode: int, size: int) -> None:
        assert size == 1
        fcntl_module.flock(descriptor, fcntl.LOCK_UN if mode == 0 else fcntl.LOCK_EX | fcntl.LOCK_NB)

    fcntl_module = fcntl
    msvcrt.LK_UNLCK, msvcrt.LK_NBLCK, msvcrt.locking = 0, 2, locking  # type: ignore[attr-defined]
    sys.modules |= {"msvcrt": msvcrt, "fcntl": None, "resource": None}  # type: ignore[dict-item]
    for module, names in MISSING.items():
        for name in names:
            delattr(module, name)
    rename, replace, unlink, fsync = os.rename, os.replace, os.unlink, os.fsync

    def windows_rename(source: str, target: str) -> None:
        require_closed(source)
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "exists", target)
        rename(source, target)

    def windows_replace(source: str, target: str) -> None:
        require_closed(source)
        require_closed(target)
        if os.path.isdir(target):
            raise PermissionError(errno.EACCES, "is a directory", target)
        replace(source, target)

    def windows_unlink(path: str) -> None:
        require_closed(path)
        unlink(path)

    def windows_fsync(descriptor: int) -> None:
        if fcntl_module.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "not open for writing")
        fsync(descriptor)

    replace_functions(
        rename=windows_rename,
        replace=windows_replace,
        fsync=windows_fsync,
        unlink=windows_unlink,
        remove=windows_unlink,
    )
    # As on Windows: by paths, not by descriptors of directories.
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    sys.platform = "win32"


def become_macos(log: Path, error: int = 0) -> None:
    """Add `F_FULLFSYNC`, which logs its calls, or fails with an error number."""
    real = fcntl.fcntl
    fsync = os.fsync

    def macos_fcntl(descriptor: int, command: int, *arguments: int) -> object:
        if command != 51:
            return real(descriptor, command, *arguments)
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        with log.open("a", encoding="utf-8") as file:
            file.write(f"F_FULLFSYNC {name}\n")
        if error:
            raise OSError(error, os.strerror(error))
        return 0

    def macos_fsync(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        fsync(descriptor)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"fsync {name}\n")

    vars(fcntl).update(F_FULLFSYNC=51, fcntl=macos_fcntl)
    replace_functions(fsync=macos_fsync)
    sys.platform = "darwin"
