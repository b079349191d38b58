"""Background tasks: the periodic cleanup, the log of commands, the webhook sender and the purge sender."""

from imagehost_server.background.webhook_sender import WebhookSender, run_forever, running_sender

__all__ = ["WebhookSender", "run_forever", "running_sender"]
