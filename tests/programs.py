"""Python programs in child processes, whose input and output are lines of text.

They are forked from a process that has imported the core, as starting an interpreter and importing the core
takes 0.3 s of CPU. Where processes cannot be forked, each has an interpreter of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from textwrap import dedent

_CAN_FORK = "forkserver" in multiprocessing.get_all_start_methods()
_BEGIN = """
import os, sys
for stream, descriptor in zip(_streams, range(3)):
    os.dup2(stream.fileno(), descriptor)
sys.stdin, sys.stdout = open(0), open(1, "w", buffering=1)
sys.argv = _arguments
os.environ.clear()
os.environ.update(_environment)
exec(compile(_text, "<program>", "exec"), {"__name__": "__main__"})
sys.stdout.flush()
"""
"""Lets a forked process be as one of `python -c`."""


class Program:
    """A running program.

    Args:
        text: The source of the program; common indentation is removed.
        arguments: Its `sys.argv`, from 1.
    """

    def __init__(self, text: str, *arguments: object) -> None:
        self._process: subprocess.Popen[str] | multiprocessing.process.BaseProcess
        self.pid: int
        start = self._fork if _CAN_FORK else self._run
        start(dedent(text), ["-c", *map(str, arguments)])

    def _run(self, text: str, arguments: list[str]) -> None:
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", text, *arguments[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self.pid = process, process.pid
        self._input, self._output = process.stdin, process.stdout

    def _fork(self, text: str, arguments: list[str]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["__main__", "imagehost_core.host"])
        (reader, to_program), (from_program, writer) = os.pipe(), os.pipe()
        streams = [
            Connection(reader, writable=False),
            Connection(writer, readable=False),
            Connection(os.dup(2), readable=False),
        ]
        names = {
            "_streams": streams,
            "_arguments": arguments,
            "_environment": dict(os.environ),
            "_text": text,
        }
        process = context.Process(target=exec, args=(_BEGIN, names))
        process.start()
        for stream in streams:
            stream.close()
        assert process.pid is not None
        self._process, self.pid = process, process.pid
        self._input, self._output = open(to_program, "w"), open(from_program)  # noqa: PTH123, SIM115

    def read_line(self) -> str:
        """Wait for the next line of the program's output."""
        line = self._output.readline()
        assert line, f"expected a line of the program but it exited with {self._wait()}"
        return line.strip()

    def write_line(self, line: str = "continue") -> None:
        """Write a line to the program's input."""
        self._input.write(f"{line}\n")
        self._input.flush()

    def end(self) -> int:
        """Close the program's input, wait for its exit, and return its exit status."""
        self._close_input()
        with self._output as output:
            output.read()
        return self._wait()

    def kill(self) -> None:
        """Kill the program with SIGKILL."""
        self._process.kill()
        self._wait()
        self._close_input()
        self._output.close()

    def _close_input(self) -> None:
        with suppress(BrokenPipeError):  # the program has ended
            self._input.close()

    def _wait(self) -> int:
        if isinstance(self._process, subprocess.Popen):
            return self._process.wait()
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode
