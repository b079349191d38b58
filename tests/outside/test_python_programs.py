"""Programs from PyPI: sharex-cli with our file, and lskyup."""

from __future__ import annotations

import os
import pty
from pathlib import Path

import httpx2
import pytest
from tests.outside.conftest import PYPI, Download, Run, Start

from imagehost_core import ImageHost
from imagehost_server.auth.cookies import SESSION_COOKIE, csrf_token
from imagehost_server.testing import RunningServer


@pytest.fixture
def download_from_page(tls_server: RunningServer, anonymous: httpx2.Client) -> Download:
    """Returns a configuration file as the form of the page for settings makes it."""
    with ImageHost.open(tls_server.data) as host:
        token = host.sessions.create(host.accounts.get("admin")).token

    def download_file(name: str) -> str:
        response = anonymous.post(
            f"/settings/integrations/{name}",
            headers={"Cookie": f"{SESSION_COOKIE}={token}"},
            data={"csrf_token": csrf_token(token)},
        )
        return response.raise_for_status().text

    return download_file


@pytest.mark.parametrize("source", ["download", "download_from_page"])
def test_sharex_cli_uploads_with_our_file(
    outside_client: Start,
    python_programs: Path,
    request: pytest.FixtureRequest,
    run: Run,
    png: Path,
    source: str,
) -> None:
    file: Download = request.getfixturevalue(source)
    client = outside_client("sharex-cli with sharex.sxcu", PYPI["sharex-cli"])
    config = png.with_name("sharex.sxcu")
    config.write_text(file("sharex.sxcu"), encoding="utf-8")
    program = python_programs / "sharex"
    run(program, "--config", config)
    # Without a terminal as its input, the program uploads the input as text.
    leader, terminal = pty.openpty()
    try:
        output = run(program, "--no-launch", "--no-copy", png, stdin=terminal, env={"COLUMNS": "200"})
    finally:
        os.close(terminal)
        os.close(leader)
    client.require_upload(output.strip().splitlines()[-1])


def test_lskyup_is_configured_and_uploads(
    outside_client: Start, python_programs: Path, tls_server: RunningServer, run: Run, png: Path, jpeg: Path
) -> None:
    client = outside_client("lskyup", PYPI["lskyup"])
    program = python_programs / "lskyup"
    answers = f"{tls_server.origin}/api/v1\nBearer {tls_server.token}\n"
    assert "设置成功" in run(program, "config", input=answers)  # "configured"
    urls = [line for line in run(program, "upload", png, jpeg).splitlines() if line.startswith("https://")]
    client.require_upload(urls[0])
    client.require_upload(urls[1], (640, 480))
    assert "User name: admin" in run(program, "--user")
