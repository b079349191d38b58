"""Run a program as systemd does with `SystemCallFilter=` and `MemoryDenyWriteExecute=`.

Arguments: the names of the allowed system calls, separated by commas; the program and its arguments. Other
system calls fail with EPERM.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from pathlib import Path

from attrs import astuple

from imagehost_core.sandbox import _libc as libc
from imagehost_core.sandbox.seccomp import (
    ALLOW,
    AUDIT_ARCHITECTURES,
    ERRNO,
    MODE_FILTER,
    NUMBER,
    Instruction,
    SockFilter,
    SockFprog,
    _return_if,
)

HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}
"""The C headers with the numbers of system calls."""
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1
"""From linux/prctl.h, since Linux 6.3."""


def restrict(names: set[str]) -> None:
    """Install the filter for this process and those that it starts."""
    header = Path(HEADERS[platform.machine()]).read_text(encoding="ascii")
    numbers = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+)\s+(\d+)$", header, re.M)}
    assert platform.machine() in AUDIT_ARCHITECTURES
    program = [Instruction(0x20, 0, 0, NUMBER)]
    for name in sorted(names & numbers.keys()):
        program += _return_if(numbers[name], ALLOW)
    program.append(Instruction(0x06, 0, 0, ERRNO | 1))
    steps = (SockFilter * len(program))(*(SockFilter(*astuple(step)) for step in program))
    pointer = ctypes.pointer(SockFprog(len(program), steps))
    libc.prctl(libc.PR_SET_NO_NEW_PRIVS, 1)
    libc.prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN)
    libc.prctl(libc.PR_SET_SECCOMP, MODE_FILTER, ctypes.cast(pointer, ctypes.c_void_p))


if __name__ == "__main__":
    restrict(set(sys.argv[1].split(",")))
    os.execv(sys.argv[2], sys.argv[2:])
