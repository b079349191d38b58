"""Clients that generators write from the OpenAPI document of the running server."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.outside.generators.conftest import PROPERTY, STEPS
from tests.outside.generators.generator import GENERATORS, Generator
from tests.outside.generators.run import run

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer

pytestmark = pytest.mark.external


@pytest.mark.parametrize("generator", GENERATORS, ids=[generator.name for generator in GENERATORS])
def test_a_generated_client_compiles_uploads_lists_signs_and_deletes(
    generator: Generator,
    unlimited_server: RunningServer,
    openapi_document: bytes,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    passed: list[str] = []
    record_property(PROPERTY, (generator.name, generator.version, passed, STEPS))
    (tmp_path / "openapi.json").write_bytes(openapi_document)
    (tmp_path / "image.png").write_bytes(make_image(40, 30))
    commands = generator.install(tmp_path)

    generated = run(commands.generate, tmp_path)
    assert generated.returncode == 0, generated.stdout
    passed.append("generates")

    compiled = run(commands.compile, tmp_path)
    assert compiled.returncode == 0, compiled.stdout
    passed.append("compiles")

    variables = {
        "BASE_URL": unlimited_server.base_url,
        "TOKEN": unlimited_server.token,
        "IMAGE": str(tmp_path / "image.png"),
        "IMAGE_BASE64": b64encode(make_image(40, 30)).decode(),
    }
    used = run(commands.use, tmp_path, variables)
    passed += [line for line in used.stdout.splitlines() if line in STEPS]
    assert (used.returncode, passed) == (0, list(STEPS)), used.stdout
