"""The command line `imagehost-client`: it reads arguments, runs a command, and says what went wrong."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence

from imagehost_client._cli.arguments import build_parser
from imagehost_client._cli.commands import CommandError
from imagehost_client._cli.output import Aborted, Console
from imagehost_client._config import DEFAULT_TIMEOUT
from imagehost_client.client import Client
from imagehost_client.errors import (
    APIConnectionError,
    ConfigurationError,
    ForbiddenError,
    ImageHostError,
    UnauthorizedError,
)

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
"""Exit statuses; 130 is what shells give to a command that Ctrl-C ends."""

HINTS: dict[type[ImageHostError], str] = {
    ConfigurationError: "set IMAGEHOST_BASE_URL, or use --base-url, such as https://images.example.com/v1",
    UnauthorizedError: "set IMAGEHOST_TOKEN to a token of this host",
    ForbiddenError: "`imagehost-client login NAME` prints a token that may do everything",
    APIConnectionError: "is the host running, and IMAGEHOST_BASE_URL right?",
}
"""What may help after an error."""


def main(argv: Sequence[str] | None = None, *, connect: Callable[..., Client] = Client) -> int:
    """Run the command line, and return its exit status.

    Args:
        argv: The arguments; those of the process by default.
        connect: Makes the client.
    """
    args = build_parser().parse_args(argv)
    out = Console(sys.stdout, sys.stderr, sys.stdin)
    if args.verbose:
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
        logging.getLogger("imagehost_client").setLevel(logging.DEBUG)
    try:
        if args.offline:
            args.action(args, out)
            return 0
        with connect(
            base_url=args.base_url,
            timeout=args.timeout or DEFAULT_TIMEOUT,
            max_retries=args.retries,
            allow_http=args.allow_http,
        ) as client:
            args.action(client, args, out)
    except ImageHostError as error:
        out.notify(str(error))
        hint = next((text for kind, text in HINTS.items() if isinstance(error, kind)), None)
        if hint:
            out.notify(hint)
        return MISUSED if isinstance(error, ConfigurationError) else FAILED
    except (CommandError, Aborted):
        return FAILED
    except BrokenPipeError:
        _mute_output()
        return FAILED
    except OSError as error:
        out.notify(str(error))
        return FAILED
    except (ValueError, TypeError) as error:
        out.notify(str(error))
        return MISUSED
    except KeyboardInterrupt:
        out.notify("interrupted")
        return INTERRUPTED
    return 0


def _mute_output() -> None:
    """Let the rest of the output go nowhere, for its reader has gone (as Python's docs on SIGPIPE advise)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
