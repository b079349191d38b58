"""Tasks of the workspace, one per nox session: `uvx nox -s tests`; `uvx nox -l` lists all of them.

`uvx nox` alone runs those marked with `*`, in about ten minutes. `.ci/run` runs all but `soak`, `bench`,
`findings`, `random_order`, and those of a release that need a tag, other systems or the network: `native`,
`licences`, `audit` and `release`.

Each session installs its dependencies with `uv sync`, so that their versions are set in one place:
`constraint-dependencies` in pyproject.toml.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import product
from pathlib import Path

import nox

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["tests", "lint", "types", "docs", "wheels"]

PACKAGES = ("imagehost-core", "imagehost-server", "imagehost-client")
MIN_COVERAGE = {"imagehost_core": 95, "imagehost_client": 95}
"""Minimum coverage of lines and branches per package, in percent."""
CORE = "tests/core"
PARTS = (CORE, "tests/server", "tests/client", "tests/contract", "tests/meta")
"""The directories of the tests that `tests` runs, the longest first."""
MEASURED = (CORE, "tests/client")
"""Those of which the coverage is measured."""
CACHE_BYTECODE = {"PYTHONDONTWRITEBYTECODE": None}
"""The environment of tests. They start hundreds of processes, and without cached bytecode each of them
compiles every module that it imports: 2.4 instead of 0.85 s of CPU for a server process."""
CIBUILDWHEEL, CYCLONEDX, PIP_AUDIT = "cibuildwheel==4.3.5", "cyclonedx-bom==7.5.0", "pip-audit==2.10.1"
"""Programs of releases, each run in an environment of its own."""
RANDOMLY = "pytest-randomly==5.1.0"
"""A plug-in of `random_order`. It prints the seed of an order, and `-p no:randomly` turns it off."""
DEPLOYED = "deployed"
"""The dependency group of what production installs: the server and the client with their extras."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""The supported versions of Python."""
PLATFORMS = ("linux", "darwin", "win32")
"""The platforms whose branches and standard library mypy checks."""
EXTENDED = "slow or external or faults"
"""The markers of the tests that `tests` leaves out and `extended` runs; pyproject.toml describes them."""
DEFAULT = (
    *("--ignore=tests/faults", "--ignore=tests/outside", "--ignore-glob=*/extended"),
    *("-m", f"not ({EXTENDED})"),
)
"""Options that select the tests of `tests`. Modules of directories that are left out are not imported."""
SLOW = "slow and not external and not faults"
EXTERNAL = "external and not faults"
"""Those but the tests marked faults, which expect responses in time, and run with `TIMED`."""
ENGINES = {"engines": (CORE, "-m", EXTERNAL), "slow": (CORE, "-m", SLOW)}
"""The parts of `engines`: the first starts one PostgreSQL server and one S3 server."""
OTHERS = {
    "browser": ("tests/outside/browser", "-m", EXTERNAL),
    "outside": ("tests/outside", "--ignore=tests/outside/browser", "-m", EXTERNAL),
    "server": ("tests/server/extended", "-m", f"({SLOW}) or ({EXTERNAL})"),
    "others": ("tests/server", "--ignore=tests/server/extended", "-m", f"({SLOW}) or ({EXTERNAL})"),
    "client": ("tests/client", "tests/contract", "tests/meta", "-m", f"({SLOW}) or ({EXTERNAL})"),
}
"""The parts of `extended`: the first starts one browser."""
TIMED = ("-n", str(min(2, os.cpu_count() or 1)), "--dist=loadfile")
"""Options of pytest-xdist: at most one process for each core, and a module's tests one after the other."""


def sync(session: nox.Session, *groups: str) -> None:
    """Install the three packages and dependency groups of pyproject.toml into the session's environment."""
    location = session.virtualenv.location
    session.run_install(
        *("uv", "sync", "--quiet", f"--python={location}", *(f"--group={group}" for group in groups)),
        env={"UV_PROJECT_ENVIRONMENT": str(Path(location).resolve())},
    )


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests, those of each package in a process of its own; arguments go to pytest.

    If `CI` is set, the coverage of the core and the client by their own tests is measured, and `engines` adds
    to it. That doubles the time of a test, so that the other tests run without.
    """
    sync(session, "tests")
    if session.posargs:
        session.run("pytest", *DEFAULT, *session.posargs, env=CACHE_BYTECODE)
        return
    measured = MEASURED if "CI" in os.environ else ()
    if measured:
        session.run("coverage", "erase")
    run_parts(session, {directory: (directory, *DEFAULT) for directory in PARTS}, measured)


def run_parts(
    session: nox.Session, parts: Mapping[str, Sequence[str]], measured: Collection[str] = ()
) -> None:
    """Run parts of the tests, by their arguments of pytest, in one process each, all at the same time.

    A module is imported once. The processes of pytest-xdist each import all modules, and send each other the
    result of each test: a quarter of the CPU time.
    """
    environment = {name: value for name, value in os.environ.items() if name not in CACHE_BYTECODE}
    environment["PATH"] = os.pathsep.join([session.bin, environment["PATH"]])

    def write(data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()

    def run(part: str) -> tuple[int, bytes]:
        """Run a part and print its progress; return its exit status and the rest of its output."""
        coverage = ("-m", "coverage", "run") if part in measured else ()
        command = (str(Path(session.bin) / "python"), "-u", *coverage, "-m", "pytest", *parts[part])
        pipe, rest = subprocess.PIPE, b""
        with subprocess.Popen(command, env=environment, stdout=pipe, stderr=subprocess.STDOUT) as process:
            for line in process.stdout or ():
                if line.endswith(b"%]\n"):
                    write(line)
                else:
                    rest += line
        return process.returncode, rest

    failed = []
    with ThreadPoolExecutor(len(parts)) as threads:
        running = {threads.submit(run, part): part for part in parts}
        for ended in as_completed(running):
            status, rest = ended.result()
            write(rest)
            if status:
                failed.append(running[ended])
    if failed:
        session.error(f"tests failed: {' '.join(sorted(failed))}")


@nox.session
def random_order(session: nox.Session) -> None:
    """Run the default tests of each directory in an order of its own, or those given; occasionally."""
    sync(session, "tests")
    session.install(RANDOMLY)
    for part in session.posargs or PARTS:
        session.run("pytest", part, *DEFAULT, env=CACHE_BYTECODE)


@nox.session
def engines(session: nox.Session) -> None:
    """Run the core's slow tests, and those on PostgreSQL and an S3 server; arguments go to pytest.

    If `CI` is set, the coverage of these tests and those of `tests` together must reach the minimum.
    """
    sync(session, "outside")
    if session.posargs:
        session.run("pytest", "-m", f"({SLOW}) or ({EXTERNAL})", *session.posargs, env=CACHE_BYTECODE)
        return
    measured = ENGINES if "CI" in os.environ else ()
    run_parts(session, ENGINES, measured)
    if not measured:
        return
    session.run("coverage", "combine", "--quiet")
    for package, minimum in MIN_COVERAGE.items():
        session.run("coverage", "report", f"--include=*/src/{package}/*", f"--fail-under={minimum}")


@nox.session
def extended(session: nox.Session) -> None:
    """Run the tests marked slow, external or faults, but those of `engines`; arguments go to pytest."""
    sync(session, "outside")
    if session.posargs:
        session.run("pytest", "-m", EXTENDED, *session.posargs, env=CACHE_BYTECODE)
        return
    try:
        run_parts(session, OTHERS)
    finally:
        session.run("pytest", "-m", "faults", *TIMED, env=CACHE_BYTECODE)


@nox.session
def soak(session: nox.Session) -> None:
    """Run the checks of tests/faults with many trials for hours; arguments go to pytest."""
    sync(session, "soak")
    arguments = (
        "-o",
        "faulthandler_timeout=0",
        "--log-cli-level=INFO",
        *(session.posargs or ["tests/faults"]),
    )
    session.run("pytest", *arguments, env={**CACHE_BYTECODE, "IMAGEHOST_TEST_SOAK": "true"})


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting, the layers of the packages, and the workflows for insecure settings."""
    sync(session, "lint")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("lint-imports", "--no-cache")
    session.run("zizmor", "--offline", "--quiet", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check the type annotations with mypy and basedpyright in strict mode."""
    sync(session, "types")
    packages = [argument for package in PACKAGES for argument in ("-p", package.replace("-", "_"))]
    for platform in PLATFORMS:
        session.run("mypy", f"--platform={platform}", *packages)
    session.run("mypy", "noxfile.py", "tests", "docs/examples", "bench", ".ci")
    # pyproject.toml lists the files that basedpyright checks.
    python = ("--pythonpath", str(Path(session.virtualenv.bin) / "python"))
    session.run("basedpyright", *python)
    # The types of every public name of the client must be known, whichever type checker a program uses.
    session.run("basedpyright", *python, "--verifytypes", "imagehost_client", "--ignoreexternal")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into `site/`; a warning is an error, as is a resource from another host."""
    sync(session, "docs")
    quiet = {"NO_MKDOCS_2_WARNING": "1"}
    session.run("mkdocs", "build", "--strict", "--clean", *session.posargs, env=quiet)
    session.run("python", ".ci/check_site.py", "site")


@nox.session(venv_backend="none")
def wheels(session: nox.Session) -> None:
    """Build each wheel, install it alone into a clean environment of each Python here, and check it there."""
    folder = Path(session.create_tmp()).resolve()
    for package in PACKAGES:
        session.run("uv", "build", "--quiet", "--wheel", f"--package={package}", f"--out-dir={folder}/dist")
    find = ("uv", "python", "find", "--no-project", "--no-python-downloads")
    found = [
        version
        for version in PYTHONS
        if Path(str(session.run(*find, version, silent=True, success_codes=range(3))).strip()).is_file()
    ]
    for version, package in product(found, PACKAGES):
        environment = folder / f"{package}-{version}"
        session.run("uv", "venv", "--quiet", "--clear", f"--python={version}", str(environment))
        python = next(
            path for path in (environment / "bin/python", environment / "Scripts/python.exe") if path.exists()
        )
        session.run(
            *("uv", "pip", "install", "--quiet", f"--python={python}", f"--find-links={folder}/dist"),
            *("--reinstall-package", package, package),
        )
        session.run(str(python), "-I", "-W", "error", ".ci/check_wheel.py", package)
    # The last wheel is the client's: its command needs an extra.
    session.run("uv", "pip", "install", "--quiet", f"--python={python}", "imagehost-client[cli]")
    session.run(str(python.with_name("imagehost-client")), "--version", external=True)


@nox.session(venv_backend="none")
def dist(session: nox.Session) -> None:
    """Build sdists and pure wheels into `dist/`: the same commit gives the same bytes."""
    epoch = session.run("git", "log", "-1", "--format=%ct", external=True, silent=True)
    variables = {"SOURCE_DATE_EPOCH": str(epoch).strip()}
    shutil.rmtree("dist", ignore_errors=True)
    for package in PACKAGES:
        kinds = ("--sdist",) if package == "imagehost-core" else ("--sdist", "--wheel")
        session.run("uv", "build", "--quiet", *kinds, f"--package={package}", "--out-dir=dist", env=variables)
    sdists = sorted(str(path) for path in Path("dist").glob("*.tar.gz"))
    session.run(sys.executable, ".ci/repack_sdist.py", *sdists, env=variables, external=True)


@nox.session(venv_backend="none")
def native(session: nox.Session) -> None:
    """Build and try the core's wheels for this platform, into `dist/`; on Linux it needs Docker or Podman."""
    session.run("uvx", CIBUILDWHEEL, "packages/imagehost-core", "--output-dir=dist", external=True)


@nox.session
def sbom(session: nox.Session) -> None:
    """Write what is installed with the server and all its extras, as CycloneDX, to `sbom/`."""
    sync(session, DEPLOYED)
    Path("sbom").mkdir(exist_ok=True)
    target = "--output-file=sbom/imagehost-server.cdx.json"
    python = Path(session.virtualenv.bin) / ("python.exe" if os.name == "nt" else "python")
    session.run(
        *("uvx", "--from", CYCLONEDX, "cyclonedx-py", "environment", "--output-reproducible"),
        *("--pyproject=packages/imagehost-server/pyproject.toml", target, str(python)),
        external=True,
    )


@nox.session
def licences(session: nox.Session) -> None:
    """Write the licences of what production installs to `docs/licences.md`."""
    sync(session, DEPLOYED)
    session.run("python", ".ci/licences.py", "docs/licences.md")


@nox.session
def audit(session: nox.Session) -> None:
    """Look for known vulnerabilities of what production installs, in a database on the network.

    One is accepted by `--ignore-vuln` here, with the reason, only where its code cannot be reached.
    """
    sync(session, DEPLOYED)
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    path = str(session.run("python", "-c", program, silent=True)).strip()
    session.run("uvx", PIP_AUDIT, "--strict", "--skip-editable", f"--path={path}", external=True)


@nox.session(venv_backend="none")
def release(session: nox.Session) -> None:
    """Check that a version can be released (`-- 1.0.0`), and print the command that tags it.

    `-- --write` copies the version and the address of the repository from pyproject.toml to the packages.
    """
    session.run(sys.executable, ".ci/release.py", *session.posargs, external=True)


@nox.session(venv_backend="none")
def findings(session: nox.Session) -> None:
    """Run the scripts of `findings/`, or those given; not part of continuous integration."""
    for script in session.posargs or sorted(map(str, Path("findings").glob("*.sh"))):
        session.run("bash", script, external=True)


@nox.session
def bench(session: nox.Session) -> None:
    """Run a benchmark, by default `bench/render.py`; not part of continuous integration."""
    sync(session, "tests")
    session.run("python", *(session.posargs or ["bench/render.py"]))
