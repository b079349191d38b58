"""The instructions of a Containerfile, and a build of it in a directory, without a container engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import define, field
from tests.waiting import PATIENCE


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the argument of every instruction."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for line in lines.replace("\\\n", "").splitlines():
        if line.strip():
            name, _, argument = line.partition(" ")
            yield name, " ".join(argument.split())


def assignments(argument: str) -> dict[str, str]:
    """Return the variables of an ENV instruction."""
    return dict(re.findall(r"(\w+)=(\S+)", argument))


def exec_form(argument: str) -> list[str]:
    """Return the command of an instruction in the exec form."""
    words = json.loads(argument[argument.index("[") :])
    assert isinstance(words, list)
    return [str(word) for word in words]


@define
class Build:
    """A build of a Containerfile in a directory, which has the files of the newest stage.

    Attributes:
        directory: Where to build.
        context: The build context.
        python: The interpreter in place of that of the base image.
        variables: Those of ENV in the last stage, with mapped paths.
        command: ENTRYPOINT with CMD, of the last stage.
    """

    directory: Path
    context: Path
    python: str
    variables: dict[str, str] = field(factory=dict)
    command: list[str] = field(factory=list)
    _stages: dict[str, Path] = field(factory=dict)
    _stage: str = ""
    _workdir: str = "/"

    @property
    def root(self) -> Path:
        """The root directory of the newest stage."""
        return self.directory / "root"

    def map(self, text: str) -> str:
        """Return a text with paths below `root`."""
        text = text.replace("/usr/local/bin/python", self.python)
        return re.sub(r"(?<![\w/.])/(opt/|src\b|data\b)", rf"{self.root}/\1", text)

    def run(self, text: str) -> None:
        """Carry out the instructions that create files or set variables and commands."""
        actions: dict[str, Callable[[str], None]] = {
            "FROM": self._begin_stage,
            "ENV": self._set_variables,
            "WORKDIR": self._change_directory,
            "COPY": self._copy,
            "RUN": self._run,
            "ENTRYPOINT": lambda argument: self.command.extend(exec_form(argument)),
            "CMD": lambda argument: self.command.extend(exec_form(argument)),
        }
        for name, argument in instructions(text):
            actions.get(name, _ignore)(argument)

    def _begin_stage(self, argument: str) -> None:
        if self.root.exists():
            self._stages[self._stage] = self.root.rename(self.directory / f"stage-{self._stage}")
        self._stage = argument.rpartition(" AS ")[2]
        self.variables, self.command, self._workdir = {}, [], "/"
        (self.root / "etc").mkdir(parents=True)
        (self.root / "opt").mkdir()
        for name in ("passwd", "group", "shadow", "login.defs"):
            shutil.copy(f"/etc/{name}", self.root / "etc" / name)

    def _set_variables(self, argument: str) -> None:
        for name, value in assignments(argument).items():
            parts = value.replace("$PATH", "/usr/local/bin:/usr/bin:/bin").split(":")
            self.variables[name] = ":".join(map(self.map, parts))

    def _change_directory(self, argument: str) -> None:
        self._workdir = argument
        Path(self.map(argument)).mkdir(parents=True, exist_ok=True)

    def _copy(self, argument: str) -> None:
        source, target = argument.removeprefix("--from=build ").split()
        if argument.startswith("--from=build "):
            shutil.copytree(self._stages["build"] / source.lstrip("/"), self.map(target), symlinks=True)
            return
        destination = Path(self.map(self._workdir)) / target
        if (self.context / source).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info", "build", ".*")
            shutil.copytree(self.context / source, destination, ignore=ignored)
        else:
            shutil.copy(self.context / source, destination)

    def _run(self, argument: str) -> None:
        if argument.startswith(("apt-get ", "python -m pip ")):
            return  # What they install is on this machine already.
        for program in ("groupadd", "useradd"):
            argument = argument.replace(f"{program} ", f"{program} --prefix {self.root} ")
        dropped = ("VIRTUAL_ENV", "PYTHON", "IMAGEHOST_", "UV_PROJECT_ENVIRONMENT")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        subprocess.run(
            ["/bin/sh", "-e", "-c", self.map(argument)],
            cwd=self.root if self._workdir == "/" else self.map(self._workdir),
            env=inherited | self.variables,
            check=True,
            timeout=PATIENCE,
        )


def _ignore(_argument: str) -> None:
    """Ignore an instruction that changes no file."""
