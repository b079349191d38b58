"""A seccomp filter: all system calls except those on a short list fail with an error (seccomp(2)).

A worker process that has finished its imports only computes: it needs memory, threads, clocks, and the
file descriptors that are open. Other calls (open, connect, exec, ptrace, kill) fail with EPERM, so that
a library that makes a dispensable one can continue. The filter applies irrevocably to the calling thread
and to all threads that it starts later.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform

from attrs import astuple, frozen

from imagehost_core.sandbox import _libc as libc

ALLOW = 0x7FFF0000
ERRNO = 0x00050000
KILL_PROCESS = 0x80000000
"""Return values of a filter, from linux/seccomp.h."""

LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
RETURN = 0x06  # BPF_RET | BPF_K

NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
"""Offsets in `struct seccomp_data`, in bytes; each argument takes 8 bytes, the lower half first."""

MODE_FILTER = 2

AUDIT_ARCHITECTURES: dict[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The supported architectures with their `AUDIT_ARCH_*` constants, from linux/audit.h."""

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
    "setitimer": (38, 103),
    "getrusage": (98, 165),
    "getrandom": (318, 278),
    "getcwd": (79, 17),  # called by Pillow even when it saves to memory
    "uname": (63, 160),
    "sysinfo": (99, 179),
}
"""Calls that are allowed with any arguments: their numbers on x86-64 and on aarch64."""

ENOSYS_SYSCALLS: dict[str, tuple[int, int]] = {"clone3": (435, 435)}
"""Calls that fail as if the kernel did not implement them. The C library then starts threads with `clone`,
whose flags a filter can read."""


@frozen
class ArgumentRule:
    """A condition on 32 bits of an argument of a call: masked, they must equal a value.

    Attributes:
        argument: Index of the argument, from 0.
        high: Whether to compare the upper 32 bits instead of the lower.
        mask: The bits to compare.
        value: Their required value.
    """

    argument: int
    high: bool = False
    mask: int = 0xFFFFFFFF
    value: int = 0


CLONE_THREAD = 0x00010000
PR_SET_NAME = 15


def argument_rules(pid: int) -> dict[str, tuple[tuple[int, int], tuple[ArgumentRule, ...]]]:
    """Return the calls that are allowed only with certain arguments: their numbers and conditions.

    The process can start threads but no processes, read its resource limits but not set them (root could
    raise them), and send signals only to itself, as `abort` does.

    Args:
        pid: Process ID of the process that the filter is for.
    """
    return {
        "clone": ((56, 220), (ArgumentRule(0, mask=CLONE_THREAD, value=CLONE_THREAD),)),
        "prctl": ((157, 167), (ArgumentRule(0, value=PR_SET_NAME),)),
        "prlimit64": ((302, 261), (ArgumentRule(2), ArgumentRule(2, high=True))),
        "tgkill": ((234, 131), (ArgumentRule(0, value=pid),)),
    }


@frozen
class Instruction:
    """One BPF instruction: operation code, jump if true, jump if false, constant (`struct sock_filter`)."""

    code: int
    if_true: int
    if_false: int
    constant: int


def build_filter(machine: str, pid: int) -> tuple[Instruction, ...]:
    """Return the filter for a process.

    A system call of another architecture (a 32-bit call on x86-64) kills the process, because the numbers
    have other meanings there.

    Args:
        machine: A key of `AUDIT_ARCHITECTURES`.
        pid: Process ID of the process that the filter is for.
    """
    column = list(AUDIT_ARCHITECTURES).index(machine)
    program = [
        Instruction(LOAD, 0, 0, ARCHITECTURE),
        Instruction(EQUAL, 1, 0, AUDIT_ARCHITECTURES[machine]),
        Instruction(RETURN, 0, 0, KILL_PROCESS),
        Instruction(LOAD, 0, 0, NUMBER),
    ]
    for numbers in ALLOWED_SYSCALLS.values():
        program += _return_if(numbers[column], ALLOW)
    for numbers in ENOSYS_SYSCALLS.values():
        program += _return_if(numbers[column], ERRNO | errno.ENOSYS)
    for numbers, rules in argument_rules(pid).values():
        program += _allow_if(numbers[column], rules)
    return (*program, Instruction(RETURN, 0, 0, ERRNO | errno.EPERM))


def _return_if(number: int | None, result: int) -> list[Instruction]:
    if number is None:
        return []
    return [Instruction(EQUAL, 0, 1, number), Instruction(RETURN, 0, 0, result)]


def _allow_if(number: int, rules: tuple[ArgumentRule, ...]) -> list[Instruction]:
    body = []
    for rule in rules:
        body += [
            Instruction(LOAD, 0, 0, ARGUMENTS + 8 * rule.argument + 4 * rule.high),
            Instruction(AND, 0, 0, rule.mask),
            Instruction(EQUAL, 1, 0, rule.value),
            Instruction(RETURN, 0, 0, ERRNO | errno.EPERM),
        ]
    body.append(Instruction(RETURN, 0, 0, ALLOW))
    return [Instruction(EQUAL, 0, len(body), number), *body]


class SockFilter(ctypes.Structure):
    """`struct sock_filter`, one instruction."""

    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jt", ctypes.c_uint8),
        ("jf", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class SockFprog(ctypes.Structure):
    """`struct sock_fprog`, a filter program."""

    _fields_ = (("len", ctypes.c_uint16), ("filter", ctypes.POINTER(SockFilter)))


def restrict() -> None:
    """Install the filter for this thread.

    `no_new_privs` must be set before.

    Raises:
        OSError: The kernel has no seccomp filters or refuses this one, or the architecture is not supported.
    """
    machine = platform.machine()
    if machine not in AUDIT_ARCHITECTURES or ctypes.sizeof(ctypes.c_void_p) != 8:
        raise libc.NotSupportedError(f"no list of system calls for {machine}")
    instructions = build_filter(machine, os.getpid())
    filters = (SockFilter * len(instructions))(*(SockFilter(*astuple(step)) for step in instructions))
    program = SockFprog(len(instructions), filters)
    libc.prctl(libc.PR_SET_SECCOMP, MODE_FILTER, ctypes.cast(ctypes.pointer(program), ctypes.c_void_p))
