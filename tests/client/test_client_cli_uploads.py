"""The command line: sources and options of `upload`, watched folders, errors and their exit statuses."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import PIL.ExifTags
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.conftest import Run, Terminal, end_sessions, stored_images

from imagehost_client import Client, errors
from imagehost_client._cli import uploads
from imagehost_client._cli.albums import album_id_in
from imagehost_client._cli.connection import CommandContext
from imagehost_client._cli.errors import CONTENTS, ExitStatus, batch_status, describe_content, exit_status
from imagehost_client._cli.folder_watch import FolderWatch
from imagehost_client._cli.output import copy_to_clipboard
from imagehost_client.testing import FakeImageHost, make_png


def names(host: FakeImageHost) -> list[str]:
    return sorted(image.original_filename for image in stored_images(host))


@pytest.mark.parametrize(("number", "requests"), [(1, 3), (2, 2), (20, 1)])
def test_files_per_request_are_sent_together(
    number: int, requests: int, run: Run, host: FakeImageHost, tmp_path: Path
) -> None:
    for width in (1, 2, 3):
        (tmp_path / f"{width}.png").write_bytes(make_png(width, 1))
    status, lines, _ = run("upload", tmp_path, "--files-per-request", number)
    assert (status, len(lines), host.requests) == (0, 3, [("POST", "/upload")] * requests)
    assert run("upload", tmp_path, "--files-per-request", 21)[0] == 2


def test_folders_patterns_and_standard_input_are_uploaded_together(
    run: Run, files: Path, host: FakeImageHost
) -> None:
    (files / "sub").mkdir()
    (files / "sub" / "c.png").write_bytes(make_png())
    status, lines, _ = run("upload", files / "sub", f"{files}/*.gif", "-", stdin=make_png())
    assert (status, len(lines), names(host)) == (0, 3, ["b.gif", "c.png", "stdin"])


def test_upload_says_how_many_files_publish_a_place_unless_that_was_decided(run: Run, tmp_path: Path) -> None:
    photo, other = tmp_path / "a.jpg", tmp_path / "b.png"
    exif, file = PIL.Image.Exif(), io.BytesIO()
    exif.get_ifd(PIL.ExifTags.IFD.GPSInfo)[PIL.ExifTags.GPS.GPSLatitude] = (48.0, 51.0, 30.0)
    PIL.Image.new("RGB", (8, 8)).save(file, "JPEG", exif=exif)
    photo.write_bytes(file.getvalue())
    other.write_bytes(make_png())
    messages = run("upload", photo, other)[2]
    assert "1 of 2 files tell in EXIF where they were taken" in messages
    assert "EXIF" not in run("upload", other)[2]
    for option in ("--keep-exif", "--remove-exif"):
        status, _, messages = run("upload", photo, option)
        assert (status, "EXIF" in messages) == (0, False)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_named_pipe_is_uploaded_with_all_its_bytes(run: Run, host: FakeImageHost, tmp_path: Path) -> None:
    pipe, content = tmp_path / "pipe.png", make_png(7, 5)
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,), daemon=True)
    writer.start()
    status, lines, _ = run("upload", pipe, "--json", "--keep-format")
    record = json.loads(lines[0])
    assert (status, record["sha256"]) == (0, hashlib.sha256(content).hexdigest())
    writer.join(10)


def test_standard_input_must_not_be_a_terminal(run_on_terminal: Run) -> None:
    status, _, messages = run_on_terminal("upload", "-")
    assert (status, "received a terminal" in messages) == (2, True)


def test_what_upload_prints_is_what_rm_accepts(run: Run, files: Path, host: FakeImageHost) -> None:
    lines = run("upload", files)[1]
    assert run("rm", *lines)[0] == 0
    assert stored_images(host) == []


@pytest.mark.usefixtures("new_host")
def test_an_album_is_named_by_id_name_or_url_and_made_when_missing(
    run: Run, files: Path, host: FakeImageHost
) -> None:
    def upload_to(album: str) -> int | None:
        line = run("upload", files / "a.png", "--json", "--album", album)[1][0]
        number: int | None = json.loads(line)["album_id"]
        return number

    assert upload_to("Cats") == upload_to("Cats") == upload_to("1") == 1
    assert upload_to("https://imagehost.test/a/1") == upload_to("https://imagehost.test/v1/albums/1") == 1
    assert upload_to("Dogs") == 2
    assert len(run("ls", "--album", "Cats")[1]) == 5
    assert run("ls", "--album", "Birds")[0] == 4
    assert run("albums", "show", "Birds")[0] == 4
    assert run("albums", "show", "https://imagehost.test/i/1")[0] == 2
    assert run("albums", "rm", "Dogs")[1] == ["2"]
    run("albums", "create", "Cats")
    status, _, messages = run("upload", files / "a.png", "--album", "Cats")
    assert (status, "1, 3" in messages or "3, 1" in messages) == (2, True)


@pytest.mark.parametrize(
    ("text", "album_id"),
    [("7", 7), ("Cats", None), ("https://h/a/7", 7), ("https://h/v1/albums/7/", 7), ("a/7", None)],
)
def test_numbers_and_urls_of_albums_are_ids(text: str, album_id: int | None) -> None:
    assert album_id_in(text) == album_id


def test_the_format_of_an_output_file_follows_from_its_name(
    run: Run, files: Path, host: FakeImageHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = run("upload", files / "a.png")[1][0]
    seen: list[str] = []
    handle = host.handle_request

    def record(request: httpx2.Request) -> httpx2.Response:
        seen.append(str(request.url))
        return handle(request)

    monkeypatch.setattr(host, "handle_request", record)
    for name in ("x.avif", "x.JPEG", "x.webp", "x.gif", "x"):
        assert run("get", image, "-o", files / name)[0] == 0
    assert [url.partition("?")[2] for url in seen] == ["fm=avif", "fm=jpg", "fm=webp", "", ""]
    run("get", image, "-o", files / "x.avif", "--format", "png")
    assert seen[-1].endswith("?fm=png")


def test_several_images_are_written_to_a_directory(run: Run, files: Path, host: FakeImageHost) -> None:
    first = json.loads(run("upload", files / "a.png", "--json")[1][0])
    status, _, messages = run("get", first["url"], "missing", "-o", files)
    assert (status, (files / f"{first['id']}.webp").read_bytes()) == (6, host.content(first["id"]))
    assert "missing: " in messages
    assert run("get", "missing", "-o", files / "none")[0] == 4
    assert not (files / "none").exists()


def test_an_output_file_is_replaced_completely_or_not_at_all(
    run: Run, files: Path, host: FakeImageHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = run("upload", files / "a.png", "--keep-format")[1][0]
    (files / "x.png").write_bytes(b"old")
    (files / "x.png").chmod(0o640)
    before = sorted(files.iterdir())

    def fail(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        assert run("get", image, "-o", files / "x.png")[0] == 1
    assert ((files / "x.png").read_bytes(), sorted(files.iterdir())) == (b"old", before)
    assert run("get", image, "-o", files / "x.png")[0] == 0
    assert (files / "x.png").read_bytes() == host.core.render(stored_images(host)[0], "fm=png").data
    assert (files / "x.png").stat().st_mode & 0o777 == 0o640
    assert run("get", image, "-o", "/dev/null")[0] == 0


ERRORS: dict[int, ExitStatus] = {
    400: ExitStatus.FAILURE,
    401: ExitStatus.AUTHENTICATION,
    403: ExitStatus.AUTHENTICATION,
    404: ExitStatus.NOT_FOUND,
    409: ExitStatus.FAILURE,
    413: ExitStatus.LIMIT,
    415: ExitStatus.FAILURE,
    422: ExitStatus.FAILURE,
    429: ExitStatus.LIMIT,
    500: ExitStatus.FAILURE,
    503: ExitStatus.UNAVAILABLE,
    507: ExitStatus.LIMIT,
}
"""The exit status of a command whose only request fails, by HTTP status."""


@pytest.mark.parametrize(("status", "expected"), ERRORS.items())
def test_the_exit_status_follows_from_the_error(
    status: int, expected: ExitStatus, run: Run, host: FakeImageHost, files: Path
) -> None:
    host.fail(status, times=9, retry_after=0)
    assert run("--retries", "0", "account")[0] == expected
    assert run("--retries", "0", "upload", files / "a.png")[0] == expected


def test_the_exit_status_of_a_host_that_is_not_reached(run: Run, host: FakeImageHost) -> None:
    host.drop(times=9)
    status, _, messages = run("ls")
    assert (status, "check that the host is running" in messages, host.base_url in messages) == (
        7,
        True,
        True,
    )
    assert "IMAGEHOST_BASE_URL" in messages


def test_every_public_error_has_an_exit_status() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    found = {
        kind.__name__: exit_status(kind("x")) for kind in kinds if issubclass(kind, errors.ImageHostError)
    }
    assert found["APITimeoutError"] is found["UnavailableError"] is ExitStatus.UNAVAILABLE
    assert found["ConfigurationError"] is ExitStatus.USAGE
    assert found["PayloadTooLargeError"] is ExitStatus.LIMIT
    assert found["ServerError"] is found["ChecksumError"] is ExitStatus.FAILURE


@given(st.lists(st.sampled_from([status for status in ExitStatus if status])), st.integers(0, 3))
def test_a_batch_has_the_status_of_its_failures_unless_a_part_succeeded(
    failures: list[ExitStatus], succeeded: int
) -> None:
    status = batch_status(failures, succeeded)
    assert (status is ExitStatus.SUCCESS) == (not failures)
    if failures and succeeded:
        assert status is ExitStatus.PARTIAL
    if failures and not succeeded and len(set(failures)) == 1:
        assert status is failures[0]


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "the token is from IMAGEHOST_TOKEN"),
        (403, "imagehost-client login"),
        (507, "imagehost-client account"),
    ],
)
def test_an_error_that_stops_a_batch_is_explained_once(
    status: int, hint: str, run: Run, host: FakeImageHost, files: Path
) -> None:
    host.fail(status, times=9)
    code, lines, messages = run("upload", files / "a.png", files / "b.gif", "--parallel", 1)
    assert (code, lines) == (exit_status(errors.BY_STATUS[status]()), [])
    assert messages.count(hint) == messages.count("failure planned by the test") == 1


def test_a_missing_token_is_explained(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IMAGEHOST_TOKEN")
    status, _, messages = run("ls")
    assert (status, "there is no token: run `imagehost-client login`" in messages) == (3, True)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        *((b"\0" * offset + mark + b"\xff" * 40, text) for offset, mark, text in CONTENTS),
        (b"", "empty"),
        (b"Hello", "a text"),
        (b"\n <!DOCTYPE html>", "an HTML or XML document"),
        (b"\xff\xfe\x80", None),
    ],
)
def test_the_content_of_a_file_that_is_no_image_is_described(
    content: bytes, text: str | None, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(content)
    assert describe_content(tmp_path / "file") == text
    assert describe_content(tmp_path / "missing") is None


def test_a_file_that_is_no_image_is_reported_with_what_it_is(run: Run, tmp_path: Path) -> None:
    (tmp_path / "photo.heic").write_bytes(b"\0\0\0\x18ftypheic" + b"\0" * 40)
    status, _, messages = run("upload", tmp_path / "photo.heic")
    assert (status, "; the file is a HEIC photo; export it as JPEG" in messages) == (1, True)
    assert "stdin: The file format is not supported" in run("upload", "-", stdin=b"%PDF-1.7")[2]


def test_lines_are_copied_to_the_clipboard(run: Run, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []

    def copy(text: str) -> bool:
        copied.append(text)
        return len(copied) == 1

    monkeypatch.setattr(uploads, "copy_to_clipboard", copy)
    lines = run("upload", files, "--copy", "--markdown")[1]
    assert copied == ["\n".join(lines)]
    status, _, messages = run("upload", files / "a.png", "--copy")
    assert (status, "found none" in messages) == (0, True)


@pytest.mark.parametrize(
    ("platform", "variables", "program"),
    [
        ("darwin", {}, "pbcopy"),
        ("win32", {}, "clip"),
        ("linux", {"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}, "wl-copy"),
        ("linux", {"DISPLAY": ":0"}, "xclip"),
    ],
)
def test_a_program_of_the_system_copies(
    platform: str, variables: dict[str, str], program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, bytes]] = []
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr(
        "subprocess.run",
        lambda command, *, input, **_: started.append((command[0], input)),  # noqa: A006
    )
    assert copy_to_clipboard("ü", environ=variables, platform=platform)
    assert started == [(program, "ü".encode())]


def test_without_a_program_the_terminal_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise subprocess.CalledProcessError(1, "xclip")

    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr("subprocess.run", fail)
    assert not copy_to_clipboard("a", environ={"DISPLAY": ":0"}, platform="linux")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    assert copy_to_clipboard("a", environ={"DISPLAY": ":0", "TERM": "xterm"}, platform="linux")
    assert terminal.getvalue() == f"\x1b]52;c;{base64.b64encode(b'a').decode()}\x07"
    assert not copy_to_clipboard("a", environ={"TERM": "dumb"}, platform="linux")


def test_a_file_is_new_when_two_looks_find_it_unchanged(tmp_path: Path) -> None:
    folder = FolderWatch((tmp_path,))
    (tmp_path / "old.png").write_bytes(b"old")
    folder.ignore_existing()
    assert (folder.look(), folder.look()) == ([], [])
    (tmp_path / "new.png").write_bytes(b"par")
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "note.txt").write_bytes(b"text")
    assert folder.look() == []
    (tmp_path / "new.png").write_bytes(b"partly written")
    assert folder.look() == []
    assert folder.look() == [tmp_path / "new.png"]
    assert folder.look() == []
    folder.retry([tmp_path / "new.png"])
    assert folder.look() == [tmp_path / "new.png"]
    (tmp_path / "new.png").write_bytes(b"changed")
    (tmp_path / "old.png").unlink()
    assert (folder.look(), folder.look()) == ([], [tmp_path / "new.png"])


def steps(*actions: Callable[[], Any]) -> Callable[[float], None]:
    """Return a function to wait with, which runs one action at each call, and then interrupts."""
    remaining: Iterator[Callable[[], Any]] = iter(actions)

    def wait(_: float) -> None:
        action = next(remaining, None)
        if action is None:
            raise KeyboardInterrupt
        action()

    return wait


def test_a_watched_folder_uploads_what_is_added_until_an_interrupt(
    run: Run, files: Path, host: FakeImageHost, command: CommandContext
) -> None:
    command.wait = steps(lambda: (files / "c.png").write_bytes(make_png()), list, list)
    status, lines, messages = run("upload", "--watch", files)
    assert (status, len(lines), names(host)) == (130, 1, ["c.png"])
    assert "interrupted: 1 of 1 files stored" in messages
    command.wait = steps(list, list)
    status, lines, _ = run("upload", "--watch", "--existing", files)
    assert (status, len(lines)) == (130, 3)


def test_a_watched_folder_tries_again_after_an_outage_and_stops_at_a_refused_token(
    run: Run, files: Path, host: FakeImageHost, command: CommandContext
) -> None:
    command.wait = steps(lambda: host.drop(times=9), list, list, list, list)
    status, lines, messages = run("upload", "--watch", "--existing", files / ".", "--parallel", 1)
    assert (status, len(lines), "stopped: The connection failed" in messages) == (130, 2, True)
    command.wait = steps(lambda: end_sessions(host), list, list)
    status, lines, messages = run("upload", "--watch", "--existing", files)
    assert (status, lines, "Authentication failed" in messages) == (3, [], True)


@pytest.fixture
def paced_host(new_host: FakeImageHost, command: CommandContext) -> FakeImageHost:
    """A host whose clock advances in place of the waits of commands."""

    def create(**options: Any) -> Client:
        with new_host.patch():
            return Client(**options)

    command.create_client = create
    return new_host


def test_a_command_says_once_that_it_waits(run: Run, paced_host: FakeImageHost, files: Path) -> None:
    paced_host.fail(429, retry_after=30, times=2)
    assert run("ls")[2] == "imagehost-client: waiting 30 s for the host (status 429)\n"
    paced_host.fail(503, retry_after=20, times=4, path="/upload")
    status, lines, messages = run("upload", files, "--retries", "5")
    assert (status, len(lines)) == (0, 2)
    assert messages.count("imagehost-client: waiting 20 s for the host (status 503)\n") == 1


def test_the_progress_bar_shows_a_wait(
    run_on_terminal: Run, paced_host: FakeImageHost, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(
        "rich.progress.Progress.update", lambda _bar, _task, **fields: shown.append(fields["description"])
    )
    paced_host.fail(503, retry_after=20, path="/upload")
    assert run_on_terminal("upload", files, "--parallel", "1", "--files-per-request", "1")[0] == 0
    assert "0 of 2 stored, waiting" in shown
    assert shown[-1] == "2 of 2 stored"


def test_an_upload_of_several_files_has_a_journal_until_it_has_succeeded(
    run: Run, host: FakeImageHost, command: CommandContext, files: Path
) -> None:
    host.fail(507)
    assert run("upload", files, "--parallel", "1", "--files-per-request", "1")[0] == 5
    (journal,) = command.journals.iterdir()
    old = command.journals / "old"
    old.write_text("")
    os.utime(old, (0, 0))
    host.requests.clear()
    assert run("upload", files, "--parallel", "1", "--files-per-request", "1")[0] == 0
    assert host.requests == [("POST", "/upload")] * 2
    assert not journal.exists()
    assert not old.exists()
    for options in (["--no-journal"], ["--journal", files / "named"]):
        host.fail(507)
        assert run("upload", files / "a.png", files / "b.gif", "--parallel", "1", *options)[0] == 5
        assert not list(command.journals.iterdir())


def test_an_upload_without_a_place_for_its_journal_succeeds(
    run: Run, command: CommandContext, files: Path
) -> None:
    command.journals.write_text("a file")
    status, lines, messages = run("upload", files)
    assert (status, len(lines)) == (0, 2)
    assert messages.startswith("imagehost-client: no journal is written: ")
