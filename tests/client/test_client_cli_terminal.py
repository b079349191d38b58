"""The command line on terminals: tables, the progress bar, colours, and completion in shells."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.conftest import Run, Terminal
from tests.waiting import PATIENCE

from imagehost_client import UploadResult
from imagehost_client._cli.output import GAP, MIN_WIDTH, Console, fit_widths, format_size
from imagehost_client._cli.progress import ProgressBar, UploadProgress, size_of
from imagehost_client.testing import FakeImageHost

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def test_a_list_is_a_table_on_a_terminal_and_lines_in_a_pipe(
    run: Run, run_on_terminal: Run, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("upload", files / "a.png", "--name", "a very long name of a file " * 5 + ".png")
    (line,) = run("ls")[1]
    image_id, *_, name = line.split("\t")
    for width in (80, 200):
        monkeypatch.setattr("tests.client.conftest.COLUMNS", str(width))
        _, rows, messages = run_on_terminal("ls")
        plain = [ESCAPE.sub("", row) for row in rows]
        assert plain[0].split() == ["id", "pixels", "format", "size", "created", "filename"]
        assert plain[1].startswith(f"{image_id}  3x2     webp ")
        assert (len(plain), messages) == (2, "")
        assert all(len(row) <= width for row in plain)
        assert (name in plain[1]) == (width == 200)
        assert ("…" in plain[1]) == (width == 80)


@given(st.data(), st.integers(1, 300))
def test_a_table_fits_if_its_flexible_columns_can_be_narrow_enough(data: st.DataObject, total: int) -> None:
    widths = data.draw(st.lists(st.integers(1, 120), min_size=1, max_size=6))
    flexible = data.draw(st.lists(st.booleans(), min_size=len(widths), max_size=len(widths)))
    fitted = fit_widths(widths, flexible, total)
    narrowest = [min(width, MIN_WIDTH) if may else width for width, may in zip(widths, flexible, strict=True)]
    gaps = GAP * (len(widths) - 1)
    assert all(low <= width <= high for low, width, high in zip(narrowest, fitted, widths, strict=True))
    assert sum(fitted) + gaps <= max(total, sum(narrowest) + gaps)
    if sum(widths) + gaps <= total:
        assert fitted == widths


def test_an_empty_list_is_a_table_without_rows(run_on_terminal: Run) -> None:
    assert len(run_on_terminal("ls")[1]) == 1
    assert len(run_on_terminal("albums", "ls")[1]) == 1


def test_headings_of_a_long_list_are_printed_once(
    run: Run, run_on_terminal: Run, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("upload", files)
    monkeypatch.setattr("imagehost_client._cli.output.ROWS_AT_ONCE", 1)
    rows = run_on_terminal("ls")[1]
    assert (len(rows), sum("pixels" in row for row in rows)) == (3, 1)


@pytest.mark.parametrize(("variable", "has_colours"), [("", True), ("NO_COLOR", False)])
def test_no_color_is_respected(
    variable: str, has_colours: bool, run_on_terminal: Run, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv(variable, "1")
    messages = run_on_terminal("upload", files)[2]
    assert bool(re.search(r"\x1b\[3[0-9]|\x1b\[38", messages)) == has_colours


def test_the_progress_bar_is_drawn_on_a_terminal_and_erased(
    run: Run, run_on_terminal: Run, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (files / "c.png").write_bytes(b"no image")
    status, lines, messages = run_on_terminal("upload", files)
    assert status == 6
    # On a terminal, the bar prints the URLs above it, through the same stream.
    assert "2 of 3 stored, 1 failed" in messages
    assert messages.count("https://") == 2
    assert "c.png: " in messages
    assert run_on_terminal("upload", files / "a.png", "--quiet")[2] == ""
    assert "stored" not in run("upload", files / "a.png")[2]
    (files / "empty.png").write_bytes(b"")
    assert "of 1 stored" in run_on_terminal("upload", files / "empty.png")[2]
    monkeypatch.setattr("tests.client.conftest.TERM", "dumb")
    status, lines, messages = run_on_terminal("upload", files / "a.png")
    assert (status, len(lines), messages) == (0, 1, "")


@given(
    sizes=st.lists(st.integers(0, 1000), min_size=1, max_size=5),
    reports=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1000) | st.none()), max_size=40),
)
def test_progress_never_runs_backwards_and_ends_at_the_total(
    sizes: list[int], reports: list[tuple[int, int | None]]
) -> None:
    sources = [bytes(size) + b"" if size else b"" for size in sizes]
    sources = [("name", bytearray(source)) for source in sources]  # type: ignore[misc]
    progress, shown, finished = UploadProgress(sum(sizes)), [0], set()
    for number, sent in reports:
        index = number % len(sources)
        if index in finished:
            continue
        if sent is None:
            finished.add(index)
            shown.append(progress.finish(sources[index]))
        else:
            shown.append(progress.send(sources[index], min(sent, sizes[index])))
    shown += [progress.finish(source) for index, source in enumerate(sources) if index not in finished]
    assert shown == sorted(shown)
    assert shown[-1] == sum(sizes)


def test_the_sizes_of_sources_are_measured(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    with (tmp_path / "a").open("rb") as file:
        file.seek(1)
        assert (size_of(file), file.tell()) == (2, 1)
    assert [size_of(source) for source in (tmp_path / "a", ("x", str(tmp_path / "a")), b"ab")] == [3, 3, 2]
    assert size_of(tmp_path / "missing") == 0


def test_results_go_to_standard_output_if_it_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    console = Console()
    output = Terminal()
    monkeypatch.setattr(output, "isatty", lambda: False)
    monkeypatch.setattr(sys, "stdout", output)
    with ProgressBar(console, [b"a"]) as bar:
        console.print("https://h/a")
        bar.result(UploadResult(b"a"))
    assert output.getvalue() == "https://h/a\n"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (10**15, "1000.0 TB"),
    ],
)
def test_sizes_have_decimal_units(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_the_command_works_on_a_pseudo_terminal(served: FakeImageHost, files: Path, tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [command_path(), "upload", str(files / "a.png"), str(files / "b.gif")],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment(served, tmp_path) | {"TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(follower)
    output = b""
    while True:
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # Linux reports the end of a pseudo-terminal as an error
            break
        if not chunk:
            break
        output += chunk
    os.close(leader)
    assert process.wait(60) == 0
    text = ESCAPE.sub("", output.decode())
    assert len(re.findall(r"[\r\n]http://127\.0\.0\.1:\d+/img/\w{16}\.\w+\r?\n", text)) == 2


def command_path() -> str:
    return str(Path(sys.executable).with_name("imagehost-client"))


def environment(served: FakeImageHost, home: Path) -> dict[str, str]:
    """Return the variables of a process on a host in memory, whose profiles are in an empty directory."""
    return os.environ | {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "IMAGEHOST_BASE_URL": served.base_url,
        "IMAGEHOST_TOKEN": served.accounts["admin"],
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


COMPLETIONS = [
    (("upl",), {"upload"}),
    (("albums", "a"), {"add"}),
    (("--verbose", "albums", "create", "--p"), {"--private", "--profile"}),
    (("upload", "--format", "w"), {"webp"}),
    (("url", "x", "--fit", "co"), {"cover", "contain"}),
    (("keys", "create", "x", "--scope", "images:r"), {"images:read"}),
    (("ls", "--format", "w"), {"webp"}),
    (("whoami", "--profile", ""), {"home", "work"}),
    (("completion", ""), {"bash", "zsh", "fish"}),
    (("albums", "create", "--retries"), {"--retries"}),
]


@pytest.mark.parametrize(("words", "expected"), COMPLETIONS, ids=lambda value: " ".join(sorted(value)))
def test_commands_options_and_choices_are_completed(
    words: tuple[str, ...], expected: set[str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for profile in ("home", "work"):
        run(*("login", "admin", "--profile", profile), stdin="secret\n")
    monkeypatch.setenv("COMP_WORDS", " ".join(("imagehost-client", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    monkeypatch.setenv("_IMAGEHOST_CLIENT_COMPLETE", "bash_complete")
    status, lines, messages = run()
    assert (status, messages) == (0, "")
    assert {line.partition(",")[2] for line in lines if line} == expected


def test_files_are_completed_by_the_shell(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for line, kind in (("upload ca", "file"), ("get x -o ca", "file")):
        words = ["imagehost-client", *line.split()]
        monkeypatch.setenv("COMP_WORDS", " ".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        monkeypatch.setenv("_IMAGEHOST_CLIENT_COMPLETE", "bash_complete")
        assert run()[1][0].partition(",")[0] == kind


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed_for_each_shell(shell: str, run: Run) -> None:
    status, lines, messages = run("completion", shell)
    script = "\n".join(lines)
    assert (status, messages) == (0, "")
    assert f"_IMAGEHOST_CLIENT_COMPLETE={shell}_complete" in script
    assert (lines[0] == "#compdef imagehost-client") == (shell == "zsh")
    assert ("compinit" in script) == (shell == "zsh")


INVOCATIONS: dict[str, str] = {
    "bash": (
        'eval "$(imagehost-client completion bash)"; COMP_WORDS=(imagehost-client albums a); COMP_CWORD=2; '
        "_imagehost_client_completion imagehost-client; echo ${COMPREPLY[@]}"
    ),
    "zsh": (
        'eval "$(imagehost-client completion zsh)"; compadd() { :; }; _describe() { print -r -- ${(P)3}; }; '
        "words=(imagehost-client albums a); CURRENT=3; _imagehost_client_completion"
    ),
    "fish": "imagehost-client completion fish | source; complete --do-complete 'imagehost-client albums a'",
}
"""Programs that load the script and print the completions of `imagehost-client albums a`."""


@pytest.mark.parametrize(
    "shell", ["bash", *(pytest.param(shell, marks=pytest.mark.external) for shell in ("zsh", "fish"))]
)
def test_completion_works_in_a_shell(shell: str, served: FakeImageHost, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    process = subprocess.run(
        [shell, "-c", INVOCATIONS[shell]],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env=environment(served, tmp_path),
    )
    assert process.stdout.split()[:1] == ["add"] or "add:" in process.stdout, process
