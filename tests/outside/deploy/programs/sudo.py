#!/usr/bin/python3
"""`sudo -u USER COMMAND`, with the path of sudo's default `secure_path`."""

import os
import sys

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
match sys.argv[1:]:
    case ["-u", user, *command]:
        os.execvp("runuser", ["runuser", "-u", user, "--", "env", f"PATH={PATH}", *command])
    case arguments:
        sys.exit(f"sudo: expected a command of the pages but received {arguments}")
