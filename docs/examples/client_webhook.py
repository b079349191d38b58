import json
import time

from imagehost_client import WebhookVerificationError, webhooks

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # from client.webhooks.create(...).secret


def receive(body: bytes, headers: dict[str, str]) -> str:
    """Handle a POST to the destination: the body as it came, not parsed and written again."""
    try:
        event = webhooks.unwrap(body, headers, SECRET)
    except WebhookVerificationError:
        return "401"
    match event:
        case webhooks.ImageDeleted():
            return f"image {event.data.id} is gone"
        case webhooks.ImageUploaded() | webhooks.AlbumCreated() | webhooks.AlbumUpdated():
            return str(event.kind)
        case _:
            return "200"  # a kind that does not exist yet


moment = "2026-01-01T00:00:00Z"
deleted = {"type": "image.deleted", "timestamp": moment, "data": {"id": "x", "deleted_at": moment}}
body = json.dumps(deleted).encode()
now = str(int(time.time()))
headers = {"webhook-id": "msg_1", "webhook-timestamp": now}
headers["webhook-signature"] = webhooks.sign(f"msg_1.{now}.".encode() + body, SECRET)
print(receive(body, headers))
print(receive(body + b" ", headers))
# image x is gone
# 401
