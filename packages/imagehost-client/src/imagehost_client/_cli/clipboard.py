"""The system's clipboard: programs that copy to it, or the terminal."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

PROGRAMS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("darwin", "", ("pbcopy",)),
    ("win32", "", ("clip",)),
    ("linux", "WAYLAND_DISPLAY", ("wl-copy",)),
    ("linux", "DISPLAY", ("xclip", "-selection", "clipboard")),
    ("linux", "DISPLAY", ("xsel", "--clipboard", "--input")),
    ("linux", "TERMUX_VERSION", ("termux-clipboard-set",)),
)
"""Programs that copy standard input: platform, a variable that must be set, and the command."""

TIMEOUT = 10
"""The maximum duration of such a program, in seconds."""


def copy(text: str, *, environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    """Copy `text` to the clipboard, and return whether a program or the terminal took it.

    Without a program, such as in an SSH session, the terminal receives the escape sequence OSC 52; whether
    it obeys is its setting.

    Args:
        text: The text.
        environ: The environment variables.
        platform: The value of `sys.platform`.
    """
    for system, variable, command in PROGRAMS:
        if system != platform or (variable and not environ.get(variable)) or not shutil.which(command[0]):
            continue
        try:
            subprocess.run(  # noqa: S603 - a command of the table
                command,
                input=text.encode(),
                check=True,
                timeout=TIMEOUT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        return True
    if not sys.stderr.isatty() or environ.get("TERM") == "dumb":
        return False
    sys.stderr.write(f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07")
    sys.stderr.flush()
    return True
