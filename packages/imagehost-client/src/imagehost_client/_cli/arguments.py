"""The argument parser of `imagehost-client`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import get_args

from imagehost_client._calls import UNSET, ImageSort, UploadFormat
from imagehost_client._cli import account_commands, commands
from imagehost_client._cli.completion import SHELLS, print_completion
from imagehost_client._version import __version__
from imagehost_client.models import EventKind, Format, Role
from imagehost_client.urls import CHOICES

Action = Callable[..., object]

STORED_FORMATS = tuple(str(kind) for kind in Format if kind is not Format.AVIF)
"""The formats in which images are stored; AVIF is a format of delivery only."""

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
    _sessions(_group(verbs, "sessions", "manage your sessions (requires a session token: see login)"))
    _accounts(_group(verbs, "accounts", "manage accounts (requires an operator's session token)"))
    _command(verbs, "account", "show usage, quota and rate limits", account_commands.show_own_account)
    _command(
        verbs, "passwd", "change your password (requires a session token)", account_commands.change_password
    )
    for name, text, action in (
        ("login", "sign in, and print the session token", account_commands.login),
        ("register", "create an account, where the host has open registration", account_commands.register),
    ):
        _command(verbs, name, text, action).add_argument("username")
    _command(verbs, "logout", "end the current session", account_commands.logout)
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
    parser.add_argument("--format", type=str.lower, choices=get_args(UploadFormat), help="stored format")
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
    listing.add_argument("--q", metavar="WORDS", help="words in the file name or the description")
    _visibility_options(listing)
    listing.add_argument("--format", type=str.lower, choices=STORED_FORMATS, help="stored format")
    for name, text in {"after": "later", "before": "earlier"}.items():
        listing.add_argument(
            f"--{name}", type=_time, metavar="TIME", help=f"only {text} images; ISO 8601, local by default"
        )
    listing.add_argument("--sort", choices=get_args(ImageSort), help="--sort=-size is the largest first")
    _list_options(listing)
    show = _command(verbs, "show", "print images as JSON", commands.show_images)
    show.add_argument("images", nargs="+", metavar="ID")
    update = _command(verbs, "update", "change images in the same way", commands.update_images)
    update.add_argument("images", nargs="+", metavar="ID")
    album = update.add_mutually_exclusive_group()
    album.add_argument("--album", metavar="ID", help="move it to this album")
    album.add_argument("--no-album", action="store_true", help="remove it from its album")
    update.add_argument("--name", metavar="NAME", help="file name")
    _metadata_options(update)
    remove = _command(verbs, "rm", "delete images permanently", commands.delete_images)
    remove.add_argument("images", nargs="+", metavar="ID")
    _confirm_option(remove)
    gallery = _command(verbs, "gallery", "list the public images of all accounts", commands.list_gallery)
    gallery.add_argument("--album", metavar="ID", help="only the images of this public album")
    _list_options(gallery)
    render = _transform_options(
        _command(verbs, "render", "fetch an image, resized or as stored", commands.render_image)
    )
    render.add_argument("-o", "--output", metavar="FILE", help="output file (default standard output)")
    url = _transform_options(
        _command(verbs, "url", "print the URLs of images", commands.image_urls), many=True
    )
    kind = url.add_mutually_exclusive_group()
    kind.add_argument(
        "--signed", type=_positive, metavar="SECONDS", help="print signed URLs that expire after SECONDS"
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


def _sessions(verbs: Verbs[argparse.ArgumentParser]) -> None:
    _list_options(_command(verbs, "ls", "list your sessions", account_commands.list_sessions))
    _confirm_option(_with_id(_command(verbs, "rm", "end a session", account_commands.delete_session)))


def _accounts(verbs: Verbs[argparse.ArgumentParser]) -> None:
    _list_options(_command(verbs, "ls", "list all accounts", account_commands.list_accounts))
    create = _command(verbs, "create", "create an account, and print its id", account_commands.create_account)
    create.add_argument("username")
    _with_id(_command(verbs, "show", "print an account as JSON", account_commands.show_account))
    update = _with_id(_command(verbs, "update", "change an account", account_commands.update_account))
    state = update.add_mutually_exclusive_group()
    for flag, suspended in {"--suspend": True, "--resume": False}.items():
        state.add_argument(flag, dest="suspended", action="store_const", const=suspended)
    for parser in (create, update):
        parser.add_argument("--role", choices=tuple(map(str, Role)))
        for name in account_commands.LIMITS:
            parser.add_argument(
                f"--{name.replace('_', '-')}",
                type=_limit,
                default=UNSET,
                metavar="N",
                help="0 is unlimited, `default` is the host's",
            )


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


def _transform_options(parser: argparse.ArgumentParser, *, many: bool = False) -> argparse.ArgumentParser:
    """Add an argument for an image, or several, and the processing parameters."""
    parser.add_argument("images" if many else "image", nargs="+" if many else None, metavar="ID")
    parser.add_argument("-W", "--width", type=int, metavar="PIXELS")
    parser.add_argument("-H", "--height", type=int, metavar="PIXELS")
    parser.add_argument("-q", "--quality", type=int, metavar="N", help="1 to 100")
    parser.add_argument("--fit", type=str.lower, choices=CHOICES["fit"])
    parser.add_argument("--format", type=str.lower, choices=CHOICES["fm"])
    return parser


def _metadata_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--description", metavar="TEXT")
    _visibility_options(parser)


def _visibility_options(parser: argparse.ArgumentParser) -> None:
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


def _limit(text: str) -> int | None:
    """Return a limit; `default` means that of the host."""
    return None if text == "default" else _count(text)


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


def _time(text: str) -> datetime:
    """Return a time, given in ISO 8601; without a UTC offset it is local time."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"expected a date or a time but received {text!r}") from None


def _widths(text: str) -> Sequence[int]:
    return [_positive(width) for width in text.split(",")]
