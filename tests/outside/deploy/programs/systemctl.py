#!/usr/bin/python3
"""What systemctl does with the unit imagehost, without its restrictions, where systemd does not run."""

import os
import pwd
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

UNIT, PID = Path("/etc/systemd/system/imagehost.service"), Path("/run/imagehost.pid")
JOURNAL = Path("/run/imagehost.journal")


def start() -> None:
    """Start the command of the unit as its user, and return when it is ready."""
    values = dict(re.findall(r"(?m)^(\w+)=(.*)$", UNIT.read_text()))
    user = pwd.getpwnam(values["User"])
    data = Path("/var/lib", values["StateDirectory"])
    data.mkdir(mode=int(values["StateDirectoryMode"], 8), exist_ok=True)
    os.chown(data, user.pw_uid, user.pw_gid)
    variables = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": "/run/notify"}
    lines = [values["Environment"], *Path(values["EnvironmentFile"].lstrip("-")).read_text().splitlines()]
    variables.update(line.split("=", 1) for line in lines)
    Path("/run/notify").unlink(missing_ok=True)
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind("/run/notify")
    Path("/run/notify").chmod(0o777)
    manager.settimeout(600)
    with JOURNAL.open("ab") as journal:
        process = subprocess.Popen(
            shlex.split(values["ExecStart"]),
            env=variables,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=journal,
            stderr=journal,
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[],
            umask=int(values["UMask"], 8),
            start_new_session=True,
        )
    PID.write_text(f"{process.pid}")
    while manager.recv(1000) != b"READY=1":
        pass


def stop() -> None:
    """Stop the server, and return when it has ended."""
    pid = int(PID.read_text())
    os.kill(pid, signal.SIGTERM)
    while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
        time.sleep(0.1)
    PID.unlink()


match sys.argv[1:]:
    case ["daemon-reload"]:
        pass
    case ["enable", "--now", "imagehost"] | ["start", "imagehost"]:
        start()
    case ["restart", "imagehost"]:
        stop()
        start()
    case ["stop", "imagehost"]:
        stop()
    case arguments:
        sys.exit(f"systemctl: expected a command of the pages but received {arguments}")
