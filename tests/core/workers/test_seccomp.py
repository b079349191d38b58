"""Tests of the seccomp filter on both architectures: it allows the listed calls and nothing else."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.sandbox import seccomp
from imagehost_core.sandbox.seccomp import ALLOW, AUDIT_ARCHITECTURES, ERRNO, KILL_PROCESS, Instruction

PID = 4711
EPERM = ERRNO | errno.EPERM
ENOSYS = ERRNO | errno.ENOSYS
MACHINES = list(AUDIT_ARCHITECTURES)
machines = pytest.mark.parametrize("machine", MACHINES)
WORDS = st.integers(0, 2**64 - 1)


def run(program: tuple[Instruction, ...], number: int, arch: int, arguments: tuple[int, ...] = ()) -> int:
    """Return the result of a filter for a call, as the kernel would run it (linux/bpf_common.h)."""
    data = number.to_bytes(4, "little") + arch.to_bytes(4, "little") + bytes(8)
    data += b"".join(word.to_bytes(8, "little") for word in (*arguments, 0, 0, 0, 0, 0, 0)[:6])
    value, index = 0, 0
    while True:
        step = program[index]
        index += 1
        if step.code == seccomp.LOAD:
            value = int.from_bytes(data[step.constant : step.constant + 4], "little")
        elif step.code == seccomp.AND:
            value &= step.constant
        elif step.code == seccomp.EQUAL:
            index += step.if_true if value == step.constant else step.if_false
        else:
            assert step.code == seccomp.RETURN
            return step.constant


def evaluate(machine: str, number: int, *arguments: int) -> int:
    return run(seccomp.build_filter(machine, PID), number, AUDIT_ARCHITECTURES[machine], arguments)


@given(st.sampled_from(MACHINES), st.integers(0, 2**32 - 1), st.tuples(*[WORDS] * 6))
def test_a_call_on_no_list_is_denied(machine: str, number: int, words: tuple[int, ...]) -> None:
    column = MACHINES.index(machine)
    listed = [*seccomp.ALLOWED_SYSCALLS.values(), *seccomp.ENOSYS_SYSCALLS.values()]
    listed += [numbers for numbers, _ in seccomp.argument_rules(PID).values()]
    if number not in [numbers[column] for numbers in listed]:
        assert evaluate(machine, number, *words) == EPERM


@given(
    st.sampled_from(MACHINES),
    st.sampled_from(list(seccomp.ALLOWED_SYSCALLS.values())),
    st.tuples(*[WORDS] * 6),
)
def test_a_call_on_the_list_is_allowed_with_any_arguments(
    machine: str, numbers: tuple[int | None, int | None], words: tuple[int, ...]
) -> None:
    number = numbers[MACHINES.index(machine)]
    if number is not None:
        assert evaluate(machine, number, *words) == ALLOW


@given(st.integers(0, 2**32 - 1), st.integers(0, 500))
def test_a_call_of_another_architecture_kills_the_process(arch: int, number: int) -> None:
    for machine in MACHINES:
        if arch != AUDIT_ARCHITECTURES[machine]:
            assert run(seccomp.build_filter(machine, PID), number, arch) == KILL_PROCESS


@machines
def test_starting_a_thread_is_allowed_and_starting_a_process_is_denied(machine: str) -> None:
    column = MACHINES.index(machine)
    clone = (56, 220)[column]
    # The flags with which glibc starts a thread, and those of fork.
    assert evaluate(machine, clone, 0x003D0F00) == ALLOW
    assert evaluate(machine, clone, 0x01200011) == EPERM
    assert evaluate(machine, 435, 0) == ENOSYS


@machines
def test_reading_a_limit_is_allowed_and_setting_it_is_denied(machine: str) -> None:
    prlimit = (302, 261)[MACHINES.index(machine)]
    assert evaluate(machine, prlimit, 0, 7, 0, 0x7F00_0000_1000) == ALLOW
    assert evaluate(machine, prlimit, 0, 7, 0x1000, 0) == EPERM
    assert evaluate(machine, prlimit, 0, 7, 0x7F00_0000_0000, 0) == EPERM


@machines
def test_signals_are_allowed_to_the_process_itself_only(machine: str) -> None:
    tgkill = (234, 131)[MACHINES.index(machine)]
    assert evaluate(machine, tgkill, PID, PID, 6) == ALLOW
    assert evaluate(machine, tgkill, PID + 1, PID + 1, 6) == EPERM


@machines
def test_naming_a_thread_is_allowed_and_other_prctl_operations_are_denied(machine: str) -> None:
    prctl = (157, 167)[MACHINES.index(machine)]
    assert evaluate(machine, prctl, 15) == ALLOW
    assert evaluate(machine, prctl, 1, 0) == EPERM


@machines
@pytest.mark.parametrize(
    ("call", "numbers"),
    [
        ("openat", (257, 56)),
        ("openat2", (437, 437)),
        ("socket", (41, 198)),
        ("connect", (42, 203)),
        ("execve", (59, 221)),
        ("ptrace", (101, 117)),
        ("process_vm_writev", (311, 271)),
        ("kill", (62, 129)),
        ("io_uring_setup", (425, 425)),
        ("bpf", (321, 280)),
        ("memfd_create", (319, 279)),
        ("setsid", (112, 157)),
        ("ioctl", (16, 29)),
        ("mount", (165, 40)),
        ("unlinkat", (263, 35)),
    ],
)
def test_calls_that_leave_the_sandbox_are_denied(machine: str, call: str, numbers: tuple[int, int]) -> None:
    assert evaluate(machine, numbers[MACHINES.index(machine)]) == EPERM


@machines
def test_a_filter_has_a_valid_length_and_jumps_only_forwards_within_it(machine: str) -> None:
    program = seccomp.build_filter(machine, PID)
    assert len(program) <= 4096
    for index, step in enumerate(program):
        assert 0 <= step.if_true < 256
        assert 0 <= step.if_false < 256
        assert index + 1 + max(step.if_true, step.if_false) <= len(program)
