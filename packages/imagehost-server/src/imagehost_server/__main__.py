"""The command `imagehost`, as `python -m imagehost_server`."""

from imagehost_server.cli.main import main

main(prog_name="imagehost")
