"""The workspace's chores, one session each: `uvx nox -s tests`, `uvx nox -l` for the rest.

Every session fills its own environment with `uv sync`, so the versions that we run with stand in
one place: `constraint-dependencies` in pyproject.toml.
"""

from __future__ import annotations

from pathlib import Path

import nox

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["tests", "lint", "types", "docs", "wheels"]

PACKAGES = ("imagehost-core", "imagehost-server", "imagehost-client")
LEAST_COVERED = {"imagehost_core": 95, "imagehost_client": 95, "imagehost_server": 0}
"""Per package, the least share of lines and branches that the tests must reach, in percent."""


def sync(session: nox.Session, *groups: str) -> None:
    """Fill the session's environment with the three packages and `groups` of pyproject.toml."""
    location = session.virtualenv.location
    session.run_install(
        *("uv", "sync", "--quiet", f"--python={location}", *(f"--group={group}" for group in groups)),
        env={"UV_PROJECT_ENVIRONMENT": str(Path(location).resolve())},
    )


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests with the coverage of all their processes; arguments go to pytest."""
    sync(session, "tests")
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", *session.posargs)
    session.run("coverage", "combine", "--quiet")
    if session.posargs:
        return
    for package, least in LEAST_COVERED.items():
        session.run("coverage", "report", f"--include=*/{package}/*", f"--fail-under={least}")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, form and the floors of the house."""
    sync(session, "lint")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("lint-imports", "--no-cache")


@nox.session
def types(session: nox.Session) -> None:
    """Check every annotation, strictly."""
    sync(session, "types")
    packages = (argument for package in PACKAGES for argument in ("-p", package.replace("-", "_")))
    session.run("mypy", *packages)
    session.run("mypy", "noxfile.py", "tests", "docs/examples", "bench", ".ci")
    # What pyright judges stands in pyproject.toml.
    session.run("basedpyright", "--pythonpath", str(Path(session.virtualenv.bin) / "python"))


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into `site/`; a warning is an error, and so is a foreign script or font."""
    sync(session, "docs")
    quiet = {"NO_MKDOCS_2_WARNING": "1"}
    session.run("mkdocs", "build", "--strict", "--clean", *session.posargs, env=quiet)
    session.run("python", ".ci/check_site.py", "site")


@nox.session(venv_backend="none")
def wheels(session: nox.Session) -> None:
    """Build each wheel, install it alone into a clean environment, and use it there."""
    folder = Path(session.create_tmp()).resolve()
    for package in PACKAGES:
        session.run("uv", "build", "--quiet", "--wheel", f"--package={package}", f"--out-dir={folder}/dist")
    for package in PACKAGES:
        room = folder / package
        session.run("uv", "venv", "--quiet", "--clear", str(room))
        python = next(path for path in (room / "bin/python", room / "Scripts/python.exe") if path.exists())
        session.run(
            *("uv", "pip", "install", "--quiet", f"--python={python}", f"--find-links={folder}/dist"),
            *("--reinstall-package", package, package),
        )
        session.run(str(python), "-I", "-W", "error", ".ci/check_wheel.py", package)


@nox.session
def bench(session: nox.Session) -> None:
    """Run a benchmark, `bench/render.py` if none is named; no part of continuous integration."""
    sync(session, "tests")
    session.run("python", *(session.posargs or ["bench/render.py"]))
