"""Entry point of the command line `imagehost-client`: parses arguments, runs a command, reports errors."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence

from imagehost_client._cli.arguments import build_parser
from imagehost_client._cli.output import Aborted, Console
from imagehost_client._cli.records import CommandError
from imagehost_client._config import DEFAULT_TIMEOUT
from imagehost_client.client import Client
from imagehost_client.errors import (
    APIConnectionError,
    ConfigurationError,
    ForbiddenError,
    ImageHostError,
    UnauthorizedError,
)

EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
"""Exit statuses; 130 is the shells' status for a command ended by SIGINT."""

HINTS: dict[type[ImageHostError], str] = {
    ConfigurationError: "set IMAGEHOST_BASE_URL, or use --base-url, such as https://images.example.com/v1",
    UnauthorizedError: "set IMAGEHOST_TOKEN to a token of this host",
    ForbiddenError: "`imagehost-client login NAME` prints a session token, which has all scopes",
    APIConnectionError: "check that the host is running, and that IMAGEHOST_BASE_URL is correct",
}
"""Hints by class of error."""


def main(argv: Sequence[str] | None = None, *, connect: Callable[..., Client] = Client) -> int:
    """Run the command line, and return its exit status.

    Args:
        argv: The arguments; by default `sys.argv[1:]`.
        connect: The factory of the client.
    """
    args = build_parser().parse_args(argv)
    console = Console(sys.stdout, sys.stderr, sys.stdin)
    if args.verbose:
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
        logging.getLogger("imagehost_client").setLevel(logging.DEBUG)
    try:
        if args.offline:
            args.action(args, console)
            return 0
        with connect(
            base_url=args.base_url,
            timeout=args.timeout or DEFAULT_TIMEOUT,
            max_retries=args.retries,
            allow_http=args.allow_http,
        ) as client:
            args.action(client, args, console)
    except ImageHostError as error:
        console.notify(str(error))
        hint = next((text for kind, text in HINTS.items() if isinstance(error, kind)), None)
        if hint:
            console.notify(hint)
        return EXIT_USAGE if isinstance(error, ConfigurationError) else EXIT_FAILURE
    except (CommandError, Aborted):
        return EXIT_FAILURE
    except BrokenPipeError:
        _mute_output()
        return EXIT_FAILURE
    except OSError as error:
        console.notify(str(error))
        return EXIT_FAILURE
    except (ValueError, TypeError) as error:
        console.notify(str(error))
        return EXIT_USAGE
    except KeyboardInterrupt:
        console.notify("interrupted")
        return EXIT_INTERRUPTED
    return 0


def _mute_output() -> None:
    """Redirect standard output to the null device after a broken pipe, as Python's docs on SIGPIPE advise."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
