"""The command `imagehost adopt`, and what the commands say about data of another installation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from imagehost_core import ImageHost, Settings
from imagehost_core.errors import InstallationError
from imagehost_core.installation import RECORD_NAME
from imagehost_core.settings import RenderingSettings
from imagehost_core.testing import make_image, shared_executor
from imagehost_server.cli.bootstrap import write_sample
from imagehost_server.cli.main import main

SETTINGS = Settings(rendering=RenderingSettings(processes=1))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a host with an image, open nowhere."""
    with ImageHost.open(tmp_path / "data", settings=SETTINGS, executor=shared_executor()) as host:
        host.upload(make_image(40, 30), owner="admin")
    return tmp_path / "data"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)), env={"IMAGEHOST_RENDERING_PROCESSES": "1"})


def test_every_command_refuses_images_without_a_record_until_they_are_adopted(data: Path) -> None:
    (data / "images" / RECORD_NAME).unlink()
    for command in (
        ("serve", "--port", 0),
        ("fsck", "--repair"),
        ("gc",),
        ("users", "list"),
        ("backup", "x"),
    ):
        result = run(*command, "--data", data)
        assert result.exit_code != 0
        assert "imagehost adopt" in result.output
        assert InstallationError.default_message in result.output
    assert len(list((data / "images").rglob("master"))) == 1
    result = run("adopt", "--data", data)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.output.startswith(f"Adopted {data} as installation ")
    assert run("fsck", "--data", data).exit_code == 0


def test_a_directory_of_the_first_start_gets_its_lost_record_again(data: Path) -> None:
    record = (data / RECORD_NAME).read_bytes()
    (data / RECORD_NAME).unlink()
    write_sample(data)
    assert run("fsck", "--data", data).exit_code == 0
    assert (data / RECORD_NAME).read_bytes() == record


def test_a_used_directory_without_a_record_but_with_a_file_of_others_is_refused_until_it_is_adopted(
    data: Path,
) -> None:
    (data / RECORD_NAME).unlink()
    (data / "notes.txt").touch()
    result = run("fsck", "--data", data)
    assert result.exit_code != 0
    assert "contains notes.txt" in result.stderr
    assert "`imagehost adopt` keeps it" in result.stderr
    assert run("adopt", "--data", data).exit_code == 0
    assert run("fsck", "--data", data).exit_code == 0


@pytest.mark.parametrize("path", [RECORD_NAME, f"images/{RECORD_NAME}"])
def test_a_damaged_record_is_refused_with_what_to_do_and_that_helps(data: Path, path: str) -> None:
    (data / path).write_bytes(b'{"id":')
    for command in ("fsck", "adopt"):
        result = run(command, "--data", data)
        assert result.exit_code != 0
        assert "remove it, and `imagehost adopt` writes another" in result.stderr
        assert InstallationError.default_message in result.stderr
    (data / path).unlink()
    assert run("adopt", "--data", data).exit_code == 0
    assert run("fsck", "--data", data).exit_code == 0


def test_the_result_of_an_adoption_is_one_json_object(data: Path) -> None:
    record = json.loads((data / RECORD_NAME).read_bytes())
    values = json.loads(run("adopt", "--data", data, "--json").stdout)
    assert values == {
        "installation": record["id"],
        "incarnation": record["incarnation"],
        "images": 1,
        "missing": 0,
        "unrecorded": 0,
    }


def test_an_adoption_of_an_empty_directory_creates_nothing(tmp_path: Path) -> None:
    assert run("adopt", "--data", tmp_path).exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_a_database_without_the_images_of_the_store_is_adopted_by_force_only(data: Path) -> None:
    (data / "images").rename(data / "staging" / "away")
    result = run("adopt", "--data", data)
    assert (result.exit_code, "--force" in result.stderr) == (1, True)
    assert "Without files: 1 image" in run("adopt", "--data", data, "--force").output


def test_a_host_moves_by_a_backup_and_a_restore(data: Path, tmp_path: Path) -> None:
    full, last, target = tmp_path / "full", tmp_path / "last", tmp_path / "target"
    assert run("backup", full, "--data", data).exit_code == 0
    result = run("backup", last, "--data", data, "--since", full, "--move")
    assert (result.exit_code, "imagehost adopt" in result.stderr) == (0, True)
    assert "is moved" in run("users", "create", "anna", "--data", data).output
    assert run("restore", full, last, "--data", target).exit_code == 0
    assert run("users", "create", "anna", "--data", target).exit_code == 0
    assert run("adopt", "--data", data).exit_code == 0
    assert run("users", "create", "anna", "--data", data).exit_code == 0
