"""curl, and the two shell scripts that use it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.outside.conftest import Download, OutsideClient, Run, Start

from imagehost_server.testing import RunningServer

DESKTOP = ("flameshot", "xvfb-run", "xauth", "dbus-run-session", "xclip")
"""Flameshot, and what it needs where there is no desktop."""


@pytest.fixture(scope="module")
def version() -> str:
    try:
        process = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True)
    except OSError:
        pytest.skip("NOT TESTED with curl: it is not installed")
    return process.stdout.split()[1]


def test_curl_uploads_a_file(
    outside_client: Start, version: str, run: Run, tls_server: RunningServer, jpeg: Path
) -> None:
    client = outside_client("curl", version)
    authorization = f"Authorization: Bearer {tls_server.token}"
    upload = ("--form", f"image=@{jpeg}", "--header", authorization, f"{tls_server.base_url}/upload")
    output = run("curl", "--silent", "--show-error", *upload)
    client.require_upload(json.loads(output)["data"]["url"], (640, 480))


def test_the_curl_script_prints_the_url_of_each_file(
    outside_client: Start, version: str, run: Run, download: Download, png: Path, jpeg: Path
) -> None:
    client = outside_client("curl.sh", f"curl {version}")
    script = jpeg.with_name("curl.sh")
    script.write_text(download("curl.sh"), encoding="utf-8")
    first, second = run("sh", script, png, jpeg).splitlines()
    assert client.require_upload(first) != client.require_upload(second, (640, 480))


@pytest.mark.parametrize(
    "name", ['"quoted".png', "back\\slash.png", "a;type=text.png", "a,b.png", "$HOME.png"]
)
def test_the_curl_script_uploads_files_of_any_name(
    unlisted_client: OutsideClient,
    version: str,
    run: Run,
    download: Download,
    png: Path,
    name: str,
) -> None:
    script, image = png.with_name("curl.sh"), png.with_name(name)
    script.write_text(download("curl.sh"), encoding="utf-8")
    image.write_bytes(png.read_bytes())
    unlisted_client.require_upload(run("sh", script, image).strip())


def test_the_curl_script_reports_what_could_not_be_uploaded(
    version: str, variables: Mapping[str, str], download: Download, png: Path
) -> None:
    script, text = png.with_name("curl.sh"), png.with_name("notes.txt")
    script.write_text(download("curl.sh"), encoding="utf-8")
    text.write_text("no image", encoding="utf-8")
    command = ["sh", str(script), str(text), str(png.with_name("missing.png")), str(png)]
    process = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    assert process.returncode == 1
    assert len(process.stdout.splitlines()) == 1
    assert "UNSUPPORTED_MEDIA_TYPE" in process.stderr
    assert "missing.png" in process.stderr


def test_the_flameshot_script_uploads_the_screenshot_and_copies_its_url(
    outside_client: Start, run: Run, download: Download, tmp_path: Path
) -> None:
    missing = [name for name in DESKTOP if shutil.which(name) is None]
    if missing:
        pytest.skip(f"NOT TESTED with Flameshot: {', '.join(missing)} not installed")
    client = outside_client("flameshot.sh", run("flameshot", "--version").split()[1])
    (tmp_path / "flameshot.sh").write_text(download("flameshot.sh"), encoding="utf-8")
    command = "sh flameshot.sh full 2>messages && xclip -out -selection clipboard"
    display = ("xvfb-run", "--auto-servernum", "--server-args=-screen 0 800x600x24")
    shown, copied = run(*display, "dbus-run-session", "--", "sh", "-c", command, stderr=None).splitlines()
    client.require_upload(shown, (800, 600))
    assert copied == shown


def test_the_flameshot_script_uploads_nothing_without_a_screenshot(
    version: str, variables: Mapping[str, str], download: Download, tmp_path: Path
) -> None:
    stand_in = tmp_path / "flameshot"
    stand_in.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    stand_in.chmod(0o755)
    script = tmp_path / "flameshot.sh"
    script.write_text(download("flameshot.sh"), encoding="utf-8")
    path = f"{tmp_path}:{variables['PATH']}"
    process = subprocess.run(
        ["sh", str(script)], capture_output=True, text=True, env={**variables, "PATH": path}, check=False
    )
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr == "no screenshot was taken\n"
