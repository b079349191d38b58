"""Commands on several images: what fails is reported, and the rest is done."""

from __future__ import annotations

import click
from attrs import define, field

from imagehost_client import errors
from imagehost_client._cli.output import Console
from imagehost_client._cli.statuses import ExitStatus, batch_status, exit_status


@define
class Batch:
    """The outcomes of the items of one command.

    Attributes:
        console: Where failures are printed.
        succeeded: The number of items that did not fail.
        failures: The exit status of each item that failed.
    """

    console: Console
    succeeded: int = 0
    failures: list[ExitStatus] = field(factory=list)

    def fail(self, name: str, error: BaseException) -> None:
        """Report the error of an item."""
        self.console.error(f"{name}: {error}")
        self.failures.append(exit_status(error))

    def fail_by_code(self, name: str, error_code: str, text: str) -> None:
        """Report the error of an item, given as a code of the host."""
        self.fail(name, errors.BY_CODE.get(error_code, errors.ImageHostError)(text))

    def finish(self) -> None:
        """End the command with the exit status of the outcomes, unless all items succeeded."""
        status = batch_status(self.failures, self.succeeded)
        if status is not ExitStatus.SUCCESS:
            raise click.exceptions.Exit(status)
