"""The client's examples run as they stand against the real server, and print what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.client.test_client_examples import EXAMPLES, promised
from tests.contract.conftest import PASSWORD, ServerHouse


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("client_*.py")), ids=lambda path: path.stem)
def test_an_example_of_the_client_runs_against_the_real_server(
    example: Path, server_house: ServerHouse, tmp_path: Path
) -> None:
    account = server_house.enroll()
    variables = {
        "IMAGEHOST_BASE_URL": server_house.base_url,
        "IMAGEHOST_TOKEN": account.token,
        "PASSWORD": PASSWORD,
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == promised(example.read_text(encoding="utf-8"))
