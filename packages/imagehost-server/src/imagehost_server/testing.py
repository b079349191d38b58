"""Test support for programs that use the API: the real server in a separate process.

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

START_SECONDS = STOP_SECONDS = 600.0
"""The longest time of a start and of a stop: a busy machine takes a hundred times as long as a quiet one."""


@define
class RunningServer:
    """A server process that was started by `imagehost serve`.

    Attributes:
        data: The data directory.
        process: The main process.
        base_url: The base URL of the API.
        output: The standard output until the server was ready.
        log: The path of the log file.
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
        """The API token of the first start, which has all scopes.

        Raises:
            LookupError: The data directory was not empty.
        """
        match = re.search(r"\bihk_\w+", self.output)
        if match is None:
            raise LookupError("expected the output of a first start")
        return match[0]

    @property
    def port(self) -> int:
        """The TCP port."""
        return int(self.origin.rpartition(":")[2])

    def kill(self) -> None:
        """Kill all processes of the server (SIGKILL), as a crash would."""
        self._kill_all()
        self.process.wait()

    def stop(self) -> int:
        """Stop the server (SIGTERM) and return its exit status; kill it after `STOP_SECONDS`."""
        self.process.terminate()
        try:
            return self.process.wait(STOP_SECONDS)
        finally:
            self._kill_all()

    def _kill_all(self) -> None:
        if sys.platform == "win32":
            self.process.kill()
        else:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


@contextmanager
def running(data: Path, *flags: str, variables: Mapping[str, str] | None = None) -> Iterator[RunningServer]:
    """Run a server on a free port until the block ends.

    Args:
        data: The data directory; created if it does not exist.
        flags: Further flags of `imagehost serve`.
        variables: Settings as `IMAGEHOST_*` variables; those of this process are not inherited.

    Raises:
        RuntimeError: The server did not start.
    """
    server = start(data, *flags, variables=variables)
    try:
        yield server
    finally:
        server.stop()
        if server.process.stdout is not None:
            server.process.stdout.close()


def start(data: Path, *flags: str, variables: Mapping[str, str] | None = None) -> RunningServer:
    """Start a server on a free port, and return it once it accepts connections.

    Args:
        data: The data directory; created if it does not exist.
        flags: Further flags of `imagehost serve`.
        variables: Settings as `IMAGEHOST_*` variables; those of this process are not inherited. Without
            `IMAGEHOST_LOG_BUFFERED`, the log has the line of each response that is complete.

    Raises:
        RuntimeError: The server did not start.
    """
    log = data.with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    port = () if "--port" in flags else ("--port", "0")
    with log.open("ab") as stderr:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "imagehost_server", "serve", "--data", str(data), *port, *flags],
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment({"IMAGEHOST_LOG_BUFFERED": "false", **(variables or {})}),
            start_new_session=True,
            text=True,
        )
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or not lines[-1].startswith("Serving "):
        line = process.stdout.readline()
        if not line:
            process.stdout.close()
            status = process.wait()
            raise RuntimeError(f"server exited with status {status}: {log.read_text(encoding='utf-8')}")
        lines.append(line)
    base_url = lines[-1].split()[1]
    server = RunningServer(data, process, base_url, "".join(lines), log)
    _wait_until_ready(server)
    return server


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment variables without `IMAGEHOST_*`, plus the given ones."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("IMAGEHOST_")}
    return {**inherited, **(variables or {})}


def _wait_until_ready(server: RunningServer) -> None:
    """Wait until the server accepts connections; with TLS, any reaction to plain HTTP counts."""
    deadline = time.monotonic() + START_SECONDS
    url = f"http://{server.origin.partition('://')[2]}/healthz"
    while time.monotonic() < deadline and server.process.poll() is None:
        try:
            urlopen(url, timeout=5).close()
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
    raise RuntimeError(f"server does not accept connections: {server.log.read_text(encoding='utf-8')}")
