"""The questions of docs/operate.md about a log, asked with jq of the log of a server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, environment, running

PAGE = Path(__file__).parents[2] / "docs" / "operate.md"
VARIABLES = {"IMAGEHOST_LOG_FORMAT": "json"}
LOG_SECONDS = 30.0


def commands() -> list[str]:
    """Return the commands of the section."""
    section = PAGE.read_text(encoding="utf-8").partition("### Who did what")[2].partition("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def answers(log: Path, **variables: str) -> list[list[list[str]]]:
    """Return the columns of each answer, without the time."""
    answers = []
    for command in commands():
        output = subprocess.run(
            ["sh", "-c", command.replace("server.log", str(log))],
            env={**os.environ, **variables},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        answers.append([line.split("\t") for line in output.splitlines()])
    return answers


def run(server: RunningServer, *arguments: str) -> str:
    """Run a command of the operator."""
    return subprocess.run(
        [sys.executable, "-m", "imagehost_server", *arguments, "--data", str(server.data)],
        env={**environment({}), "SUDO_USER": "olga"},
        capture_output=True,
        check=True,
        text=True,
    ).stdout


def wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + LOG_SECONDS
    while text not in log.read_text(encoding="utf-8"):
        assert time.monotonic() < deadline, text
        time.sleep(0.1)


@pytest.mark.skipif(shutil.which("jq") is None, reason="NOT TESTED: the questions about a log, without jq")
def test_five_questions_are_answered_from_the_log(tmp_path: Path) -> None:
    with running(tmp_path / "data", variables=VARIABLES) as server:
        run(server, "users", "create", "anna")
        token = run(server, "keys", "create", "--user", "anna").strip()
        key = run(server, "keys", "list", "--user", "anna").split("\t")[0]
        client = httpx2.Client(base_url=server.base_url, headers={"authorization": f"Bearer {token}"})
        with client:
            stored = client.post("/upload", files={"image": make_image()}).json()["data"]["id"]
            others = client.post(
                "/upload",
                files=[("files[]", ("b.png", make_image(seed=2))), ("files[]", ("no te.txt", b"text"))],
            ).json()["data"]["images"]
            assert client.post(
                "/upload", files={"image": ("c.png", make_image())}, data={"quality": "0"}
            ).is_error
            client.request("DELETE", "/images", json={"image_ids": [stored, others[0]["id"]]})
            assert client.get("/images?per_page=101").is_error
        run(server, "users", "update", "anna", "--suspend")
        wait_for(server.log, "account changed")
        log = server.log
    stored_by, by_key, failed, refused, changes = (
        [row[1:] for row in answer] for answer in answers(log, IMAGE=stored, KEY=key)
    )
    assert stored_by == [["anna", key, "POST", "/v1/upload"], ["anna", key, "DELETE", "/v1/images"]]
    assert [row[1:] for row in by_key] == [
        ["POST", "/v1/upload", "200"],
        ["POST", "/v1/upload", "200"],
        ["POST", "/v1/upload", "422"],
        ["DELETE", "/v1/images", "200"],
        ["GET", "/v1/images", "400"],
    ]
    assert [row[:4] for row in failed] == [
        ["anna", "no te.txt", "4", "UNSUPPORTED_MEDIA_TYPE"],
        ["anna", "c.png", str(len(make_image())), "VALIDATION_ERROR"],
    ]
    assert "quality" in failed[1][4]
    assert sorted(refused) == [["anna", "BAD_REQUEST", "per_page"], ["anna", "VALIDATION_ERROR", "quality"]]
    assert [row for row in changes if row[0] != "admin" and row[1] == "anna"] == [
        ["account created", "anna", "", "olga", "users create"],
        ["key created", "anna", key, "olga", "keys create"],
        ["account changed", "anna", "", "olga", "users update"],
    ]
