"""Child processes of the command `serve`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def in_fork(call: Callable[..., T], *arguments: object) -> T:
    """Return the result of a call in a fork of this process, which has no thread afterwards, on Linux."""
    if sys.platform == "linux":
        with ProcessPoolExecutor(1, get_context("fork"), initializer=exit_with_parent) as pool:
            return pool.submit(call, *arguments).result()
    else:
        return call(*arguments)


def exit_with_parent() -> None:
    """Have a child process exit when its parent does, however it ends: it would keep the port."""
    parent = parent_process()
    if parent is not None:
        Thread(target=_exit_after, args=(parent,), name="parent", daemon=True).start()


def _exit_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
