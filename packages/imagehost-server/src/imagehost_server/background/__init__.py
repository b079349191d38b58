"""Background tasks: the periodic cleanup, the webhook sender and the purge sender."""

from imagehost_server.background.webhook_http import WebhookResponse, post
from imagehost_server.background.webhook_sender import WebhookSender, run_forever, running_sender

__all__ = ["WebhookResponse", "WebhookSender", "post", "run_forever", "running_sender"]
