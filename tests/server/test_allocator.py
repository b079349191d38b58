"""Large blocks of memory are returned to the kernel, by glibc in a process of its own."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes
import sys
from imagehost_server.serve.allocator import return_large_blocks

class Statistics(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    )]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Statistics
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
if sys.argv[1] == "changed":
    return_large_blocks()
libc.free(libc.malloc(2**20))
before = libc.mallinfo2().hblks
libc.malloc(2**20)
print(libc.mallinfo2().hblks - before)
"""
"""Prints whether a block is one of its own, as glibc's mallinfo(3) counts it, after one has been freed."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
@pytest.mark.parametrize(("argument", "expected"), [("default", "0"), ("changed", "1")])
def test_large_blocks_are_returned_after_the_first_one_too(argument: str, expected: str) -> None:
    command = [sys.executable, "-c", PROGRAM, argument]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert output.strip() == expected
