"""The command line: output and exit statuses."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import httpx2
import pytest
from click.testing import CliRunner
from tests.client.conftest import Run, delete_images, is_valid, renewed, stored_images
from tests.waiting import PATIENCE

from imagehost_client import Client
from imagehost_client._cli.app import cli
from imagehost_client._cli.connection import CommandContext
from imagehost_client._cli.errors import DESCRIPTIONS
from imagehost_client._cli.options import GLOBAL_OPTIONS
from imagehost_client._cli.output import Console
from imagehost_client.testing import FakeImageHost, make_png
from imagehost_core.webhooks import Attempt


def test_upload_prints_one_url_per_line(run: Run, files: Path, host: FakeImageHost) -> None:
    options = ("--parallel", 1, "--keep-format")
    status, lines, messages = run("upload", files / "b.gif", files / "a.png", *options)
    assert (status, messages) == (0, "")
    assert [line.rsplit(".")[-1] for line in lines] == ["gif", "png"]
    assert lines == [str(image.url) for image in stored_images(host)]


@pytest.mark.parametrize(
    ("name", "begin"),
    [("markdown", "!["), ("html", "<img"), ("bbcode", "[img]"), ("json", "{")],
)
def test_upload_prints_the_requested_markup(name: str, begin: str, run: Run, files: Path) -> None:
    _, lines, _ = run("upload", files, f"--{name}")
    assert len(lines) == 2
    assert all(line.startswith(begin) for line in lines)
    if name == "json":
        assert {json.loads(line)["width"] for line in lines} == {1, 3}


@pytest.mark.parametrize("name", ["upload", "ls", "get", "url"])
def test_a_format_is_that_of_an_image_in_every_command(name: str, run: Run, files: Path) -> None:
    (url,) = run("upload", files / "a.png")[1]
    argument = {"upload": files / "a.png", "ls": "--public"}.get(name, url)
    output = ("-o", files / "out") if name == "get" else ()
    assert run(name, argument, "--format", "webp", *output)[0] == 0
    assert "'markdown' is not one of" in run(name, argument, "--format", "markdown", *output)[2]


def test_lines_and_failures_of_an_upload_are_in_the_order_of_its_files(
    run: Run, host: FakeImageHost, files: Path
) -> None:
    names = [f"{number}.png" for number in range(8)]
    for width, name in enumerate(names, 1):
        (files / name).write_bytes(make_png(width, 1) if width != 4 else b"no image")
    host.fail(503, retry_after=0, path="/upload")
    options = ("--files-per-request", "1", "--parallel", "3", "--json")
    status, lines, messages = run("upload", *[files / name for name in names], *options)
    assert (status, [json.loads(line)["width"] for line in lines]) == (6, [1, 2, 3, 5, 6, 7, 8])
    assert messages.count("3.png") == 1


@pytest.mark.usefixtures("new_host")
def test_upload_accepts_options_and_standard_input(run: Run, files: Path, host: FakeImageHost) -> None:
    album = run("albums", "create", "A")[1][0]
    options = shlex.split(
        f"--album {album} --description Text --quality 80 --format webp "
        "--remove-exif --auto-rename --private --quiet"
    )
    assert run("upload", files / "a.png", *options)[0] == 0
    (image,) = stored_images(host)
    assert (image.album_id, image.description, image.is_public) == (1, "Text", False)
    assert run("upload", "-", "--name", "p.png", stdin=make_png())[0] == 0
    assert run("upload", files / "a.png", "--name", "q.png", "--keep-format", "--checksum")[0] == 0
    assert [image.original_filename for image in stored_images(host)] == ["a.png", "p.png", "q.png"]
    status, _, messages = run("upload", files / "a.png", files / "b.gif", "--name", "x")
    assert (status, "--name" in messages) == (2, True)


def test_upload_reports_failed_files_and_prints_the_others(run: Run, files: Path) -> None:
    (files / "c.txt").write_text("no image")
    (files / "d.txt").write_text("no image")
    with (files / "d.txt").open("rb") as stream:
        assert stream.read()
    status, lines, messages = run("upload", files / "a.png", files / "c.txt", files / "missing.png")
    assert (status, len(lines)) == (6, 1)
    assert "c.txt: The file format is not supported" in messages
    assert f"{files / 'missing.png'}: No such file or directory\n" in messages
    assert messages.endswith(
        "2 of 3 files failed: 1 × No such file or directory; 1 × The file format is not supported\n"
    )


def test_upload_names_the_files_that_were_not_attempted_and_the_reason(
    run: Run, files: Path, host: FakeImageHost
) -> None:
    host.fail(507)
    status, lines, messages = run("upload", files, "--parallel", "1")
    assert (status, lines) == (5, [])
    assert messages.count("There is not enough storage space: failure planned by the test") == 1
    assert messages.splitlines()[1:3] == [
        f"imagehost-client: {files / 'b.gif'}: not attempted",
        "imagehost-client: 2 of 2 files failed: 1 × There is not enough storage space; 1 × not attempted",
    ]


def test_upload_prints_the_url_of_a_file_before_the_next_one_is_stored(
    host: FakeImageHost, files: Path, command: CommandContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = threading.Event()
    waits: list[bool] = []

    class Output(io.StringIO):
        def flush(self) -> None:
            printed.set()

    class WaitingHost(httpx2.BaseTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            if host.requests:
                waits.append(printed.wait(30))
            return host.handle_request(request)

    command.create_client = lambda **options: Client(**options, transport=WaitingHost())
    monkeypatch.setattr(sys, "stdout", Output())
    with pytest.raises(SystemExit) as end:
        cli.main(["upload", str(files), "--parallel", "1"], obj=command)
    assert (end.value.code, waits) == (0, [True])


def test_upload_of_a_directory_without_images_is_reported(run: Run, tmp_path: Path) -> None:
    assert run("upload", tmp_path) == (
        1,
        [],
        "imagehost-client: no images found; folders are searched for JPEG, PNG, WebP, GIF\n",
    )


def test_upload_resumes_from_a_journal(run: Run, files: Path, host: FakeImageHost) -> None:
    first = run("upload", files, "--journal", files / "journal")[1]
    assert sorted(run("upload", files, "--journal", files / "journal")[1]) == sorted(first)
    assert len(stored_images(host)) == 2


def test_upload_with_a_journal_prints_no_url_that_the_host_does_not_confirm(
    run: Run, files: Path, host: FakeImageHost
) -> None:
    first = run("upload", files, "--journal", files / "journal")[1]
    host.drop(times=4)
    status, lines, messages = run("upload", files, "--journal", files / "journal")
    assert (status, lines, "2 of 2 files failed" in messages) == (7, [], True)
    host.fail(401)
    status, lines, messages = run("upload", files, "--journal", files / "journal")
    assert (status, lines, "Authentication failed" in messages) == (3, [], True)
    delete_images(host)
    status, lines, _ = run("upload", files, "--journal", files / "journal")
    assert (status, len(lines), set(lines) & set(first)) == (0, 2, set())
    (files / "other").write_text('{"journal": 1}\n')
    status, lines, messages = run("upload", files, "--journal", files / "other")
    assert (status, lines, "expected a journal of version 3" in messages) == (2, [], True)


def test_images_are_listed_printed_and_deleted(run: Run, files: Path) -> None:
    run("upload", files, "--keep-format")
    _, lines, _ = run("ls")
    assert [line.split("\t")[5] for line in lines] in (["b.gif", "a.png"], ["a.png", "b.gif"])
    assert len(run("ls", "--limit", "1")[1]) == 1
    image_id = json.loads(run("ls", "--json", "--limit", "1")[1][0])["id"]
    assert json.loads("\n".join(run("show", image_id)[1]))["id"] == image_id
    assert run("rm", image_id) == (0, [image_id], "")
    status, lines, messages = run("rm", image_id, lines[0].split("\t")[0], lines[1].split("\t")[0])
    assert (status, len(lines)) == (6, 1)
    assert "does not exist" in messages
    assert run("show", image_id)[0] == 4
    status, lines, messages = run("show", image_id, image_id)
    assert (status, lines, messages.count("does not exist")) == (4, [], 2)


@pytest.mark.parametrize(("reply", "status"), [("y\n", 0), ("YES\n", 0), ("\n", 1), ("no\n", 1), ("", 1)])
def test_deletion_requires_confirmation_on_a_terminal(
    reply: str, status: int, run_on_terminal: Run, files: Path, host: FakeImageHost
) -> None:
    run_on_terminal("upload", files / "a.png")
    (image_id,) = (image.id for image in stored_images(host))
    assert run_on_terminal("rm", image_id, stdin=reply)[0] == status
    assert len(stored_images(host)) == status
    if status:
        assert run_on_terminal("rm", image_id, "--yes")[0] == 0


@pytest.mark.parametrize(("count", "named"), [(1, "1 image?"), (2, "2 images?")])
def test_the_confirmation_of_a_deletion_has_the_number_of_images(
    count: int, named: str, run_on_terminal: Run
) -> None:
    messages = run_on_terminal("rm", *["0" * 16] * count, stdin="no\n")[2]
    assert f"Permanently delete {named}" in messages


@pytest.mark.parametrize(("count", "named"), [(1, ""), (2, "2 of 2 files failed")])
def test_a_failed_upload_reports_the_number_of_files(count: int, named: str, run: Run, files: Path) -> None:
    messages = run("upload", *[files / f"missing{number}.png" for number in range(count)])[2]
    assert named in messages
    assert ("failed: " in messages) == (count > 1)


def test_urls_are_printed(run: Run, files: Path, host: FakeImageHost) -> None:
    run("upload", files / "a.png", "--keep-format")
    (image_id,) = (image.id for image in stored_images(host))
    url = f"{host.cdn_url}/{image_id}"
    before = len(host.requests)
    assert run("url", image_id, "-W", 300, "-H", 200, "-q", 80, "--fit", "inside", "--format", "avif")[1] == [
        f"{url}?w=300&h=200&q=80&fit=inside&fm=avif"
    ]
    assert len(host.requests) == before
    assert run("url", image_id, "--srcset", "2,9")[1] == [f"{url}.png?w=2 2w, {url}.png?w=3 3w"]
    assert run("url", image_id, "--srcset", "2", "-H", 1)[1] == [f"{url}.png?w=2&h=1 2w"]
    assert run("url", image_id, "--picture", "2")[1][0].startswith("<picture>")
    assert "sig=" in run("url", image_id, "--signed", "60")[1][0]
    status, _, messages = run("url", image_id, "-W", 9000)
    assert (status, "for w" in messages) == (2, True)
    assert run("url", image_id, "--signed", "60", "--srcset", "2")[0] == 2


@pytest.mark.usefixtures("new_host")
def test_albums_are_managed(run: Run, files: Path) -> None:
    image = json.loads(run("upload", files / "a.png", "--json")[1][0])["id"]
    assert run("albums", "create", "Cats", "--description", "All", "--private")[1] == ["1"]
    assert run("albums", "add", "1", image)[1] == [f"{image}\tadded"]
    assert run("ls", "--album", "1")[1][0].startswith(image)
    assert run("albums", "ls")[1] == ["1\t1\tprivate\tCats"]
    assert json.loads("\n".join(run("albums", "show", "1")[1]))["description"] == "All"
    status, lines, _ = run("albums", "remove", "1", image, "missing")
    assert (status, lines) == (6, [f"{image}\tremoved", "missing\tnot_found"])
    assert run("albums", "rm", "1", "--delete-images", "--yes") == (0, ["1"], "")
    run("albums", "create", "Dogs")
    assert run("albums", "ls")[1] == ["2\t0\tpublic\tDogs"]


@pytest.mark.usefixtures("new_host")
def test_images_that_leave_a_private_album_are_kept_public_by_an_option(run: Run, files: Path) -> None:
    run("albums", "create", "Hidden", "--private")
    ids = [
        json.loads(run("upload", files / "a.png", "--album", "Hidden", "--public", "--json")[1][0])["id"]
        for _ in range(5)
    ]
    private = json.loads(run("upload", files / "a.png", "--album", "Hidden", "--json")[1][0])
    assert private["is_public"] is False
    assert json.loads("\n".join(run("albums", "show", "1")[1]))["public_image_count"] == 5
    note = "1 image became private, as only the privacy of the album kept it out of galleries"
    for option in ([], ["--images-public"]):
        for command in (("albums", "remove", "1", ids[-1]), ("update", ids[-2], "missing", "--no-album")):
            messages = run(*command, *option)[2]
            assert (note in messages) is (not option)
        ids = ids[:-2]
    changed = record(run, "albums", "update", "1", "--images-private")
    assert (changed["image_count"], changed["public_image_count"]) == (2, 0)
    assert record(run, "albums", "update", "1", "--images-public")["public_image_count"] == 2
    assert "2 images became private" in run("albums", "rm", "1", "--yes")[2]
    assert len(run("ls", "--public")[1]) == 2


def record(run: Run, *argv: object) -> dict[str, Any]:
    status, lines, _ = run(*argv)
    assert status == 0
    read: dict[str, Any] = json.loads("\n".join(lines))
    return read


@pytest.mark.usefixtures("new_host")
def test_updates_change_only_the_fields_of_given_flags(run: Run, files: Path) -> None:
    options = ("--json", "--keep-format", "--description", "Old")
    image = json.loads(run("upload", files / "a.png", *options)[1][0])["id"]
    run("albums", "create", "Cats", "--description", "All")
    changed = record(run, "update", image, "--album", "1", "--private", "--name", "new.png")
    assert (changed["album_id"], changed["is_public"], changed["filename"]) == (1, False, "new.png")
    assert changed["description"] == "Old"
    changed = record(run, "update", image, "--no-album", "--public", "--description", "")
    assert (changed["album_id"], changed["is_public"], changed["description"]) == (None, True, "")
    album = record(run, "albums", "update", "1", "--name", "Dogs", "--private")
    assert (album["name"], album["description"], album["is_public"]) == ("Dogs", "All", False)
    run("keys", "create", "ci", "--scope", "images:read", "--expires", "90d")
    key = run("keys", "ls")[1][0].split("\t")[0]
    durations = {"90d": timedelta(days=90), "12h": timedelta(hours=12), "5m": timedelta(minutes=5)}
    for text, duration in (durations | {"30s": timedelta(seconds=30)}).items():
        expiry = record(run, "keys", "update", key, "--expires", text)["expires_at"]
        left = datetime.fromisoformat(expiry) - datetime.now(UTC)  # the program's own clock
        assert duration - timedelta(seconds=20) < left <= duration
    changed = record(run, "keys", "update", key, "--name", "x", "--expires", "2999-01-01T00:00:00Z")
    assert (changed["name"], changed["scopes"], changed["expires_at"][:4]) == ("x", ["images:read"], "2999")
    webhook = run("webhooks", "create", "https://example.com/x", "--description", "D")[1][0].split("\t")[0]
    changed = record(run, "webhooks", "update", webhook, "--inactive", "--event", "image.deleted")
    assert (changed["is_active"], changed["events"]) == (False, ["image.deleted"])
    assert (changed["description"], changed["url"]) == ("D", "https://example.com/x")
    assert record(run, "webhooks", "update", webhook, "--active", "--url", "https://example.com/y")[
        "is_active"
    ]


@pytest.mark.parametrize("name", ["get", "render"])
def test_an_image_is_written_to_a_file_or_a_pipe_but_not_to_a_terminal(
    name: str, run: Run, run_on_terminal: Run, files: Path, host: FakeImageHost, command: CommandContext
) -> None:
    image = json.loads(run("upload", files / "a.png", "--json", "--keep-format")[1][0])["id"]
    status, lines, messages = run(name, image, "-W", 2, "-o", files / "out")
    assert (status, lines, "image/png" in messages) == (0, [], True)
    assert (files / "out").read_bytes() == host.core.render(image, "w=2").data
    for output in ((), ("-o", "-")):
        result = CliRunner().invoke(cli, [name, image, *output], obj=renewed(command))
        assert (result.exit_code, result.stdout_bytes) == (0, host.content(image))
    assert run_on_terminal(name, image)[0] == 2


def test_the_gallery_is_listed(run: Run, files: Path) -> None:
    run("upload", files / "a.png", "--description", "Mine")
    assert run("gallery")[1][0].endswith("\tMine")
    assert run("gallery", "--q", "min")[1] == run("gallery")[1]
    assert run("gallery", "--q", "other")[1] == []
    assert json.loads(run("gallery", "--json")[1][0])["width"] == 3


def test_an_account_is_registered_and_a_session_ended(run: Run, host: FakeImageHost) -> None:
    host.add_account("other", role="operator")
    host.core.accounts.update("admin", role="user")
    status, _, messages = run("register", "ann", stdin="correct horse\n")
    assert (status, "operator" in messages) == (3, True)
    host.core.accounts.update("admin", role="operator")
    assert run("register", "ann", stdin="correct horse\n") == (0, ["ann"], "")
    with host.client() as client:
        assert client.sessions.create("ann", "correct horse").account.name == "ann"
    assert run("logout") == (0, [], "imagehost-client: signed out\n")
    assert run("account")[0] == 3
    assert run("logout")[0] == 3


def test_sessions_are_listed_and_ended_and_the_password_is_changed(run: Run, host: FakeImageHost) -> None:
    account = host.core.accounts.get("admin")
    other = host.core.sessions.create(account, user_agent="another program", ip_address="127.0.0.1").token
    (newest, current) = [line.split("\t") for line in run("sessions", "ls")[1]]
    assert (newest[2:], current[4]) == (["127.0.0.1", "another program", ""], "current")
    assert run("sessions", "rm", newest[0]) == (0, [newest[0]], "")
    assert not is_valid(host, other)
    status, _, messages = run("passwd", stdin="wrong\na longer password\n")
    assert (status, "current_password" in messages) == (1, True)
    assert run("passwd", stdin="secret\na longer password\n")[0] == 0
    with host.client() as client:
        assert client.sessions.create("admin", "a longer password").account.name == "admin"


@pytest.mark.usefixtures("new_host")
def test_accounts_are_managed_by_operators(run: Run) -> None:
    created = run(
        *("accounts", "create", "ann", "--quota-bytes", "1000", "--uploads-per-minute", "0"),
        stdin="correct horse\n",
    )
    assert created[1] == ["2"]
    shown = record(run, "accounts", "show", "2")
    assert (shown["quota_bytes"], shown["limits"]["uploads_per_minute"]) == (1000, 0)
    assert run("accounts", "ls")[1] == [
        "2\tuser\tactive\t0\t0\tann",
        "1\toperator\tactive\t0\t0\tadmin",
    ]
    changed = record(run, "accounts", "update", "2", "--role", "operator", "--quota-bytes", "default")
    assert (changed["role"], changed["quota_bytes"], changed["suspended"]) == ("operator", None, False)
    assert changed["limits"]["uploads_per_minute"] == 0
    assert record(run, "accounts", "update", "2", "--suspend")["suspended"]
    status, _, messages = run("accounts", "update", "1", "--role", "user")
    assert (status, "another operator" in messages) == (1, True)
    assert not record(run, "accounts", "update", "2", "--resume")["suspended"]


def test_images_are_filtered_and_sorted(run: Run, files: Path) -> None:
    run("upload", files / "a.png", "--description", "A red cat", "--keep-format", "--format", "AUTO")
    run("upload", files / "b.gif", "--private", "--keep-format")

    def listed(*flags: str) -> list[str]:
        return [line.split("\t")[5] for line in run("ls", *flags)[1]]

    assert listed("--q", "red cat") == listed("--public") == listed("--format", "PNG") == ["a.png"]
    assert listed("--private") == listed("--sort=-filename", "--limit", "1") == ["b.gif"]
    assert listed("--after", "2020-01-01", "--before", "2999-01-01T00:00:00Z", "--sort", "filename") == [
        "a.png",
        "b.gif",
    ]
    assert listed("--after", "2999-01-01") == listed("--after", "2d") == []
    assert len(listed("--after", "9000d")) == 2
    assert run("ls", "--after", "yesterday")[0] == 2
    album = run("albums", "create", "Cats")[1][0]
    image_id = run("ls", "--public")[1][0].split("\t")[0]
    run("albums", "add", album, image_id)
    assert run("gallery", "--album", album)[1][0].startswith(image_id)
    assert run("gallery", "--album", "99")[0] == 4


def test_several_images_are_changed_deleted_and_signed_together(
    run: Run, files: Path, host: FakeImageHost
) -> None:
    urls = run("upload", files, "--parallel", 1)[1]
    ids = [url.rpartition("/")[2].partition(".")[0] for url in urls]
    status, lines, _ = run("update", *ids, "missing", "--description", "Both")
    assert (status, lines) == (6, [f"{ids[0]}\tupdated", f"{ids[1]}\tupdated", "missing\tnot_found"])
    assert run("update", *urls, "--description", "Both") == (0, [f"{one}\tunchanged" for one in ids], "")
    signed = run("url", *urls, "--signed", "60", "-W", "5")[1]
    assert [all(text in line for text in (one, "w=5", "sig=")) for one, line in zip(ids, signed, strict=True)]
    assert run("url", *ids)[1] == [f"{host.cdn_url}/{one}" for one in ids]
    before = len(host.requests)
    missing = [f"{number:016}" for number in range(99)]
    status, lines, messages = run("rm", *urls, *missing)
    assert (status, lines, messages.count("does not exist")) == (6, ids, 99)
    assert host.requests[before:] == [("POST", "/images/delete")] * 2


def test_keys_are_managed_and_only_the_token_is_printed(run: Run) -> None:
    _, lines, messages = run("keys", "create", "ci", "--scope", "images:read")
    assert lines[0].startswith("ihk_")
    assert len(lines) == 1
    assert "never shows it again" in messages
    key_id, prefix, name, scopes = run("keys", "ls")[1][0].split("\t")
    assert (lines[0].startswith(prefix), name, scopes) == (True, "ci", "images:read")
    assert "token" not in json.loads("\n".join(run("keys", "show", key_id)[1]))
    assert run("keys", "rm", key_id)[1] == [key_id]


def test_webhooks_are_managed(run: Run, host: FakeImageHost) -> None:
    webhook_id, secret = run("webhooks", "create", "https://example.com/x", "--event", "image.uploaded")[1][
        0
    ].split("\t")
    assert secret.startswith("whsec_")
    assert run("webhooks", "ls")[1] == [f"{webhook_id}\tactive\thttps://example.com/x\timage.uploaded"]
    assert json.loads("\n".join(run("webhooks", "show", webhook_id)[1]))["id"] == webhook_id
    delivery = json.loads("\n".join(run("webhooks", "test", webhook_id)[1]))["id"]
    assert run("webhooks", "deliveries", webhook_id)[1] == [f"{delivery}\twebhook.test\tpending\t0"]
    assert len(host.signed_events()) == 1
    assert run("webhooks", "deliveries", webhook_id)[1] == [f"{delivery}\twebhook.test\tdelivered\t1"]
    assert json.loads("\n".join(run("webhooks", "retry", webhook_id, delivery)[1]))["status"] == "pending"
    assert run("webhooks", "rotate", webhook_id)[1] != [secret]
    (leased,) = host.core.webhooks.lease(1)
    gone = Attempt(at=host.clock.now(), status=410, duration_ms=0, response="")
    host.core.webhooks.report([(leased, gone)])
    assert "410" in run("webhooks", "ls")[1][0]
    run("webhooks", "update", webhook_id, "--active")
    run("webhooks", "update", webhook_id, "--inactive")
    assert "\tinactive\t" in run("webhooks", "ls")[1][0]
    assert run("webhooks", "rm", webhook_id)[1] == [webhook_id]
    assert run("webhooks", "create", "https://example.com/y")[1]
    assert run("webhooks", "ls")[1][0].endswith("\thttps://example.com/y\tall")


@pytest.mark.parametrize(("status", "hint"), [(401, "IMAGEHOST_TOKEN"), (403, "imagehost-client login")])
def test_an_authorization_error_is_followed_by_a_hint(
    status: int, hint: str, run: Run, host: FakeImageHost
) -> None:
    host.fail(status)
    code, lines, messages = run("account")
    assert (code, lines, hint in messages) == (3, [], True)


def test_the_account_is_printed(run: Run) -> None:
    assert json.loads("\n".join(run("account")[1]))["usage"] == {"bytes": 0, "images": 0, "albums": 0}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nothing",
        "upload",
        "update",
        "ls --limit 0",
        "ls --limit x",
        "url a --srcset 1,x",
        "--retries -1 ls",
        "keys create x --expires soon",
        "keys create x --expires xd",
        "keys create x --expires 999999999999d",
        "keys create x --expires 0d",
        "register anna",
        "accounts update 1 --quota-bytes many",
        "update a --album 1 --no-album",
        "get a b -o file",
        "upload - -",
        "upload x --existing",
        "upload x --watch",
        "ls --timeout 0",
    ],
)
def test_a_usage_error_has_status_2(line: str, run: Run) -> None:
    assert run(*line.split())[0] == 2


def test_an_interrupt_and_an_os_error_end_without_a_traceback(
    run: Run, files: Path, command: CommandContext
) -> None:
    def interrupt(_: httpx2.Request) -> httpx2.Response:
        raise KeyboardInterrupt

    create = command.create_client
    command.create_client = lambda **options: Client(**options, transport=httpx2.MockTransport(interrupt))
    assert run("ls") == (130, [], "imagehost-client: interrupted\n")
    command.create_client = create
    status, _, messages = run("upload", files, "--journal", files / "none" / "journal")
    assert (status, "No such file" in messages) == (1, True)


def test_control_characters_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    monkeypatch.setattr(sys, "stdout", text)
    Console().print("a\x1b[31m\u202eb\tc")
    assert text.getvalue() == "a?[31m?b\tc\n"
    monkeypatch.setattr(sys, "stderr", text)
    Console().error("d\x1b[2J")
    assert text.getvalue().endswith("imagehost-client: d?[2J\n")


def test_verbose_prints_the_log(served: FakeImageHost) -> None:
    process = run_process(served, "-v", "account")
    assert process.returncode == 0
    assert "path=/account attempt=1 status=200" in process.stderr
    assert served.accounts["admin"] not in process.stderr


def test_the_command_is_installed(served: FakeImageHost, files: Path) -> None:
    process = run_process(served, "upload", str(files), "--parallel", "2")
    assert (process.returncode, process.stderr) == (0, "")
    assert len(process.stdout.splitlines()) == 2


def test_a_broken_pipe_ends_without_a_message(served: FakeImageHost) -> None:
    with Client(served.base_url, served.accounts["admin"]) as client:
        for _ in range(3):
            client.upload(make_png())
    reader, writer = os.pipe()
    os.close(reader)
    process = run_process(served, "ls", stdout=writer)
    os.close(writer)
    assert (process.returncode, process.stderr) == (-signal.SIGPIPE, "")


def run_process(served: FakeImageHost, *argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("imagehost-client")
    variables = {"IMAGEHOST_BASE_URL": served.base_url, "IMAGEHOST_TOKEN": served.accounts["admin"]}
    options = {"stdout": subprocess.PIPE, **options}
    return subprocess.run(
        [str(command), *argv],
        env=os.environ | variables,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=PATIENCE,
        **options,
    )


def commands(
    group: click.Group, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Return all commands with their paths, such as `("albums", "ls")`."""
    yield path, group
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def test_every_command_and_option_has_help(run: Run) -> None:
    for path, command in commands(cli):
        status, lines, _ = run(*path, "--help")
        assert (status, lines[0].startswith("Usage: ")) == (0, True)
        assert command.help
        assert len(command.help.splitlines()[0]) <= 72, path


def test_every_command_global_option_and_exit_status_is_documented(workspace: Path) -> None:
    text = (workspace / "docs" / "cli.md").read_text(encoding="utf-8")
    named = [name for name, command in cli.commands.items() if not command.hidden]
    assert [name for name in named if not re.search(rf"`{name}\b", text)] == []
    assert [option.opts[0] for option in GLOBAL_OPTIONS if f"`{option.opts[0]}" not in text] == []
    rows = re.findall(r"^\| (\d+) \|", text, re.MULTILINE)
    assert [int(row) for row in rows] == [int(status) for status in DESCRIPTIONS]
    upload = cli.commands["upload"]
    assert [option for option in ("--watch", "--existing", "--copy") if f"`{option}" not in text] == []
    assert {"--watch", "--existing", "--copy"} <= {name for param in upload.params for name in param.opts}


@pytest.mark.parametrize("line", [("whoami",), ("albums", "ls"), ("ls", "--limit", "1")])
def test_global_options_are_accepted_at_any_place(line: tuple[str, ...], run: Run) -> None:
    places = [place for place in range(len(line) + 1) if line[place - 1 : place] != ("--limit",)]
    for place in places:
        status, _, messages = run(*line[:place], "--profile", "absent", *line[place:])
        assert (status, "'absent'" in messages) == (2, True)
    assert run(*line)[0] == 0


def test_global_options_are_settings_of_the_client(run: Run, command: CommandContext) -> None:
    received: dict[str, Any] = {}
    create = command.create_client

    def record(**options: Any) -> Client:
        received.update(options)
        return create(**options)

    command.create_client = record
    assert run("ls")[0] == 0
    assert (received["timeout"], received["max_retries"], received["allow_http"]) == (60, 3, False)
    assert run("--retries", "0", "ls", "--timeout", "5", "--allow-http")[0] == 0
    assert (received["timeout"], received["max_retries"], received["allow_http"]) == (5, 0, True)


def test_every_command_accepts_the_global_options() -> None:
    for path, command in commands(cli):
        with command.make_context("x", [], resilient_parsing=True) as ctx:
            names = {option for parameter in command.get_params(ctx) for option in parameter.opts}
        assert {"--profile", "--base-url", "--timeout", "--retries", "--allow-http", "-v"} <= names, path


def test_without_the_extra_the_command_prints_what_to_install() -> None:
    program = (
        "import sys; sys.modules['click'] = None\n"
        "import imagehost_client; imagehost_client.Client\n"
        "from imagehost_client.cli import main; main(['ls'])"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (process.returncode, process.stdout) == (2, "")
    assert "click is not installed" in process.stderr
    assert "pip install './packages/imagehost-client[cli]'" in process.stderr


def test_a_parameter_of_image_urls_is_an_option_of_its_name(run: Run, files: Path) -> None:
    (url,) = run("upload", files / "a.png")[1]
    (expected,) = run("url", url, "--width", 3, "--height", 4, "--quality", 5, "--format", "jpg")[1]
    assert run("url", url, "--w", 3, "--h", 4, "--q", 5, "--fm", "jpg")[1] == [expected]


def test_every_command_that_prints_a_record_takes_the_option_of_lists() -> None:
    sources = {
        name: inspect.getsource(command.callback) for name, command in commands(cli) if command.callback
    }
    printing = {name for name, source in sources.items() if "print_record(" in source}
    assert len(printing) > 10
    for name, command in commands(cli):
        assert name not in printing or any("--json" in option.opts for option in command.params), name
