"""Check an installed wheel; run by the Python of the clean environment that it is installed into.

Usage: python check_wheel.py DISTRIBUTION
"""

from __future__ import annotations

import importlib
import io
import pkgutil
import sys
from contextlib import redirect_stderr, suppress
from importlib.metadata import distribution
from importlib.util import find_spec

ABSENT = {
    "imagehost-core": ("imagehost_server", "imagehost_client", "litestar", "uvicorn", "httpx2", "msgspec"),
    "imagehost-server": ("imagehost_client", "httpx2"),
    "imagehost-client": (
        *("imagehost_core", "imagehost_server", "PIL", "sqlite_utils", "litestar", "msgspec"),
        *("click", "platformdirs", "rich", "keyring", "django"),
    ),
}
"""Modules that must not be installed with a distribution alone, by distribution."""

NATIVE = {f"imagehost_core.pixels.{name}" for name in ("resample_native", "_chroma", "_resample")}
"""What a wheel has only where there was a compiler; it works without."""

OPTIONAL = {
    *("obstore", "psycopg", "psycopg_pool", "click", "platformdirs", "rich", "keyring", "pytest", "django"),
}
"""Packages of extras and of a plug-in, without which the modules that use them cannot be imported."""


INSTRUCTION = {"imagehost-client": "pip install './packages/imagehost-client[cli]' in a clone"}
"""What the command of a distribution prints where an extra that it needs is not installed."""


EXTRA = "pip install ./packages/imagehost-core ./packages/imagehost-server in a clone"
"""What the error of `FakeImageHost` says without the server."""


def error_of_the_double() -> str:
    """Return the error of the client's host in memory where the server is not installed."""
    try:
        importlib.import_module("imagehost_client.testing").FakeImageHost()
    except ImportError as error:
        return str(error)
    return ""


def modules(package: str) -> list[str]:
    """Return the names of all modules of `package` except `__main__`."""
    path = importlib.import_module(package).__path__
    names = (module.name for module in pkgutil.walk_packages(path, f"{package}."))
    return [package, *(name for name in names if not name.endswith("__main__"))]


def check(name: str) -> list[str]:
    """Return the problems of the installation of the distribution `name`."""
    package = name.replace("-", "_")
    wheel = distribution(name)
    files = {str(file) for file in wheel.files or ()}
    problems = [f"{name} installs {other}" for other in ABSENT[name] if find_spec(other) is not None]
    if f"{package}/py.typed" not in files:
        problems.append(f"{name} has no py.typed")
    if not any(file.endswith("LICENSE") for file in files):
        problems.append(f"{name} has no licence")
    if "site-packages" not in str(importlib.import_module(package).__file__):
        problems.append(f"{name} is not installed from its wheel")
    for module in modules(package):
        try:
            importlib.import_module(module)
        except ImportError as error:
            if module not in NATIVE and (error.name or "").partition(".")[0] not in OPTIONAL:
                raise
    if name == "imagehost-client":
        problems += [] if EXTRA in error_of_the_double() else [f"FakeImageHost does not name {EXTRA}"]
    public = importlib.import_module(package)
    problems += [
        f"{package}.{attribute} is missing" for attribute in dir(public) if not hasattr(public, attribute)
    ]
    for script in wheel.entry_points.select(group="console_scripts"):
        script.load()
        if name in INSTRUCTION:
            messages = io.StringIO()
            with redirect_stderr(messages), suppress(SystemExit):
                script.load()()
            if INSTRUCTION[name] not in messages.getvalue():
                problems.append(f"{script.name} does not print {INSTRUCTION[name]!r}")
    return problems


if __name__ == "__main__":
    problems = check(sys.argv[1])
    print("\n".join(problems) or f"{sys.argv[1]} works without the other packages")
    sys.exit(bool(problems))
