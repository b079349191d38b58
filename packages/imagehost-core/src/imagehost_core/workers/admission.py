"""Which orders may have a worker, and which may wait for one, so that no kind of work starves another.

An order is light or heavy, by what it is expected to cost. The rule, for a pool of `size` workers:

- At most `size` orders are worked on at a time, and one more where all of those are heavy: that one is
  light. So a thumbnail never waits for a huge AVIF or for an upload; it shares the processor with them.
- Within that, whoever came first goes first; so thumbnails, however many, never hold up heavy work.
- Heavy orders may fill three quarters of the queue; the rest is kept for light ones.

Everything here is a pure function of counts.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from imagehost_core.formats import Format
from imagehost_core.geometry import Size
from imagehost_core.jobs import RenderJob

LIGHT_SECONDS = 0.5
"""An order that is expected to take less is light. A thumbnail from a rung takes a tenth of it."""
DECODE_SECONDS = 0.05
"""What decoding a million pixels and reducing them in linear light costs, in seconds of one core."""
ENCODE_SECONDS = {
    Format.JPEG: 0.017,
    Format.WEBP: 0.04,
    Format.AVIF: 0.08,
    Format.PNG: 0.09,
    Format.GIF: 0.05,
}
"""What encoding a million pixels costs, in seconds of one core (`docs/design/2026-11-21-pixels.md`). Only
the order of magnitude matters here."""
KEPT_SHARE = 4
"""One place of the queue in so many is kept for light orders."""


class Weight(Enum):
    """What an order is expected to cost: well below a second, or more."""

    LIGHT = "light"
    HEAVY = "heavy"


@frozen
class Counts:
    """How many orders there are of each weight.

    Attributes:
        light: Light ones.
        heavy: Heavy ones.
    """

    light: int = 0
    heavy: int = 0

    @property
    def all(self) -> int:
        """Both together."""
        return self.light + self.heavy


def weigh(job: RenderJob, source: Size, frames: int = 1) -> Weight:
    """Return what a render is expected to cost.

    Args:
        job: What is to be made.
        source: The size of the picture that is decoded for it.
        frames: How many frames that has.
    """
    return Weight.LIGHT if expected_seconds(job, source, frames) < LIGHT_SECONDS else Weight.HEAVY


def expected_seconds(job: RenderJob, source: Size, frames: int = 1) -> float:
    """Return how long a render is expected to take on one core, in seconds; arguments as for `weigh`."""
    decoded, encoded = source.pixels * DECODE_SECONDS, job.plan.output.pixels * ENCODE_SECONDS[job.format]
    return (decoded + encoded) * (frames if job.animated else 1) / 1e6


def most_busy(weight: Weight, busy: Counts, size: int) -> int:
    """Return how many orders may be worked on, when one more of this weight wants to be.

    Args:
        weight: Its weight.
        busy: What is being worked on.
        size: How many workers the pool has for all kinds of work.
    """
    return size + 1 if weight is Weight.LIGHT and busy.heavy >= size else size


def may_wait(weight: Weight, line: Counts, busy: Counts, size: int, queue: int) -> bool:
    """Return whether one more order may join the line.

    Whoever can have a worker at once passes through the line, and takes no place of the queue.

    Args:
        weight: The order's weight.
        line: What stands in line.
        busy: What is being worked on.
        size: How many workers the pool has for all kinds of work.
        queue: How many orders may wait.
    """
    at_once = max(0, most_busy(weight, busy, size) - busy.all)
    if weight is Weight.HEAVY and line.heavy >= queue - queue // KEPT_SHARE + at_once:
        return False
    return line.all < queue + at_once
