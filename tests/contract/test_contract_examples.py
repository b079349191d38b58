"""The client's examples run against the real server, and print the documented output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.client.test_client_examples import EXAMPLES, expected_output
from tests.contract.conftest import PASSWORD, ServerBackend


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("client_*.py")), ids=lambda path: path.stem)
def test_an_example_of_the_client_runs_against_the_real_server(
    example: Path, server_backend: ServerBackend, tmp_path: Path
) -> None:
    account = server_backend.create_account()
    variables = {
        "IMAGEHOST_BASE_URL": server_backend.base_url,
        "IMAGEHOST_TOKEN": account.token,
        "PASSWORD": PASSWORD,
    }
    process = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == expected_output(example.read_text(encoding="utf-8"))
