import json
import time

from imagehost_client import WebhookVerificationError, webhooks

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # from client.webhooks.create(...).secret


def receive(body: bytes, headers: dict[str, str]) -> str:
    """Handle a POST request; the body is passed as received, not parsed and serialised again."""
    try:
        event = webhooks.unwrap(body, headers, SECRET)
    except WebhookVerificationError:
        return "401"
    match event:
        case webhooks.ImageDeleted():
            return f"image {event.data.id} was deleted"
        case webhooks.ImageUploaded() | webhooks.AlbumCreated() | webhooks.AlbumUpdated():
            return str(event.kind)
        case _:
            return "200"  # a type of a later version


timestamp = "2026-01-01T00:00:00Z"
deleted = {"type": "image.deleted", "timestamp": timestamp, "data": {"id": "x", "deleted_at": timestamp}}
body = json.dumps(deleted).encode()
now = str(int(time.time()))
headers = {"webhook-id": "msg_1", "webhook-timestamp": now}
headers["webhook-signature"] = webhooks.sign(f"msg_1.{now}.".encode() + body, SECRET)
print(receive(body, headers))
print(receive(body + b" ", headers))
# image x was deleted
# 401
