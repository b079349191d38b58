"""Seccomp: the kernel answers all but a short list of system calls with an error.

A warm worker computes: it needs memory, threads, clocks, and the descriptors that are open already.
All else (opening, connecting, starting, tracing, signalling others) is answered with EPERM, so that
a library which asks for something harmless goes on without it. The filter holds for the calling
thread and all that it starts afterwards, for good (seccomp(2)).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform

from attrs import astuple, frozen

from imagehost_core.sandbox import _libc as kernel

ALLOW = 0x7FFF0000
ERRNO = 0x00050000
KILL_PROCESS = 0x80000000
"""What a filter can say, from linux/seccomp.h."""

LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
RETURN = 0x06  # BPF_RET | BPF_K

NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
"""Offsets in `struct seccomp_data`, in bytes; each argument takes 8, its low half first."""

MODE_FILTER = 2

AUDIT: dict[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""What the kernel calls the machines that we have numbers for, from linux/audit.h."""

ALLOWED_SYSCALLS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "readv": (19, 65),
    "writev": (20, 66),
    "lseek": (8, 62),
    "close": (3, 57),
    "fstat": (5, 80),
    "poll": (7, None),
    "ppoll": (271, 73),
    "mmap": (9, 222),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "mprotect": (10, 226),
    "madvise": (28, 233),
    "brk": (12, 214),
    "membarrier": (324, 283),
    "futex": (202, 98),
    "set_robust_list": (273, 99),
    "rseq": (334, 293),
    "set_tid_address": (218, 96),
    "gettid": (186, 178),
    "getpid": (39, 172),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "getcpu": (309, 168),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "restart_syscall": (219, 128),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "times": (100, 153),
    "getrusage": (98, 165),
    "getrandom": (318, 278),
    "getcwd": (79, 17),  # Pillow asks, even where it saves to memory
    "uname": (63, 160),
    "sysinfo": (99, 179),
}
"""The calls that are allowed whatever their arguments: their numbers on x86-64 and on aarch64."""

ENOSYS_SYSCALLS: dict[str, tuple[int, int]] = {"clone3": (435, 435)}
"""The calls that are answered as if the kernel had none: the C library then makes threads by `clone`,
whose flags a filter can see."""


@frozen
class ArgumentRule:
    """A condition on an argument of a call: half of it, masked, must equal a value.

    Attributes:
        argument: Which argument, from 0.
        high: Whether the upper 32 bits are meant, and not the lower.
        mask: Which bits count.
        value: What they must be.
    """

    argument: int
    high: bool = False
    mask: int = 0xFFFFFFFF
    value: int = 0


CLONE_THREAD = 0x00010000
PR_SET_NAME = 15


def argument_rules(pid: int) -> dict[str, tuple[tuple[int, int], tuple[ArgumentRule, ...]]]:
    """Return the calls that are allowed with some arguments only: their numbers and conditions.

    Threads may be started, but no processes; a limit may be read, but not set (root could raise it);
    a signal may be sent to the process itself, which is how `abort` ends it.

    Args:
        pid: The number of the process that is confined.
    """
    return {
        "clone": ((56, 220), (ArgumentRule(0, mask=CLONE_THREAD, value=CLONE_THREAD),)),
        "prctl": ((157, 167), (ArgumentRule(0, value=PR_SET_NAME),)),
        "prlimit64": ((302, 261), (ArgumentRule(2), ArgumentRule(2, high=True))),
        "tgkill": ((234, 131), (ArgumentRule(0, value=pid),)),
    }


@frozen
class Instruction:
    """One step of a filter: operation, jumps if true and if false, constant (linux/filter.h)."""

    code: int
    if_true: int
    if_false: int
    constant: int


def build_filter(machine: str, pid: int) -> tuple[Instruction, ...]:
    """Return the filter for a process.

    A call made the way of another machine (32-bit calls on x86-64) ends the process: its numbers
    mean something else.

    Args:
        machine: A key of `AUDIT`.
        pid: The number of the process that is confined.
    """
    column = list(AUDIT).index(machine)
    steps = [
        Instruction(LOAD, 0, 0, ARCHITECTURE),
        Instruction(EQUAL, 1, 0, AUDIT[machine]),
        Instruction(RETURN, 0, 0, KILL_PROCESS),
        Instruction(LOAD, 0, 0, NUMBER),
    ]
    for numbers in ALLOWED_SYSCALLS.values():
        steps += _return_if(numbers[column], ALLOW)
    for numbers in ENOSYS_SYSCALLS.values():
        steps += _return_if(numbers[column], ERRNO | errno.ENOSYS)
    for numbers, checks in argument_rules(pid).values():
        steps += _allow_if(numbers[column], checks)
    return (*steps, Instruction(RETURN, 0, 0, ERRNO | errno.EPERM))


def _return_if(number: int | None, answer: int) -> list[Instruction]:
    if number is None:
        return []
    return [Instruction(EQUAL, 0, 1, number), Instruction(RETURN, 0, 0, answer)]


def _allow_if(number: int, checks: tuple[ArgumentRule, ...]) -> list[Instruction]:
    body = []
    for check in checks:
        body += [
            Instruction(LOAD, 0, 0, ARGUMENTS + 8 * check.argument + 4 * check.high),
            Instruction(AND, 0, 0, check.mask),
            Instruction(EQUAL, 1, 0, check.value),
            Instruction(RETURN, 0, 0, ERRNO | errno.EPERM),
        ]
    body.append(Instruction(RETURN, 0, 0, ALLOW))
    return [Instruction(EQUAL, 0, len(body), number), *body]


class _Filter(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jt", ctypes.c_uint8),
        ("jf", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("len", ctypes.c_uint16), ("filter", ctypes.POINTER(_Filter)))


def restrict() -> None:
    """Leave this thread nothing but the calls of the lists above.

    `no_new_privs` must be set before.

    Raises:
        OSError: The kernel has no filters, or refused, or nobody wrote down this machine's numbers.
    """
    machine = platform.machine()
    if machine not in AUDIT or ctypes.sizeof(ctypes.c_void_p) != 8:
        raise kernel.NotSupportedError(f"no list of system calls for {machine}")
    steps = build_filter(machine, os.getpid())
    filters = (_Filter * len(steps))(*(_Filter(*astuple(step)) for step in steps))
    whole = _Program(len(steps), filters)
    kernel.prctl(kernel.PR_SET_SECCOMP, MODE_FILTER, ctypes.cast(ctypes.pointer(whole), ctypes.c_void_p))
