"""Webhook receiver: verify, store, respond, then process. Run it with WEBHOOK_SECRET=whsec_…"""

import json
import os
import sqlite3
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from imagehost_client import WebhookVerificationError, webhooks

SECRETS = os.environ["WEBHOOK_SECRET"].split()  # two, separated by a space, during a rotation
MAX_BODY_BYTES = 2**20  # events are far smaller than a megabyte
arrived = threading.Event()


def inbox() -> sqlite3.Connection:
    return sqlite3.connect("inbox.sqlite3", timeout=10, isolation_level=None)


class Receiver(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            return self.send(413)
        body = self.rfile.read(int(length))  # the signature covers these bytes
        try:
            event = webhooks.unwrap(body, dict(self.headers.items()), SECRETS)
        except WebhookVerificationError:
            return self.send(401)
        with closing(inbox()) as database:  # a duplicate event has the same id and is ignored
            database.execute("INSERT OR IGNORE INTO events (id, body) VALUES (?, ?)", (event.id, body))
        arrived.set()
        return self.send(204)  # the event is stored, so the host need not send it again

    def send(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def handle(kind: str, data: dict[str, object]) -> None:
    """Process an event. After a failure it is processed again, so this must be idempotent."""
    print(kind, data.get("id"), flush=True)


def work() -> None:
    with closing(inbox()) as database:
        while True:
            arrived.clear()
            for event_id, body in database.execute("SELECT id, body FROM events WHERE done = 0").fetchall():
                event = json.loads(body)
                handle(event["type"], event["data"])
                database.execute("UPDATE events SET done = 1 WHERE id = ?", (event_id,))
            arrived.wait()


if __name__ == "__main__":
    with closing(inbox()) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(
            "CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY, body BLOB, done INTEGER DEFAULT 0)"
        )
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Receiver)
    print(f"http://127.0.0.1:{server.server_port}/hook", flush=True)
    threading.Thread(target=work, daemon=True).start()
    server.serve_forever()
