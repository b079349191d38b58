"""The worker: it takes events that are due from the outbox and sends them to their destinations."""

from imagehost_server.background.webhook_http import Posted, post
from imagehost_server.background.webhook_runner import sending, work
from imagehost_server.background.webhook_sender import Sender

__all__ = ["Posted", "Sender", "post", "sending", "work"]
