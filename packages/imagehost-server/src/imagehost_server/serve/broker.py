"""The broker process: it starts the image worker processes that all server processes share.

The supervisor starts it as a program. Its arguments are the file descriptors of the socket of requests, of
the configuration, of the table of metrics and of the supervisor's channel.
"""

from __future__ import annotations

import signal
import socket
import sys
from logging.config import dictConfig

from imagehost_core import run_broker
from imagehost_server.logging_config import logging_config
from imagehost_server.metrics import MetricTable, Recorder
from imagehost_server.serve.process import SupervisorChannel, read_configuration


def main(arguments: list[str]) -> None:
    """Run the broker until the supervisor closes its channel.

    Args:
        arguments: The file descriptors, as in the docstring of this module.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        # Sent to the whole group: requests in progress still need their image workers.
        signal.signal(number, signal.SIG_IGN)
    requests, configuration, metrics, channel = map(int, arguments)
    supervisor = SupervisorChannel(channel)
    _, settings = read_configuration(configuration)
    dictConfig(logging_config(settings.log.level, settings.log.format))
    recorder = Recorder(MetricTable(metrics, "broker"), "broker")
    supervisor.ready()
    run_broker(settings.rendering, socket.socket(fileno=requests), recorder.observe)


if __name__ == "__main__":
    main(sys.argv[1:])
