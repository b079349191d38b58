"""The worker: it takes events that are due from the outbox and sends them to their destinations."""

from imagehost_server.background.webhook_http import WebhookResponse, post
from imagehost_server.background.webhook_runner import run_forever, running_sender
from imagehost_server.background.webhook_sender import WebhookSender

__all__ = ["WebhookResponse", "WebhookSender", "post", "run_forever", "running_sender"]
