"""The worker: it takes events that are due from the outbox and sends them to their destinations."""

from imagehost_server.worker.post import Posted, post
from imagehost_server.worker.running import sending, work
from imagehost_server.worker.sender import Sender

__all__ = ["Posted", "Sender", "post", "sending", "work"]
