"""The filter lets through what is on its lists, on both machines, and nothing else."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.sandbox import seccomp
from imagehost_core.sandbox.seccomp import ALLOW, AUDIT, ERRNO, KILL_PROCESS, Instruction

PID = 4711
EPERM = ERRNO | errno.EPERM
ENOSYS = ERRNO | errno.ENOSYS
MACHINES = list(AUDIT)
machines = pytest.mark.parametrize("machine", MACHINES)
WORDS = st.integers(0, 2**64 - 1)


def run(program: tuple[Instruction, ...], number: int, arch: int, arguments: tuple[int, ...] = ()) -> int:
    """Return what a filter says of a call, as the kernel would run it (linux/bpf_common.h)."""
    data = number.to_bytes(4, "little") + arch.to_bytes(4, "little") + bytes(8)
    data += b"".join(word.to_bytes(8, "little") for word in (*arguments, 0, 0, 0, 0, 0, 0)[:6])
    value, place = 0, 0
    while True:
        step = program[place]
        place += 1
        if step.code == seccomp.LOAD:
            value = int.from_bytes(data[step.constant : step.constant + 4], "little")
        elif step.code == seccomp.AND:
            value &= step.constant
        elif step.code == seccomp.EQUAL:
            place += step.if_true if value == step.constant else step.if_false
        else:
            assert step.code == seccomp.RETURN
            return step.constant


def verdict(machine: str, number: int, *arguments: int) -> int:
    return run(seccomp.build_filter(machine, PID), number, AUDIT[machine], arguments)


@given(st.sampled_from(MACHINES), st.integers(0, 2**32 - 1), st.tuples(*[WORDS] * 6))
def test_a_call_that_is_on_no_list_is_refused(machine: str, number: int, words: tuple[int, ...]) -> None:
    column = MACHINES.index(machine)
    listed = [*seccomp.ALLOWED_SYSCALLS.values(), *seccomp.ENOSYS_SYSCALLS.values()]
    listed += [numbers for numbers, _ in seccomp.argument_rules(PID).values()]
    if number not in [numbers[column] for numbers in listed]:
        assert verdict(machine, number, *words) == EPERM


@given(
    st.sampled_from(MACHINES),
    st.sampled_from(list(seccomp.ALLOWED_SYSCALLS.values())),
    st.tuples(*[WORDS] * 6),
)
def test_a_call_that_a_worker_needs_is_allowed_whatever_its_arguments(
    machine: str, numbers: tuple[int | None, int | None], words: tuple[int, ...]
) -> None:
    number = numbers[MACHINES.index(machine)]
    if number is not None:
        assert verdict(machine, number, *words) == ALLOW


@given(st.integers(0, 2**32 - 1), st.integers(0, 500))
def test_a_call_in_the_way_of_another_machine_ends_the_process(arch: int, number: int) -> None:
    for machine in MACHINES:
        if arch != AUDIT[machine]:
            assert run(seccomp.build_filter(machine, PID), number, arch) == KILL_PROCESS


@machines
def test_threads_are_started_and_processes_are_not(machine: str) -> None:
    column = MACHINES.index(machine)
    clone = (56, 220)[column]
    # The flags with which glibc starts a thread, and those of fork.
    assert verdict(machine, clone, 0x003D0F00) == ALLOW
    assert verdict(machine, clone, 0x01200011) == EPERM
    assert verdict(machine, 435, 0) == ENOSYS


@machines
def test_a_limit_is_read_and_not_set(machine: str) -> None:
    prlimit = (302, 261)[MACHINES.index(machine)]
    assert verdict(machine, prlimit, 0, 7, 0, 0x7F00_0000_1000) == ALLOW
    assert verdict(machine, prlimit, 0, 7, 0x1000, 0) == EPERM
    assert verdict(machine, prlimit, 0, 7, 0x7F00_0000_0000, 0) == EPERM


@machines
def test_a_process_signals_itself_and_no_other(machine: str) -> None:
    tgkill = (234, 131)[MACHINES.index(machine)]
    assert verdict(machine, tgkill, PID, PID, 6) == ALLOW
    assert verdict(machine, tgkill, PID + 1, PID + 1, 6) == EPERM


@machines
def test_a_thread_is_named_and_nothing_else_of_it_is_changed(machine: str) -> None:
    prctl = (157, 167)[MACHINES.index(machine)]
    assert verdict(machine, prctl, 15) == ALLOW
    assert verdict(machine, prctl, 1, 0) == EPERM


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
def test_the_ways_out_are_shut(machine: str, call: str, numbers: tuple[int, int]) -> None:
    assert verdict(machine, numbers[MACHINES.index(machine)]) == EPERM


@machines
def test_a_filter_is_as_short_as_the_kernel_asks_and_jumps_only_forwards_within_it(machine: str) -> None:
    program = seccomp.build_filter(machine, PID)
    assert len(program) <= 4096
    for place, step in enumerate(program):
        assert 0 <= step.if_true < 256
        assert 0 <= step.if_false < 256
        assert place + 1 + max(step.if_true, step.if_false) <= len(program)
