"""The first lines of README where pip refuses to install into the system's Python (PEP 668), as on Debian."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.ports import free_port

from imagehost_server.testing import environment

PYTHON = "/usr/bin/python3"
OF_THIS_ENVIRONMENT = ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT")
"""The variables by which uv would install the copy into the environment of these tests."""


@pytest.mark.slow
def test_readme_starts_a_server_in_a_virtual_environment_of_debians_python_without_a_compiler(
    workspace: Path, tmp_path: Path
) -> None:
    refusal = subprocess.run(
        [PYTHON, "-m", "pip", "install", "uv"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    if "externally-managed-environment" not in refusal.stderr:
        pytest.skip(f"NOT TESTED: {PYTHON} is not there, has no pip, or does not refuse: {refusal.stderr}")
    readme = (workspace / "README.md").read_text(encoding="utf-8")
    prepare = re.search(r"`(python3 -m venv [^`]+)`", readme)
    start = re.search(r"^(pip install uv && uv run imagehost serve .*)$", readme, re.MULTILINE)
    assert prepare is not None
    assert start is not None
    ignored = shutil.ignore_patterns(".*", "__pycache__", "*.so", "data", "site", "uv.lock")
    shutil.copytree(workspace, tmp_path / "clone", ignore=ignored)
    variables = environment({"IMAGEHOST_SERVER_PORT": str(free_port())})
    for name in OF_THIS_ENVIRONMENT:
        variables.pop(name, None)
    with subprocess.Popen(
        ["/bin/sh", "-c", f"{prepare[1]} && {start[1]}"],
        cwd=tmp_path / "clone",
        env=variables | {"PATH": "/usr/bin:/bin", "PYTHONWARNINGS": "", "CC": "/bin/false"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line)
                if line.startswith("Serving "):
                    break
            assert lines[-1].startswith("Serving http://127.0.0.1:"), lines
            assert "Created account admin" in "".join(lines)
            assert "C extensions of imagehost-core not built" in "".join(lines)
            checks = subprocess.run(
                [".venv/bin/imagehost", "check", "--data", "data", "--json"],
                cwd=tmp_path / "clone",
                env=variables,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            found = {each["name"]: each for each in json.loads(checks)["checks"]}
            missing = {name: each["state"] for name, each in found.items() if "compiler" in each["advice"]}
            assert missing == {"resampling": "warning", "chroma subsampling": "warning"}
        finally:
            subprocess.run(["kill", "--", f"-{process.pid}"], check=True)
