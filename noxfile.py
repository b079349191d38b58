"""Tasks of the workspace, one per nox session: `uvx nox -s tests`; `uvx nox -l` lists all of them.

Each session installs its dependencies with `uv sync`, so that their versions are set in one place:
`constraint-dependencies` in pyproject.toml.
"""

from __future__ import annotations

import os
from pathlib import Path

import nox

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["tests", "lint", "types", "docs", "wheels"]

PACKAGES = ("imagehost-core", "imagehost-server", "imagehost-client")
MIN_COVERAGE = {"imagehost_core": 95, "imagehost_client": 95, "imagehost_server": 0}
"""Minimum coverage of lines and branches per package, in percent."""
CACHE_BYTECODE = {"PYTHONDONTWRITEBYTECODE": None}
"""The environment of tests. They start hundreds of processes, and without cached bytecode each of them
compiles every module that it imports: 2.4 instead of 0.85 s of CPU for a server process."""
PLATFORMS = ("linux", "darwin", "win32")
"""The platforms whose branches and standard library mypy checks."""
EXTENDED = "slow or faults or external"
"""The markers of the tests that `tests` leaves out and `extended` runs; pyproject.toml describes them."""


def sync(session: nox.Session, *groups: str) -> None:
    """Install the three packages and dependency groups of pyproject.toml into the session's environment."""
    location = session.virtualenv.location
    session.run_install(
        *("uv", "sync", "--quiet", f"--python={location}", *(f"--group={group}" for group in groups)),
        env={"UV_PROJECT_ENVIRONMENT": str(Path(location).resolve())},
    )


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests in one process per core; arguments go to pytest.

    If `CI` is set, the coverage of all processes is measured and must reach the minimum.
    """
    sync(session, "tests")
    # worksteal keeps a module's tests together, and with them the servers that they share.
    arguments = ("-m", f"not ({EXTENDED})", "-n", "logical", "--maxprocesses=4", "--dist=worksteal")
    if "CI" not in os.environ:
        session.run("pytest", *arguments, *session.posargs, env=CACHE_BYTECODE)
        return
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", *arguments, *session.posargs, env=CACHE_BYTECODE)
    session.run("coverage", "combine", "--quiet")
    if not session.posargs:
        for package, minimum in MIN_COVERAGE.items():
            session.run("coverage", "report", f"--include=*/{package}/*", f"--fail-under={minimum}")


@nox.session
def extended(session: nox.Session) -> None:
    """Run the tests marked slow, faults or external, one at a time: some measure time or memory."""
    sync(session, "outside")
    session.run("pytest", "-m", EXTENDED, *session.posargs, env=CACHE_BYTECODE)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting and the layers of the packages."""
    sync(session, "lint")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("lint-imports", "--no-cache")


@nox.session
def types(session: nox.Session) -> None:
    """Check the type annotations with mypy and basedpyright in strict mode."""
    sync(session, "types")
    packages = [argument for package in PACKAGES for argument in ("-p", package.replace("-", "_"))]
    for platform in PLATFORMS:
        session.run("mypy", f"--platform={platform}", *packages)
    session.run("mypy", "noxfile.py", "tests", "docs/examples", "bench", ".ci")
    # pyproject.toml lists the files that basedpyright checks.
    session.run("basedpyright", "--pythonpath", str(Path(session.virtualenv.bin) / "python"))


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into `site/`; a warning is an error, as is a resource from another host."""
    sync(session, "docs")
    quiet = {"NO_MKDOCS_2_WARNING": "1"}
    session.run("mkdocs", "build", "--strict", "--clean", *session.posargs, env=quiet)
    session.run("python", ".ci/check_site.py", "site")


@nox.session(venv_backend="none")
def wheels(session: nox.Session) -> None:
    """Build each wheel, install it alone into a clean environment, and check it there."""
    folder = Path(session.create_tmp()).resolve()
    for package in PACKAGES:
        session.run("uv", "build", "--quiet", "--wheel", f"--package={package}", f"--out-dir={folder}/dist")
    for package in PACKAGES:
        environment = folder / package
        session.run("uv", "venv", "--quiet", "--clear", str(environment))
        python = next(
            path for path in (environment / "bin/python", environment / "Scripts/python.exe") if path.exists()
        )
        session.run(
            *("uv", "pip", "install", "--quiet", f"--python={python}", f"--find-links={folder}/dist"),
            *("--reinstall-package", package, package),
        )
        session.run(str(python), "-I", "-W", "error", ".ci/check_wheel.py", package)


@nox.session
def bench(session: nox.Session) -> None:
    """Run a benchmark, by default `bench/render.py`; not part of continuous integration."""
    sync(session, "tests")
    session.run("python", *(session.posargs or ["bench/render.py"]))
