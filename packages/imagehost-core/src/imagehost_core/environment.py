"""The environment of a host: what it takes from outside."""

from __future__ import annotations

import os

from attrs import frozen

from imagehost_core._util.clock import Clock, utc_now
from imagehost_core.endpoints import HostResolver, resolve_host
from imagehost_core.ids import Random
from imagehost_core.observer import Observer, ignore


@frozen
class Environment:
    """What a host takes from outside; by default from the system.

    Attributes:
        clock: The current time.
        random: Unpredictable bytes.
        resolve: The DNS lookup of webhook hosts.
        observe: Receives measurements.
    """

    clock: Clock = utc_now
    random: Random = os.urandom
    resolve: HostResolver = resolve_host
    observe: Observer = ignore
