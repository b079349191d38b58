"""Make the screenshots of `imagehost-client` in a terminal for the documentation.

Usage: `uv run .ci/terminal_screenshots.py DIRECTORY`. Needs tmux. It types commands into a terminal, with
a server of its own, and writes what the terminal shows as SVG. The images are drawn here.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen
from rich.console import Console
from rich.text import Text

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, running

WIDTH, HEIGHT = 100, 40
TIMEOUT = 60.0
PROMPT = "$ "
FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
NAMES = ("beach", "cat", "garden", "harbour", "hills", "lake", "market", "river")


@frozen
class Terminal:
    """A shell in a tmux session.

    Attributes:
        socket: The name of tmux's socket.
    """

    socket: str

    def run(self, command: str) -> None:
        """Type a command, and wait until the shell prompts for the next one."""
        self.type(command)
        deadline = time.monotonic() + TIMEOUT
        while self.lines()[-1].strip() != PROMPT.strip():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{command}: {self.lines()}")
            time.sleep(0.1)

    def type(self, command: str) -> None:
        """Type a command, and wait until the terminal shows it."""
        self._tmux("send-keys", "-l", command)
        while command[-20:] not in "".join(self.lines()):
            time.sleep(0.05)
        self._tmux("send-keys", "Enter")
        time.sleep(0.2)

    def lines(self, *, styled: bool = False) -> list[str]:
        """Return what the terminal shows, with escape sequences if `styled`."""
        output = self._tmux("capture-pane", "-p", *(["-e"] if styled else []))
        return output.rstrip("\n").splitlines() or [""]

    def save(self, path: Path, title: str) -> None:
        """Write what the terminal shows, without the last prompt, as SVG with a font of the reader."""
        lines = self.lines(styled=True)
        if lines[-1].strip() == PROMPT.strip():
            lines.pop()
        console = Console(record=True, width=WIDTH, file=io.StringIO())
        console.print(Text.from_ansi("\n".join(lines)), no_wrap=True)
        svg = FONT_FACES.sub("", console.export_svg(title=title, unique_id=path.stem))
        path.write_text(svg.replace("Fira Code", "ui-monospace").replace(" \n", "\n"))
        self._tmux("send-keys", "clear", "Enter")
        time.sleep(0.3)

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self.socket, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def open_terminal(directory: Path, server: RunningServer) -> Iterator[Terminal]:
    """Open a shell in a directory, with a profile of the server's account."""
    environment = {
        "HOME": str(directory),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PS1": PROMPT,
        "LANG": "C.UTF-8",
        "COLUMNS": str(WIDTH),
    }
    login = ["imagehost-client", "login", "--with-token", "--base-url", server.base_url, "--profile", "docs"]
    token, quiet = server.token.encode(), subprocess.DEVNULL
    subprocess.run(login, input=token, env=environment, check=True, stdout=quiet, stderr=quiet)
    terminal = Terminal(f"imagehost-{os.getpid()}")
    shell = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), "TERM=tmux-256color"]
    new = ["tmux", "-L", terminal.socket, "-f", os.devnull, "new-session", "-d", "-x", str(WIDTH), "-y"]
    subprocess.run([*new, str(HEIGHT), *shell, "sh"], cwd=directory, check=True)
    try:
        yield terminal
    finally:
        subprocess.run(["tmux", "-L", terminal.socket, "kill-server"], check=True)


def take_upload(terminal: Terminal) -> None:
    """Upload a folder into a new album, with a file that is no image."""
    terminal.run("imagehost-client upload photos --album Holiday")


def take_list(terminal: Terminal) -> None:
    """List images and albums."""
    terminal.run("imagehost-client albums ls")
    terminal.run("imagehost-client ls --album Holiday --sort filename")


def take_errors(terminal: Terminal) -> None:
    """Make mistakes."""
    terminal.run("imagehost-client uplod cat.jpg")
    terminal.run("imagehost-client get missing -o cat.avif; echo status $?")
    terminal.run("imagehost-client ls --base-url http://127.0.0.1:9/v1 --retries 0; echo status $?")


SCREENSHOTS: dict[str, Callable[[Terminal], None]] = {
    "cli-upload": take_upload,
    "cli-list": take_list,
    "cli-errors": take_errors,
}


def main() -> None:
    """Start a server and a terminal, and write the screenshots."""
    target = Path(sys.argv[1]).resolve()
    target.mkdir(parents=True, exist_ok=True)
    if shutil.which("tmux") is None:
        sys.exit("expected tmux to be installed")
    variables = {"IMAGEHOST_LIMITS_UPLOADS_PER_MINUTE": "0"}
    with tempfile.TemporaryDirectory() as name, running(Path(name, "data"), variables=variables) as server:
        photos = Path(name, "photos")
        photos.mkdir()
        for number, each in enumerate(NAMES):
            (photos / f"{each}.png").write_bytes(make_image(900 + 60 * number, 600, seed=number))
        (photos / "notes.jpg").write_text("Not an image\n")
        with open_terminal(Path(name), server) as terminal:
            for path, take in SCREENSHOTS.items():
                take(terminal)
                terminal.save(target / f"{path}.svg", "imagehost-client")


if __name__ == "__main__":
    main()
