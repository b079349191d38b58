"""Configuration files with which other programs upload images: pure functions of a URL and a token.

ShareX, PicGo and uPic read JSON. The others get shell scripts that upload with curl, or instructions.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from shlex import quote
from urllib.parse import urlsplit

from attrs import field, frozen

TOKEN_PLACEHOLDER = "YOUR_API_TOKEN"  # noqa: S105
"""Stands for the token in a file for a person who pastes one."""

FILE_FIELD = "image"
"""The form field of the file: form 2, whose response is the image record."""

DELETE_URL = "delete_url"
"""The form field that asks for the URL which deletes the image, and the member of the record with it."""

URL_PATH = ("data", "url")
"""The members of the response that lead to the URL of the image."""


@frozen
class UploadTarget:
    """The server that a program uploads to.

    Attributes:
        base_url: The configured URL of the HTTP interface, ending in `/v1`.
        token: An API token with the scope `images:write`, or `TOKEN_PLACEHOLDER`.
    """

    base_url: str
    token: str = field(default=TOKEN_PLACEHOLDER, repr=False)

    @property
    def upload_url(self) -> str:
        """The URL of the upload route."""
        return f"{self.base_url}/upload"

    @property
    def name(self) -> str:
        """The host and port of the server, as programs show it in lists."""
        return urlsplit(self.base_url).netloc

    @property
    def authorization(self) -> str:
        """The value of the `Authorization` header."""
        return f"Bearer {self.token}"


SHAREX_VERSION = "14.0.0"
"""The first version of ShareX that has the syntax of this file, `{json:…}`."""


def sharex(target: UploadTarget) -> str:
    """Return a custom uploader of ShareX, which is imported by a double click."""
    return _pretty(
        {
            "Version": SHAREX_VERSION,
            "Name": target.name,
            "DestinationType": "ImageUploader",
            "RequestMethod": "POST",
            "RequestURL": target.upload_url,
            "Headers": {"Authorization": target.authorization},
            "Body": "MultipartFormData",
            "FileFormName": FILE_FIELD,
            "Arguments": {DELETE_URL: "true"},
            "URL": f"{{json:{'.'.join(URL_PATH)}}}",
            "ThumbnailURL": "{json:data.thumb_url}",
            "DeletionURL": f"{{json:data.{DELETE_URL}}}",
            "ErrorMessage": "{json:error.details}",
        }
    )


def picgo(target: UploadTarget) -> str:
    """Return a configuration of PicGo that uploads with the plug-in web-uploader."""
    uploader = "web-uploader"
    return _pretty(
        {
            "picBed": {
                "current": uploader,
                "uploader": uploader,
                uploader: {
                    "url": target.upload_url,
                    "paramName": FILE_FIELD,
                    "jsonPath": ".".join(URL_PATH),
                    # The plug-in parses these two as JSON.
                    "customHeader": json.dumps({"Authorization": target.authorization}),
                    "customBody": "",
                },
            },
            "picgoPlugins": {f"picgo-plugin-{uploader}": True},
        }
    )


def upic(target: UploadTarget) -> str:
    """Return an export of uPic's hosts with a custom host: JSON within JSON within JSON."""
    data = {
        "url": target.upload_url,
        "method": "POST",
        "field": FILE_FIELD,
        "headers": json.dumps([{"key": "Authorization", "value": target.authorization}]),
        "bodys": "[]",
        "resultPath": json.dumps(URL_PATH),
        "domain": "",
        "saveKeyPath": "",
        "suffix": "",
        "useBase64": False,
    }
    host = {"id": target.name, "name": target.name, "type": "custom", "data": json.dumps(data)}
    return _pretty([json.dumps(host)])


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


UPLOAD_FUNCTION = r"""
# Upload a file and print its URL. The token is no argument of curl, because other users can see those.
upload() {
    path=$(printf '%s' "$1" | sed 's/[\\"]/\\&/g')
    response=$(printf 'Authorization: Bearer %s\n' "$token" |
        curl --silent --show-error --header @- --form "$field=@\"$path\"" "$upload_url") || response=failed
    case $response in
    *'"success":true'*) printf '%s\n' "$response" | sed 's/.*"url":"\([^"]*\)".*/\1/' ;;
    *) printf '%s: %s\n' "$1" "$response" >&2; return 1 ;;
    esac
}
"""

CURL = """
# Upload images and print their URLs, one on each line: sh curl.sh FILE...
if [ "$#" -eq 0 ]; then
    echo "usage: sh $0 FILE..." >&2
    exit 2
fi
status=0
for file in "$@"; do
    upload "$file" || status=1
done
exit "$status"
"""

FLAMESHOT = r"""
# Take a screenshot with Flameshot, upload it, print its URL and copy it to the clipboard.
# Arguments go to Flameshot, by default gui: sh flameshot.sh full
directory=$(mktemp -d) || exit 1
trap 'rm -rf "$directory"' EXIT
[ "$#" -gt 0 ] || set -- gui
flameshot "$@" --raw >"$directory/screenshot.png"
if [ ! -s "$directory/screenshot.png" ]; then
    echo "no screenshot was taken" >&2
    exit 1
fi
url=$(upload "$directory/screenshot.png") || exit 1
printf '%s\n' "$url"
if [ -n "${WAYLAND_DISPLAY:-}" ] && command -v wl-copy >/dev/null; then
    printf '%s' "$url" | wl-copy >/dev/null 2>&1
elif [ -n "${DISPLAY:-}" ] && command -v xclip >/dev/null; then
    printf '%s' "$url" | xclip -selection clipboard >/dev/null 2>&1
fi
"""


def curl_script(target: UploadTarget) -> str:
    """Return a shell script that uploads its arguments and prints their URLs."""
    return _script(target, CURL)


def flameshot_script(target: UploadTarget) -> str:
    """Return a shell script that uploads a screenshot made by Flameshot."""
    return _script(target, FLAMESHOT)


def shortcut_steps(target: UploadTarget) -> str:
    """Return the steps to make a shortcut on iOS, which imports only files that Apple has signed."""
    return f"""\
Upload images from the share sheet of iPhone, iPad and Mac to {target.name}

In the app Shortcuts, create a shortcut and add these actions:

1. Receive Images from Share Sheet.
   If there is no input: Ask For Photos.
2. Repeat with each item in Shortcut Input:
   a. Get contents of URL
      URL:           {target.upload_url}
      Method:        POST
      Headers:       Authorization = {target.authorization}
      Request Body:  Form
      Field:         {FILE_FIELD}, of the type File = Repeat Item
   b. Get value for data.url in Contents of URL
3. Copy Repeat Results to clipboard.

In the settings of the shortcut, turn on Show in Share Sheet.
"""


def _script(target: UploadTarget, body: str) -> str:
    """Return a script for POSIX shells that sets the values of a target, quoted, before anything else."""
    values = {"upload_url": target.upload_url, "token": target.token, "field": FILE_FIELD}
    assignments = "".join(f"{name}={quote(value)}\n" for name, value in values.items())
    return f"#!/bin/sh\nset -u\n{assignments}{UPLOAD_FUNCTION}{body}"


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
