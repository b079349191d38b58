"""Memory that is free is returned to the kernel, by glibc in a process of its own."""

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


SCATTERED = """
import ctypes
import re
import sys
import time
from pathlib import Path
from imagehost_server.serve.allocator import trim_periodically

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]

def mebibytes():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

blocks = [libc.malloc(1024) for _ in range(40_000)]
for block in blocks:
    libc.memset(block, 1, 1024)
# Every 40th block stays in use, so that most pages are free, and none of them at the end.
for number, block in enumerate(blocks):
    if number % 40 != 39:
        libc.free(block)
before = mebibytes()
if sys.argv[1] == "trimmed":
    trim_periodically(0.01)
deadline = time.monotonic() + float(sys.argv[2])
while before - mebibytes() < 20 and time.monotonic() < deadline:
    time.sleep(0.01)
print(before - mebibytes() >= 20)
"""
"""Prints whether most of 40 MiB that are free between blocks in use are returned."""

GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")


@GLIBC
@pytest.mark.parametrize(("argument", "expected"), [("default", "0"), ("changed", "1")])
def test_large_blocks_are_returned_after_the_first_one_too(argument: str, expected: str) -> None:
    command = [sys.executable, "-c", PROGRAM, argument]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert output.strip() == expected


@GLIBC
@pytest.mark.parametrize(
    ("argument", "seconds", "expected"), [("default", "0.5", "False"), ("trimmed", "30", "True")]
)
def test_free_pages_between_blocks_in_use_are_returned(argument: str, seconds: str, expected: str) -> None:
    command = [sys.executable, "-c", SCATTERED, argument, seconds]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert output.strip() == expected
