"""Whether an installed wheel stands on its own; run by the clean environment's own Python.

Usage: python check_wheel.py DISTRIBUTION
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from importlib.metadata import distribution
from importlib.util import find_spec

ABSENT = {
    "imagehost-core": ("imagehost_server", "imagehost_client", "litestar", "uvicorn", "httpx2", "msgspec"),
    "imagehost-server": ("imagehost_client", "httpx2"),
    "imagehost-client": ("imagehost_core", "imagehost_server", "PIL", "sqlite_utils", "litestar", "msgspec"),
}
"""Per distribution, what its installation alone must not bring along."""

COMPILED = {f"imagehost_core.pixels.{name}" for name in ("resample_native", "_chroma", "_resample")}
"""What a wheel has only where there was a compiler; it works without."""


def modules(package: str) -> list[str]:
    """Return the names of all modules of `package`, less those that are programs."""
    path = importlib.import_module(package).__path__
    found = (module.name for module in pkgutil.walk_packages(path, f"{package}."))
    return [package, *(name for name in found if not name.endswith("__main__"))]


def check(name: str) -> list[str]:
    """Return what is wrong with the installation of the distribution `name`."""
    package = name.replace("-", "_")
    wheel = distribution(name)
    files = {str(file) for file in wheel.files or ()}
    faults = [f"{name} brings {other}" for other in ABSENT[name] if find_spec(other) is not None]
    if f"{package}/py.typed" not in files:
        faults.append(f"{name} has no py.typed")
    if not any(file.endswith("LICENSE") for file in files):
        faults.append(f"{name} has no licence")
    if "site-packages" not in str(importlib.import_module(package).__file__):
        faults.append(f"{name} is not installed from its wheel")
    for module in modules(package):
        try:
            importlib.import_module(module)
        except ImportError:
            if module not in COMPILED:
                raise
    public = importlib.import_module(package)
    faults += [f"{package}.{word} is missing" for word in public.__all__ if not hasattr(public, word)]
    for script in wheel.entry_points.select(group="console_scripts"):
        script.load()
    return faults


if __name__ == "__main__":
    problems = check(sys.argv[1])
    print("\n".join(problems) or f"{sys.argv[1]} stands on its own")
    sys.exit(bool(problems))
