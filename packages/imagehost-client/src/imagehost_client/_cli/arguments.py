"""The arguments of `imagehost-client`: one parser, built from small pieces."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from imagehost_client import __version__
from imagehost_client._cli import commands
from imagehost_client._cli import completion as shell
from imagehost_client.models import EventKind
from imagehost_client.urls import CHOICES

Action = Callable[..., object]

EPILOG = """\
environment:
  IMAGEHOST_BASE_URL  the address of the interface; it ends in /v1
  IMAGEHOST_TOKEN     the API token (there is no flag for it: others could read it in the list of processes)
  IMAGEHOST_CDN_URL   where images are served, if not at /img on the same host

exit status:
  0 done, 1 the host refused or could not be reached, 2 wrong use, 130 interrupted
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="imagehost-client",
        description="Upload images to an image host, and manage them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--base-url", metavar="URL", help="the address of the interface")
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="how long a try may wait for the network"
    )
    parser.add_argument(
        "--retries", type=_count, default=3, metavar="N", help="tries after the first (default 3)"
    )
    parser.add_argument("--allow-http", action="store_true", help="permit plain HTTP beyond this machine")
    parser.add_argument("-v", "--verbose", action="store_true", help="log every try to standard error")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _upload(verbs)
    _images(verbs)
    _albums(_group(verbs, "albums", "manage albums"))
    _keys(_group(verbs, "keys", "manage API keys (with a session's token: see login)"))
    _webhooks(_group(verbs, "webhooks", "manage destinations of events"))
    _command(verbs, "account", "show usage, quota and limits", commands.account)
    for name, text, action in (
        ("login", "sign in, and print the session's token", commands.login),
        ("register", "make an account, where the host lets anybody do so", commands.register),
    ):
        parser_of_name = _command(verbs, name, text, action)
        parser_of_name.add_argument("username")
    _command(verbs, "logout", "end the session whose token is set", commands.logout)
    _command(verbs, "config", "show the settings, and where each comes from", commands.config, offline=True)
    completion = _command(verbs, "completion", "print completion for a shell", shell.completion, offline=True)
    completion.add_argument("shell", choices=shell.SHELLS)
    return parser


Verbs = argparse._SubParsersAction  # noqa: SLF001 - argparse gives it no other name


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
        verbs, "upload", "upload files, folders or patterns; - is standard input", commands.upload
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    shown = parser.add_mutually_exclusive_group()
    for kind, text in {
        "json": "a record a line",
        "markdown": "Markdown",
        "html": "HTML",
        "bbcode": "BBCode",
    }.items():
        shown.add_argument(f"--{kind}", dest="show", action="store_const", const=kind, help=f"print {text}")
    parser.add_argument("--album", metavar="ID", help="put the images into this album")
    parser.add_argument("--description", metavar="TEXT")
    parser.add_argument("--name", metavar="NAME", help="the file's name, where one file is sent")
    parser.add_argument("--quality", type=int, metavar="N", help="1 to 100")
    parser.add_argument("--format", choices=("auto", "jpeg", "png", "webp"), help="the stored format")
    parser.add_argument("--keep-format", action="store_true", help="do not convert to WebP")
    parser.add_argument("--remove-exif", action="store_true")
    parser.add_argument("--auto-rename", action="store_true", help="let the host choose a name")
    parser.add_argument("--private", action="store_true", help="keep the images out of the public gallery")
    parser.add_argument("--checksum", action="store_true", help="compare checksums (needs --keep-format)")
    parser.add_argument(
        "--parallel", type=_positive, default=4, metavar="N", help="files sent at once (default 4)"
    )
    parser.add_argument("--journal", metavar="FILE", help="note what is done; a stopped run goes on from it")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def _images(verbs: Verbs[argparse.ArgumentParser]) -> None:
    listing = _command(verbs, "ls", "list your images, newest first", commands.list_images)
    listing.add_argument("--album", metavar="ID", help="only the images of this album")
    _list_options(listing)
    show = _command(verbs, "show", "print images' records as JSON", commands.show_images)
    show.add_argument("images", nargs="+", metavar="ID")
    update = _with_id(_command(verbs, "update", "change an image's record", commands.update_image))
    album = update.add_mutually_exclusive_group()
    album.add_argument("--album", metavar="ID", help="put it into this album")
    album.add_argument("--no-album", action="store_true", help="take it out of its album")
    update.add_argument("--name", metavar="NAME", help="its file name")
    _described(update)
    remove = _command(verbs, "rm", "delete images, for good", commands.delete_images)
    remove.add_argument("images", nargs="+", metavar="ID")
    _confirmed(remove)
    _list_options(_command(verbs, "gallery", "list everybody's public images", commands.list_gallery))
    render = _look(_command(verbs, "render", "fetch a picture, resized or as it is", commands.render_image))
    render.add_argument(
        "-o", "--output", metavar="FILE", help="where it is written; standard output by default"
    )
    url = _look(_command(verbs, "url", "print an image's address", commands.image_url))
    kind = url.add_mutually_exclusive_group()
    kind.add_argument(
        "--signed", type=_positive, metavar="SECONDS", help="an address that works without a token"
    )
    kind.add_argument("--srcset", type=_widths, metavar="WIDTHS", help="a srcset, such as 320,640,1280")
    kind.add_argument("--picture", type=_widths, metavar="WIDTHS", help="a <picture> element")


def _albums(verbs: Verbs[argparse.ArgumentParser]) -> None:
    _list_options(_command(verbs, "ls", "list your albums", commands.list_albums))
    create = _command(verbs, "create", "make an album, and print its id", commands.create_album)
    create.add_argument("name")
    create.add_argument("--description", metavar="TEXT")
    create.add_argument("--private", action="store_true")
    _with_id(_command(verbs, "show", "print an album's record as JSON", commands.show_album))
    update = _with_id(_command(verbs, "update", "change an album's record", commands.update_album))
    update.add_argument("--name", metavar="NAME")
    _described(update)
    remove = _with_id(_command(verbs, "rm", "delete an album; its images stay", commands.delete_album))
    remove.add_argument("--delete-images", action="store_true", help="delete its images too, for good")
    _confirmed(remove)
    for name, action in {"add": commands.add_images, "remove": commands.remove_images}.items():
        parser = _with_id(_command(verbs, name, f"{name} images", action))
        parser.add_argument("images", nargs="+", metavar="IMAGE")


def _keys(verbs: Verbs[argparse.ArgumentParser]) -> None:
    _list_options(_command(verbs, "ls", "list your API keys", commands.list_keys))
    create = _command(verbs, "create", "make an API key, and print its token", commands.create_key)
    create.add_argument("name")
    update = _with_id(_command(verbs, "update", "change a key's record", commands.update_key))
    update.add_argument("--name", metavar="NAME")
    for parser in (create, update):
        parser.add_argument(
            "--scope", action="append", metavar="SCOPE", help="what it may do; may be repeated"
        )
        parser.add_argument("--expires", type=_end, metavar="WHEN", help="90d, 12h, or a time with its zone")
    _with_id(_command(verbs, "show", "print a key's record as JSON", commands.show_key))
    _confirmed(_with_id(_command(verbs, "rm", "revoke a key", commands.delete_key)))


def _webhooks(verbs: Verbs[argparse.ArgumentParser]) -> None:
    _list_options(_command(verbs, "ls", "list the destinations", commands.list_webhooks))
    create = _command(verbs, "create", "add a destination, and print its secret", commands.create_webhook)
    create.add_argument("url")
    update = _with_id(_command(verbs, "update", "change a destination", commands.update_webhook))
    update.add_argument("--url", metavar="URL")
    state = update.add_mutually_exclusive_group()
    for flag, active in {"--active": True, "--inactive": False}.items():
        state.add_argument(flag, dest="is_active", action="store_const", const=active)
    for parser in (create, update):
        parser.add_argument("--description", metavar="TEXT")
        parser.add_argument(
            "--event", action="append", choices=tuple(map(str, EventKind)), help="may be repeated"
        )
    _with_id(_command(verbs, "show", "print a destination's record as JSON", commands.show_webhook))
    _confirmed(_with_id(_command(verbs, "rm", "remove a destination", commands.delete_webhook)))
    _with_id(_command(verbs, "test", "send a test event", commands.test_webhook))
    _with_id(_command(verbs, "rotate", "make and print a new secret", commands.rotate_webhook))
    _list_options(_with_id(_command(verbs, "deliveries", "list deliveries", commands.list_deliveries)))
    retry = _with_id(_command(verbs, "retry", "send a delivery again", commands.retry_delivery))
    retry.add_argument("delivery", metavar="DELIVERY")


def _look(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Give a command an image, and how it is to look."""
    parser.add_argument("image", metavar="ID")
    parser.add_argument("-W", "--width", type=int, metavar="PIXELS")
    parser.add_argument("-H", "--height", type=int, metavar="PIXELS")
    parser.add_argument("-q", "--quality", type=int, metavar="N", help="1 to 100")
    parser.add_argument("--fit", choices=CHOICES["fit"])
    parser.add_argument("--format", choices=CHOICES["fm"])
    return parser


def _described(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--description", metavar="TEXT")
    shown = parser.add_mutually_exclusive_group()
    for flag, public in {"--public": True, "--private": False}.items():
        shown.add_argument(flag, dest="is_public", action="store_const", const=public)


def _with_id(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("id", metavar="ID")
    return parser


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=_positive, metavar="N", help="show at most so many")
    parser.add_argument("--json", action="store_true", help="print a record a line")


def _confirmed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"expected a whole number but received {text!r}")
    return int(text)


def _positive(text: str) -> int:
    number = _count(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0 but received {text!r}")
    return number


def _end(text: str) -> datetime:
    """Return a time to come: so many days or hours from now, or the time itself."""
    unit = {"d": "days", "h": "hours"}.get(text[-1:])
    try:
        if unit is not None:
            return datetime.now(UTC) + timedelta(**{unit: _positive(text[:-1])})
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise argparse.ArgumentTypeError(
            f"expected days (90d), hours (12h) or a time with its zone but received {text!r}"
        )
    return moment


def _widths(text: str) -> Sequence[int]:
    return [_positive(width) for width in text.split(",")]
