#!/usr/bin/python3
"""`ssh MACHINE COMMAND`: run a command with the directories of another machine of the test."""

import os
import sys
from pathlib import Path

OWN = ("etc", "opt", "srv", "var/lib", "run")
machine, *command = sys.argv[1:]
path = Path(os.environ["MACHINES"], machine)
mounts = "".join(f"mount --bind {path / name} /{name} && " for name in OWN)
os.execvp("unshare", ["unshare", "--mount", "bash", "-c", f"{mounts} {' '.join(command)}"])
