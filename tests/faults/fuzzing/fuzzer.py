"""Run one target by libFuzzer, guided by the branches that the code under test takes.

`python -m tests.faults.fuzzing.fuzzer TARGET CORPUS [option of libFuzzer]…`: the program ends with the first
input that violates the property, and writes it to a file.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

import atheris
from tests.faults.fuzzing.targets import TARGETS, load


def main(program: str, name: str, corpus: str, *options: str) -> None:
    """Write the corpus and the dictionary of a target, and run it."""
    logging.getLogger("imagehost").setLevel(logging.CRITICAL)
    settings, target = TARGETS[name], load(name)
    directory = Path(corpus)
    for number, data in enumerate((*target.seeds(), *target.FINDINGS)):
        (directory / f"seed-{number}").write_bytes(data)
    dictionary = directory.with_suffix(".dict")
    dictionary.write_text("".join(f'"{_escape(token)}"\n' for token in target.DICTIONARY))
    for module in settings.instrumented:
        # Whole packages, as `atheris.instrument_imports` has it, would be five times slower.
        for function in _functions(import_module(module)):
            atheris.instrument_func(function)
    limits = (f"-max_len={settings.max_bytes}", f"-dict={dictionary}")
    atheris.Setup([program, corpus, *limits, *options], target.check)
    atheris.Fuzz()


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions and methods that a module defines."""
    for item in vars(module).values():
        members = [item, *vars(item).values()] if inspect.isclass(item) else [item]
        for member in members:
            function = inspect.unwrap(getattr(member, "fget", getattr(member, "__func__", member)))
            is_own = isinstance(function, FunctionType) and function.__module__ == module.__name__
            # The methods that attrs generates are in no file.
            if is_own and function.__code__.co_filename == module.__file__:
                yield function


def _escape(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token)


if __name__ == "__main__":
    main(*sys.argv)
