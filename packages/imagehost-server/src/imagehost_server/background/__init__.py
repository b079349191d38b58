"""Background tasks: the periodic cleanup, the webhook sender and the purge sender."""

from imagehost_server.background.webhook_sender import WebhookSender, run_forever, running_sender
from imagehost_server.http.outgoing import WebhookResponse, post

__all__ = ["WebhookResponse", "WebhookSender", "post", "run_forever", "running_sender"]
