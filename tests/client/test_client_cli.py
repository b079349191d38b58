"""The command line: output and exit statuses."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.client.conftest import without_delays

from imagehost_client import Client
from imagehost_client._cli.arguments import build_parser
from imagehost_client._cli.completion import command_tree
from imagehost_client._cli.output import Console
from imagehost_client.cli import main
from imagehost_client.testing import FakeImageHost, make_gif, make_png
from imagehost_client.testing._store import Row, Table

Run = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def run(host: FakeImageHost, capsys: pytest.CaptureFixture[str]) -> Run:
    """A runner of the command line on the fake host, which returns status, output lines and messages."""

    def connect(**options: Any) -> Client:
        return without_delays(host.client())

    def invoke(*argv: object) -> tuple[int, list[str], str]:
        status = main([str(argument) for argument in argv], connect=connect)
        output = capsys.readouterr()
        return status, output.out.splitlines(), output.err

    return invoke


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory with two images."""
    (tmp_path / "a.png").write_bytes(make_png(3, 2))
    (tmp_path / "b.gif").write_bytes(make_gif())
    return tmp_path


class Terminal(io.StringIO):
    """A stream that reports to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_upload_prints_one_url_per_line_in_order(run: Run, files: Path, host: FakeImageHost) -> None:
    status, lines, messages = run("upload", files / "b.gif", files / "a.png")
    assert (status, messages) == (0, "")
    assert [line.rsplit(".")[-1] for line in lines] == ["gif", "png"]
    assert lines == [
        row.record["url"]
        for row in sorted(host.tables["images"].rows.values(), key=lambda row: row.record["format"])
    ]


@pytest.mark.parametrize(
    ("flag", "begin"), [("--markdown", "![]("), ("--html", "<img"), ("--bbcode", "[img]"), ("--json", "{")]
)
def test_upload_prints_the_requested_markup(flag: str, begin: str, run: Run, files: Path) -> None:
    _, lines, _ = run("upload", files, flag)
    assert len(lines) == 2
    assert all(line.startswith(begin) for line in lines)
    if flag == "--json":
        assert json.loads(lines[0])["width"] == 3


def test_upload_accepts_options_and_standard_input(
    run: Run, files: Path, host: FakeImageHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    album = run("albums", "create", "A")[1][0]
    options = shlex.split(
        f"--album {album} --description Text --quality 80 --format webp "
        "--remove-exif --auto-rename --private --quiet"
    )
    assert run("upload", files / "a.png", *options)[0] == 0
    record = next(iter(host.tables["images"].rows.values())).record
    assert (record["album_id"], record["description"], record["is_public"]) == (1, "Text", False)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(make_png())))
    assert run("upload", "-", "--name", "p.png")[0] == 0
    assert run("upload", files / "a.png", "--name", "q.png", "--keep-format", "--checksum")[0] == 0
    names = [row.record["original_filename"] for row in host.tables["images"].rows.values()]
    assert names == ["a.png", "p.png", "q.png"]
    status, _, messages = run("upload", files / "a.png", files / "b.gif", "--name", "x")
    assert (status, "--name" in messages) == (2, True)


def test_upload_reports_failed_files_and_prints_the_others(run: Run, files: Path) -> None:
    (files / "c.txt").write_text("no image")
    (files / "d.txt").write_text("no image")
    with (files / "d.txt").open("rb") as stream:
        assert stream.read()
    status, lines, messages = run("upload", files / "a.png", files / "c.txt", files / "missing.png")
    assert (status, len(lines)) == (1, 1)
    assert "c.txt: The file format is not supported" in messages
    assert "missing.png" in messages
    assert "2 of 3 files failed" in messages


def test_upload_of_a_directory_without_images_is_reported(run: Run, tmp_path: Path) -> None:
    assert run("upload", tmp_path) == (1, [], "imagehost-client: no images found\n")


def test_upload_resumes_from_a_journal(run: Run, files: Path, host: FakeImageHost) -> None:
    first = run("upload", files, "--journal", files / "journal")[1]
    assert run("upload", files, "--journal", files / "journal")[1] == first
    assert len(host.tables["images"].rows) == 2


def test_a_progress_bar_is_drawn_on_a_terminal_and_erased(
    host: FakeImageHost, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (files / "c.png").write_bytes(b"no image")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    main(["upload", str(files)], connect=lambda **_: without_delays(host.client()))
    output = terminal.getvalue()
    assert "█" * 30 in output
    assert "2 done, 1 failed" in output
    assert "\r\x1b[K" in output
    monkeypatch.setattr(sys, "stderr", quiet := Terminal())
    main(["upload", str(files / "a.png"), "--quiet"], connect=lambda **_: without_delays(host.client()))
    assert quiet.getvalue() == ""
    (files / "empty.png").write_bytes(b"")
    main(["upload", str(files / "empty.png")], connect=lambda **_: without_delays(host.client()))
    assert "of 0.0 MB" in quiet.getvalue()


def test_images_are_listed_printed_and_deleted(run: Run, files: Path) -> None:
    run("upload", files)
    _, lines, _ = run("ls")
    assert [line.split("\t")[5] for line in lines] in (["b.gif", "a.png"], ["a.png", "b.gif"])
    assert len(run("ls", "--limit", "1")[1]) == 1
    image_id = json.loads(run("ls", "--json", "--limit", "1")[1][0])["id"]
    assert json.loads("\n".join(run("show", image_id)[1]))["id"] == image_id
    assert run("rm", image_id) == (0, [image_id], "")
    status, lines, messages = run("rm", image_id, lines[0].split("\t")[0], lines[1].split("\t")[0])
    assert (status, len(lines)) == (1, 1)
    assert "does not exist" in messages
    assert run("show", image_id)[0] == 1


@pytest.mark.parametrize(("reply", "status"), [("y\n", 0), ("YES\n", 0), ("\n", 1), ("no\n", 1), ("", 1)])
def test_deletion_requires_confirmation_on_a_terminal(
    reply: str, status: int, run: Run, files: Path, host: FakeImageHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("upload", files / "a.png")
    image_id = next(iter(host.tables["images"].rows))
    monkeypatch.setattr(sys, "stdin", Terminal(reply))
    assert run("rm", image_id)[0] == status
    assert (image_id in host.tables["images"].rows) == (status == 1)
    if status:
        assert run("rm", image_id, "--yes")[0] == 0


def test_urls_are_printed(run: Run, files: Path, host: FakeImageHost) -> None:
    run("upload", files / "a.png")
    image_id = next(iter(host.tables["images"].rows))
    url = f"{host.cdn_url}/{image_id}"
    before = len(host.requests)
    assert run("url", image_id, "-W", 300, "-H", 200, "-q", 80, "--fit", "inside", "--format", "avif")[1] == [
        f"{url}?w=300&h=200&q=80&fit=inside&fm=avif"
    ]
    assert len(host.requests) == before
    assert run("url", image_id, "--srcset", "2,9")[1] == [f"{url}.png?w=2 2w, {url}.png?w=3 3w"]
    assert run("url", image_id, "--picture", "2")[1][0].startswith("<picture>")
    assert "sig=" in run("url", image_id, "--signed", "60")[1][0]
    status, _, messages = run("url", image_id, "-W", 9000)
    assert (status, "for w" in messages) == (2, True)


def test_albums_are_managed(run: Run, files: Path) -> None:
    image = json.loads(run("upload", files / "a.png", "--json")[1][0])["id"]
    assert run("albums", "create", "Cats", "--description", "All", "--private")[1] == ["1"]
    assert run("albums", "add", "1", image)[1] == [f"{image}\tadded"]
    assert run("ls", "--album", "1")[1][0].startswith(image)
    assert run("albums", "ls")[1] == ["1\t1\tprivate\tCats"]
    assert json.loads("\n".join(run("albums", "show", "1")[1]))["description"] == "All"
    status, lines, _ = run("albums", "remove", "1", image, "missing")
    assert (status, lines) == (1, [f"{image}\tremoved", "missing\tnot_found"])
    assert run("albums", "rm", "1", "--delete-images", "--yes") == (0, ["1"], "")
    run("albums", "create", "Dogs")
    assert run("albums", "ls")[1] == ["2\t0\tpublic\tDogs"]


def record(run: Run, *argv: object) -> dict[str, Any]:
    status, lines, _ = run(*argv)
    assert status == 0
    read: dict[str, Any] = json.loads("\n".join(lines))
    return read


def test_updates_change_only_the_fields_of_given_flags(run: Run, files: Path) -> None:
    image = json.loads(run("upload", files / "a.png", "--json", "--description", "Old")[1][0])["id"]
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
    expiry = datetime.fromisoformat(record(run, "keys", "show", key)["expires_at"])
    assert timedelta(days=89) < expiry - datetime.now(UTC) <= timedelta(days=90)
    changed = record(run, "keys", "update", key, "--name", "x", "--expires", "2999-01-01T00:00:00Z")
    assert (changed["name"], changed["scopes"], changed["expires_at"][:4]) == ("x", ["images:read"], "2999")
    webhook = run("webhooks", "create", "https://example.com/x", "--description", "D")[1][0].split("\t")[0]
    changed = record(run, "webhooks", "update", webhook, "--inactive", "--event", "image.deleted")
    assert (changed["is_active"], changed["events"]) == (False, ["image.deleted"])
    assert (changed["description"], changed["url"]) == ("D", "https://example.com/x")
    assert record(run, "webhooks", "update", webhook, "--active", "--url", "https://example.com/y")[
        "is_active"
    ]


def test_an_image_is_written_to_a_file_or_a_pipe_but_not_to_a_terminal(
    run: Run, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = json.loads(run("upload", files / "a.png", "--json")[1][0])["id"]
    status, lines, messages = run("render", image, "-W", 2, "-o", files / "out")
    assert (status, lines, "image/png" in messages) == (0, [], True)
    assert (files / "out").read_bytes() == make_png(3, 2)
    pipe = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", pipe)
    run("render", image)
    assert pipe.buffer.getvalue() == make_png(3, 2)
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert run("render", image)[0] == 2


def test_the_gallery_is_listed(run: Run, files: Path) -> None:
    run("upload", files / "a.png", "--description", "Mine")
    assert run("gallery")[1][0].endswith("\tMine")
    assert json.loads(run("gallery", "--json")[1][0])["width"] == 3


def test_an_account_is_registered_and_a_session_ended(
    run: Run, host: FakeImageHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.account("admin")["role"] = "user"
    monkeypatch.setattr(sys, "stdin", io.StringIO("correct horse\n"))
    status, _, messages = run("register", "ann")
    assert (status, "operator" in messages) == (1, True)
    host.account("admin")["role"] = "operator"
    monkeypatch.setattr(sys, "stdin", io.StringIO("correct horse\n"))
    assert run("register", "ann") == (0, ["ann"], "")
    assert host.passwords == {"ann": "correct horse"}
    assert run("logout") == (0, [], "imagehost-client: signed out\n")
    assert run("account")[0] == 1


def test_sessions_are_listed_and_ended_and_the_password_is_changed(
    run: Run, host: FakeImageHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = host.add_session("admin", "another program")
    (newest, current) = [line.split("\t") for line in run("sessions", "ls")[1]]
    assert (newest[2:], current[4]) == (["127.0.0.1", "another program", ""], "current")
    assert run("sessions", "rm", newest[0]) == (0, [newest[0]], "")
    assert other not in host.tokens
    monkeypatch.setattr(sys, "stdin", io.StringIO("wrong\na longer password\n"))
    status, _, messages = run("passwd")
    assert (status, "current_password" in messages) == (1, True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("secret\na longer password\n"))
    assert run("passwd")[0] == 0
    assert host.passwords == {"admin": "a longer password"}


def test_accounts_are_managed_by_operators(
    run: Run, host: FakeImageHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("correct horse\n"))
    assert run("accounts", "create", "ann", "--quota-bytes", "1000", "--uploads-per-minute", "0")[1] == ["2"]
    created = record(run, "accounts", "show", "2")
    assert (created["quota_bytes"], created["limits"]["uploads_per_minute"]) == (1000, 0)
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
    run("upload", files / "b.gif", "--private")

    def listed(*flags: str) -> list[str]:
        return [line.split("\t")[5] for line in run("ls", *flags)[1]]

    assert listed("--q", "red cat") == listed("--public") == listed("--format", "PNG") == ["a.png"]
    assert listed("--private") == listed("--sort=-filename", "--limit", "1") == ["b.gif"]
    assert listed("--after", "2020-01-01", "--before", "2999-01-01T00:00:00Z", "--sort", "filename") == [
        "a.png",
        "b.gif",
    ]
    assert listed("--after", "2999-01-01") == []
    with pytest.raises(SystemExit):
        run("ls", "--after", "yesterday")
    album = run("albums", "create", "Cats")[1][0]
    image_id = run("ls", "--public")[1][0].split("\t")[0]
    run("albums", "add", album, image_id)
    assert run("gallery", "--album", album)[1][0].startswith(image_id)
    assert run("gallery", "--album", "99")[0] == 1


def test_several_images_are_changed_deleted_and_signed_together(
    run: Run, files: Path, host: FakeImageHost
) -> None:
    urls = run("upload", files)[1]
    ids = [url.rpartition("/")[2].partition(".")[0] for url in urls]
    status, lines, _ = run("update", *ids, "missing", "--description", "Both")
    assert (status, lines) == (1, [f"{ids[0]}\tupdated", f"{ids[1]}\tupdated", "missing\tnot_found"])
    assert run("update", *urls, "--description", "Both") == (0, [f"{one}\tunchanged" for one in ids], "")
    signed = run("url", *urls, "--signed", "60", "-W", "5")[1]
    assert [all(text in line for text in (one, "w=5", "sig=")) for one, line in zip(ids, signed, strict=True)]
    assert run("url", *ids)[1] == [f"{host.cdn_url}/{one}" for one in ids]
    before = len(host.requests)
    missing = [f"{number:016}" for number in range(99)]
    status, lines, messages = run("rm", *urls, *missing)
    assert (status, lines, messages.count("does not exist")) == (1, ids, 99)
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
    assert run("webhooks", "deliveries", webhook_id)[1] == [f"{delivery}\twebhook.test\tdelivered\t1"]
    assert json.loads("\n".join(run("webhooks", "retry", webhook_id, delivery)[1]))["attempts"] == 2
    assert run("webhooks", "rotate", webhook_id)[1] != [secret]
    record = host.tables["webhooks"].rows[webhook_id].record
    record |= {"is_active": False}
    assert "\tinactive\t" in run("webhooks", "ls")[1][0]
    record |= {"disabled_reason": "gone"}
    assert "\tgone\t" in run("webhooks", "ls")[1][0]
    assert run("webhooks", "rm", webhook_id)[1] == [webhook_id]
    assert run("webhooks", "create", "https://example.com/y")[1]
    assert run("webhooks", "ls")[1][0].endswith("\thttps://example.com/y\tall")


@pytest.mark.parametrize(("status", "hint"), [(401, "IMAGEHOST_TOKEN"), (403, "imagehost-client login")])
def test_an_authorization_error_is_followed_by_a_hint(
    status: int, hint: str, run: Run, host: FakeImageHost
) -> None:
    host.fail(status)
    code, lines, messages = run("account")
    assert (code, lines, hint in messages) == (1, [], True)


def test_the_account_is_printed(run: Run) -> None:
    assert json.loads("\n".join(run("account")[1]))["usage"] == {"bytes": 0, "images": 0, "albums": 0}


def test_login_prints_only_the_token(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("secret\n"))
    assert run("login", "admin")[1][0].startswith("ihs_")
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda _: "wrong")
    status, lines, messages = run("login", "admin")
    assert (status, lines) == (1, [])
    assert "IMAGEHOST_TOKEN" in messages


def test_config_prints_settings_with_their_sources_and_without_the_token(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "ihk_0123456789abcdefghijkl"
    monkeypatch.setenv("IMAGEHOST_BASE_URL", "https://h/v1")
    monkeypatch.setenv("IMAGEHOST_TOKEN", token)
    assert main(["config"]) == 0
    output = capsys.readouterr().out
    assert output.splitlines() == [
        "base_url\thttps://h/v1\tIMAGEHOST_BASE_URL",
        "cdn_url\thttps://h/img\tbase_url",
        "token\tihk_01…\tIMAGEHOST_TOKEN",
    ]
    monkeypatch.delenv("IMAGEHOST_TOKEN")
    monkeypatch.setenv("IMAGEHOST_CDN_URL", "https://c/img")
    assert main(["--base-url", "https://g/v1", "config"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "base_url\thttps://g/v1\t--base-url",
        "cdn_url\thttps://c/img\tIMAGEHOST_CDN_URL",
        "token\tnone\tIMAGEHOST_TOKEN",
    ]


def test_a_missing_or_unreachable_base_url_is_followed_by_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls"]) == 2
    assert "IMAGEHOST_BASE_URL" in capsys.readouterr().err
    assert main(["--retries", "0", "--base-url", "http://127.0.0.1:9/v1", "ls"]) == 1
    assert "check that the host is running" in capsys.readouterr().err


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
        "keys create x --expires 2999-01-01",
    ],
)
def test_a_usage_error_has_status_2(line: str, run: Run) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*line.split())
    assert caught.value.code == 2


def test_an_interrupt_and_an_os_error_end_without_a_traceback(
    run: Run, host: FakeImageHost, files: Path
) -> None:
    class InterruptedTable(Table):
        @property
        def rows(self) -> dict[str, Row]:  # type: ignore[override]
            raise KeyboardInterrupt

    host.tables["images"] = object.__new__(InterruptedTable)
    assert run("ls") == (130, [], "imagehost-client: interrupted\n")
    status, _, messages = run("upload", files, "--journal", files / "none" / "journal")
    assert (status, "No such file" in messages) == (1, True)


def test_control_characters_are_not_printed() -> None:
    text = io.StringIO()
    Console(text, text, text).print("a\x1b[31m\u202eb\tc")
    assert text.getvalue() == "a?[31m?b\tc\n"


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
    assert (process.returncode, process.stderr) == (1, "")


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
        timeout=60,
        **options,
    )


def test_completion_has_every_command_and_flag(capsys: pytest.CaptureFixture[str]) -> None:
    tree = dict(command_tree(build_parser()))
    assert {"upload", "ls", "albums", "--base-url"} <= set(tree[""])
    assert "--markdown" in tree["upload"]
    assert {"create", "add"} <= set(tree["albums"])
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        script = capsys.readouterr().out
        for path, words in tree.items():
            assert path.rsplit("/")[-1] in script
            assert " ".join(words) in script


def test_completion_in_fish_distinguishes_subcommands_of_the_same_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["completion", "fish"])
    lines = capsys.readouterr().out.splitlines()
    (keys,) = [line for line in lines if "from keys; and __fish_seen_subcommand_from create'" in line]
    assert "--scope" in keys
    assert "--private" not in keys
    assert lines[0].startswith("complete -c imagehost-client -n '__fish_use_subcommand' -a ")


@pytest.mark.parametrize(
    ("line", "completions"),
    [
        ("imagehost-client upl", ["upload"]),
        ("imagehost-client albums a", ["add"]),
        ("imagehost-client --verbose albums create --p", ["--private"]),
    ],
)
def test_completion_works_in_bash(
    line: str, completions: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["completion", "bash"])
    script = capsys.readouterr().out
    invocation = f"COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))"
    invocation += "\n_imagehost_client; echo ${COMPREPLY[@]}"
    process = subprocess.run(
        ["bash", "-c", f"{script}\n{invocation}"], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == completions


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for path in dict(command_tree(build_parser())):
        with pytest.raises(SystemExit) as caught:
            main([*path.split("/"), "--help"] if path else ["--help"])
        assert caught.value.code == 0
    assert "usage: imagehost-client" in capsys.readouterr().out
