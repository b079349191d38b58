"""The files that the server offers, by name."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from imagehost_server.integrations.json_files import picgo, sharex, upic
from imagehost_server.integrations.target import UploadTarget
from imagehost_server.integrations.text_files import curl_script, flameshot_script, shortcut_steps


@frozen(kw_only=True)
class Integration:
    """A configuration file of a program.

    Attributes:
        filename: The file name, which is also the last segment of its URL.
        program: The name of the program, which a key made for the file has too.
        render: Returns the file's text for a server and a token.
    """

    filename: str
    program: str
    render: Callable[[UploadTarget], str]


INTEGRATIONS: dict[str, Integration] = {
    entry.filename: entry
    for entry in (
        Integration(filename="sharex.sxcu", program="ShareX", render=sharex),
        Integration(filename="picgo.json", program="PicGo", render=picgo),
        Integration(filename="upic.json", program="uPic", render=upic),
        Integration(filename="flameshot.sh", program="Flameshot", render=flameshot_script),
        Integration(filename="shortcut.txt", program="iOS Shortcuts", render=shortcut_steps),
        Integration(filename="curl.sh", program="curl", render=curl_script),
    )
}
"""All files, by name."""
