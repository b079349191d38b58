"""Memory that is free is returned to the kernel, by glibc in a process of its own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes
import sys
from imagehost_server.serve.allocator import limit_free_memory

class Statistics(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    )]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Statistics
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
if sys.argv[1] == "changed":
    limit_free_memory()
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


ARENAS = """
import ctypes
import threading
from imagehost_server.serve.allocator import limit_free_memory

limit_free_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
barrier = threading.Barrier(6)

def allocate():
    libc.malloc(1000)
    barrier.wait()

threads = [threading.Thread(target=allocate) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.fopen.restype = ctypes.c_void_p
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.fclose.argtypes = [ctypes.c_void_p]
output = libc.fopen(b"/dev/stdout", b"w")
libc.malloc_info(0, output)
libc.fclose(output)
"""
"""Prints glibc's malloc_info(3) after six threads have had memory at the same time."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="its allocator has arenas")
@pytest.mark.parametrize(("variables", "arenas"), [({}, 2), ({"MALLOC_ARENA_MAX": "4"}, 4)])
def test_server_processes_have_two_arenas_unless_the_environment_has_a_number(
    variables: dict[str, str], arenas: int
) -> None:
    inherited = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    output = subprocess.run(
        [sys.executable, "-c", ARENAS], capture_output=True, check=True, text=True, env=inherited | variables
    ).stdout
    assert output.count("<heap nr=") == arenas
