"""For tests of programs that speak to the interface: the real server in a process of its own.

```python
with running(tmp_path / "data") as server:
    ...  # server.base_url, server.token
```
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from attrs import define, field

START_SECONDS = 60.0
STOP_SECONDS = 30.0


@define
class RunningServer:
    """A server that was started by `imagehost serve`.

    Attributes:
        data: Its data folder.
        process: Its first process.
        base_url: The address of the interface.
        output: What it printed on its standard output before it served.
        log: The file with its log.
    """

    data: Path
    process: subprocess.Popen[str] = field(repr=False)
    base_url: str
    output: str = field(repr=False)
    log: Path

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return self.base_url.removesuffix("/v1")

    @property
    def token(self) -> str:
        """The token of the first start; it has every scope.

        Raises:
            LookupError: The folder was not empty.
        """
        found = re.search(r"\bihk_\w+", self.output)
        if found is None:
            raise LookupError("expected the output of a first start")
        return found[0]

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.origin.rpartition(":")[2])

    def kill(self) -> None:
        """End it as a crash would (SIGKILL), with all its processes."""
        self._signal_all(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end (SIGTERM), and return its exit status; what is left after a while is killed."""
        self.process.terminate()
        try:
            return self.process.wait(STOP_SECONDS)
        finally:
            self._signal_all(signal.SIGKILL)

    def _signal_all(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


@contextmanager
def running(data: Path, *flags: str, variables: Mapping[str, str] | None = None) -> Iterator[RunningServer]:
    """Run a server on a free port until the block ends.

    Args:
        data: The data folder; it is made if there is none.
        flags: More flags of `imagehost serve`.
        variables: Settings, as `IMAGEHOST_*` variables; those of the environment do not count.

    Raises:
        RuntimeError: It did not start.
    """
    server = start(data, *flags, variables=variables)
    try:
        yield server
    finally:
        server.stop()
        if server.process.stdout is not None:
            server.process.stdout.close()


def start(data: Path, *flags: str, variables: Mapping[str, str] | None = None) -> RunningServer:
    """Start a server on a free port, and return it when it answers; arguments as for `running`.

    Raises:
        RuntimeError: It did not start.
    """
    log = data.with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    port = () if "--port" in flags else ("--port", "0")
    with log.open("ab") as errors:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "imagehost_server", "serve", "--data", str(data), *port, *flags],
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(variables),
            start_new_session=True,
            text=True,
        )
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or not lines[-1].startswith("Serving "):
        line = process.stdout.readline()
        if not line:
            process.stdout.close()
            raise RuntimeError(f"the server ended with {process.wait()}: {log.read_text(encoding='utf-8')}")
        lines.append(line)
    base_url = lines[-1].split()[1]
    server = RunningServer(data, process, base_url, "".join(lines), log)
    _wait(server)
    return server


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment with other settings of imagehost, and no others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("IMAGEHOST_")}
    return {**kept, **(variables or {})}


def _wait(server: RunningServer) -> None:
    """Wait until the server takes connections; over TLS, for whatever it answers to plain words."""
    ends = time.monotonic() + START_SECONDS
    address = f"http://{server.origin.partition('://')[2]}/healthz"
    while time.monotonic() < ends and server.process.poll() is None:
        try:
            urlopen(address, timeout=5).close()
        except (ConnectionRefusedError, TimeoutError):
            pass
        except OSError as error:
            if not isinstance(getattr(error, "reason", None), ConnectionRefusedError):
                return
        except HTTPException:
            return
        else:
            return
        time.sleep(0.05)
    server.kill()
    raise RuntimeError(f"the server does not answer: {server.log.read_text(encoding='utf-8')}")
