"""Shell scripts that upload with curl, and instructions for programs without a configuration file."""

from __future__ import annotations

from shlex import quote

from imagehost_server.integrations.target import FILE_FIELD, UploadTarget

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
