"""The argument parser of `imagehost-client`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from imagehost_client._cli import commands
from imagehost_client._cli.completion import SHELLS, print_completion
from imagehost_client._version import __version__
from imagehost_client.models import EventKind
from imagehost_client.urls import CHOICES

Action = Callable[..., object]

EPILOG = """\
environment:
  IMAGEHOST_BASE_URL  base URL of the API; ends in /v1
  IMAGEHOST_TOKEN     API token (there is no flag for it, because other users can read the process list)
  IMAGEHOST_CDN_URL   base URL of image delivery; default: /img on the same host

exit status:
  0 success, 1 request failed, 2 usage error, 130 interrupted
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the argument parser with all commands."""
    parser = argparse.ArgumentParser(
        prog="imagehost-client",
        description="Upload and manage images on an image host.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--base-url", metavar="URL", help="base URL of the API")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="network timeout of an attempt")
    parser.add_argument(
        "--retries", type=_count, default=3, metavar="N", help="maximum number of retries (default 3)"
    )
    parser.add_argument("--allow-http", action="store_true", help="allow plain HTTP to remote hosts")
    parser.add_argument("-v", "--verbose", action="store_true", help="log every attempt to standard error")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _upload(verbs)
    _images(verbs)
    _albums(_group(verbs, "albums", "manage albums"))
    _keys(_group(verbs, "keys", "manage API keys (requires a session token: see login)"))
    _webhooks(_group(verbs, "webhooks", "manage webhooks"))
    _command(verbs, "account", "show usage, quota and rate limits", commands.account)
    for name, text, action in (
        ("login", "sign in, and print the session token", commands.login),
        ("register", "create an account, where the host has open registration", commands.register),
    ):
        _command(verbs, name, text, action).add_argument("username")
    _command(verbs, "logout", "end the current session", commands.logout)
    _command(verbs, "config", "show the effective settings and their sources", commands.config, offline=True)
    completion = _command(
        verbs, "completion", "print a completion script", partial(print_completion, parser), offline=True
    )
    completion.add_argument("shell", choices=SHELLS)
    return parser


Verbs = argparse._SubParsersAction  # noqa: SLF001 - argparse has no public name for this type


def _command(
    verbs: Verbs[argparse.ArgumentParser], name: str, text: str, action: Action, *, offline: bool = False
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.set_defaults(action=action, offline=offline)
    return parser


def _group(verbs: Verbs[argparse.ArgumentParser], name: str, text: str) -> Verbs[argparse.ArgumentParser]:
    parser = verbs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def _upload(verbs: Verbs[argparse.ArgumentParser]) -> None:
    parser = _command(
        verbs, "upload", "upload files, directories or patterns; - is standard input", commands.upload
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    output = parser.add_mutually_exclusive_group()
    for kind, text in {
        "json": "one JSON record per line",
        "markdown": "Markdown",
        "html": "HTML",
        "bbcode": "BBCode",
    }.items():
        output.add_argument(f"--{kind}", dest="show", action="store_const", const=kind, help=f"print {text}")
    parser.add_argument("--album", metavar="ID", help="add the images to this album")
    parser.add_argument("--description", metavar="TEXT")
    parser.add_argument("--name", metavar="NAME", help="file name, for a single file")
    parser.add_argument("--quality", type=int, metavar="N", help="1 to 100")
    parser.add_argument("--format", choices=("auto", "jpeg", "png", "webp"), help="stored format")
    parser.add_argument("--keep-format", action="store_true", help="do not convert to WebP")
    parser.add_argument("--remove-exif", action="store_true")
    parser.add_argument("--auto-rename", action="store_true", help="store under a random file name")
    parser.add_argument("--private", action="store_true", help="exclude the images from the public gallery")
    parser.add_argument("--checksum", action="store_true", help="verify checksums (requires --keep-format)")
    parser.add_argument(
        "--parallel", type=_positive, default=4, metavar="N", help="concurrent uploads (default 4)"
    )
    parser.add_argument("--journal", metavar="FILE", help="record progress, to resume an interrupted run")
    parser.add_argument("--quiet", action="store_true", help="hide the progress bar")


def _images(verbs: Verbs[argparse.ArgumentParser]) -> None:
    listing = _command(verbs, "ls", "list your images, newest first", commands.list_images)
    listing.add_argument("--album", metavar="ID", help="only the images of this album")
    _list_options(listing)
    show = _command(verbs, "show", "print images as JSON", commands.show_images)
    show.add_argument("images", nargs="+", metavar="ID")
    update = _with_id(_command(verbs, "update", "change an image", commands.update_image))
    album = update.add_mutually_exclusive_group()
    album.add_argument("--album", metavar="ID", help="move it to this album")
    album.add_argument("--no-album", action="store_true", help="remove it from its album")
    update.add_argument("--name", metavar="NAME", help="file name")
    _metadata_options(update)
    remove = _command(verbs, "rm", "delete images permanently", commands.delete_images)
    remove.add_argument("images", nargs="+", metavar="ID")
    _confirm_option(remove)
    _list_options(_command(verbs, "gallery", "list the public images of all accounts", commands.list_gallery))
    render = _transform_options(
        _command(verbs, "render", "fetch an image, resized or as stored", commands.render_image)
    )
    render.add_argument("-o", "--output", metavar="FILE", help="output file (default standard output)")
    url = _transform_options(_command(verbs, "url", "print an image's URL", commands.image_url))
    kind = url.add_mutually_exclusive_group()
    kind.add_argument(
        "--signed", type=_positive, metavar="SECONDS", help="print a signed URL that expires after SECONDS"
    )
    kind.add_argument("--srcset", type=_widths, metavar="WIDTHS", help="print a srcset, such as 320,640,1280")
    kind.add_argument("--picture", type=_widths, metavar="WIDTHS", help="print a <picture> element")


def _albums(verbs: Verbs[argparse.ArgumentParser]) -> None:
    _list_options(_command(verbs, "ls", "list your albums", commands.list_albums))
    create = _command(verbs, "create", "create an album, and print its id", commands.create_album)
    create.add_argument("name")
    create.add_argument("--description", metavar="TEXT")
    create.add_argument("--private", action="store_true")
    _with_id(_command(verbs, "show", "print an album as JSON", commands.show_album))
    update = _with_id(_command(verbs, "update", "change an album", commands.update_album))
    update.add_argument("--name", metavar="NAME")
    _metadata_options(update)
    remove = _with_id(_command(verbs, "rm", "delete an album, without its images", commands.delete_album))
    remove.add_argument("--delete-images", action="store_true", help="delete its images too, permanently")
    _confirm_option(remove)
    for name, action in {"add": commands.add_images, "remove": commands.remove_images}.items():
        parser = _with_id(_command(verbs, name, f"{name} images", action))
        parser.add_argument("images", nargs="+", metavar="IMAGE")


def _keys(verbs: Verbs[argparse.ArgumentParser]) -> None:
    _list_options(_command(verbs, "ls", "list your API keys", commands.list_keys))
    create = _command(verbs, "create", "create an API key, and print its token", commands.create_key)
    create.add_argument("name")
    update = _with_id(_command(verbs, "update", "change an API key", commands.update_key))
    update.add_argument("--name", metavar="NAME")
    for parser in (create, update):
        parser.add_argument(
            "--scope", action="append", metavar="SCOPE", help="a granted scope; may be repeated"
        )
        parser.add_argument(
            "--expires", type=_expiry, metavar="WHEN", help="90d, 12h, or an ISO 8601 time with UTC offset"
        )
    _with_id(_command(verbs, "show", "print an API key as JSON", commands.show_key))
    _confirm_option(_with_id(_command(verbs, "rm", "revoke an API key", commands.delete_key)))


def _webhooks(verbs: Verbs[argparse.ArgumentParser]) -> None:
    _list_options(_command(verbs, "ls", "list webhooks", commands.list_webhooks))
    create = _command(verbs, "create", "create a webhook, and print its secret", commands.create_webhook)
    create.add_argument("url")
    update = _with_id(_command(verbs, "update", "change a webhook", commands.update_webhook))
    update.add_argument("--url", metavar="URL")
    state = update.add_mutually_exclusive_group()
    for flag, active in {"--active": True, "--inactive": False}.items():
        state.add_argument(flag, dest="is_active", action="store_const", const=active)
    for parser in (create, update):
        parser.add_argument("--description", metavar="TEXT")
        parser.add_argument(
            "--event", action="append", choices=tuple(map(str, EventKind)), help="may be repeated"
        )
    _with_id(_command(verbs, "show", "print a webhook as JSON", commands.show_webhook))
    _confirm_option(_with_id(_command(verbs, "rm", "delete a webhook", commands.delete_webhook)))
    _with_id(_command(verbs, "test", "send a test event", commands.test_webhook))
    _with_id(_command(verbs, "rotate", "replace the signing secret, and print it", commands.rotate_webhook))
    _list_options(
        _with_id(_command(verbs, "deliveries", "list a webhook's deliveries", commands.list_deliveries))
    )
    retry = _with_id(_command(verbs, "retry", "send a delivery again", commands.retry_delivery))
    retry.add_argument("delivery", metavar="DELIVERY")


def _transform_options(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add an image argument and the processing parameters."""
    parser.add_argument("image", metavar="ID")
    parser.add_argument("-W", "--width", type=int, metavar="PIXELS")
    parser.add_argument("-H", "--height", type=int, metavar="PIXELS")
    parser.add_argument("-q", "--quality", type=int, metavar="N", help="1 to 100")
    parser.add_argument("--fit", choices=CHOICES["fit"])
    parser.add_argument("--format", choices=CHOICES["fm"])
    return parser


def _metadata_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--description", metavar="TEXT")
    visibility = parser.add_mutually_exclusive_group()
    for flag, public in {"--public": True, "--private": False}.items():
        visibility.add_argument(flag, dest="is_public", action="store_const", const=public)


def _with_id(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("id", metavar="ID")
    return parser


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=_positive, metavar="N", help="maximum number of records")
    parser.add_argument("--json", action="store_true", help="print one JSON record per line")


def _confirm_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"expected a whole number but received {text!r}")
    return int(text)


def _positive(text: str) -> int:
    number = _count(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0 but received {text!r}")
    return number


def _expiry(text: str) -> datetime:
    """Return an expiry, given as days (`90d`) or hours (`12h`) from now, or as an ISO 8601 time."""
    unit = {"d": "days", "h": "hours"}.get(text[-1:])
    try:
        if unit is not None:
            return datetime.now(UTC) + timedelta(**{unit: _positive(text[:-1])})
        expiry = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        expiry = None
    if expiry is None or expiry.tzinfo is None:
        raise argparse.ArgumentTypeError(
            f"expected days (90d), hours (12h) or a time with a UTC offset but received {text!r}"
        )
    return expiry


def _widths(text: str) -> Sequence[int]:
    return [_positive(width) for width in text.split(",")]
