"""Takes webhooks: verify, keep, answer; work comes after. Run it with WEBHOOK_SECRET=whsec_…"""

import json
import os
import sqlite3
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from imagehost_client import WebhookVerificationError, webhooks

SECRETS = os.environ["WEBHOOK_SECRET"].split()  # two of them, with a space between, while you change over
LARGEST = 2**20  # no event is nearly as large as a megabyte
arrived = threading.Event()


def inbox() -> sqlite3.Connection:
    return sqlite3.connect("inbox.sqlite3", timeout=10, isolation_level=None)


class Receiver(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST:
            return self.send(413)
        body = self.rfile.read(int(length))  # the bytes as they came: the signature is over these
        try:
            event = webhooks.unwrap(body, dict(self.headers.items()), SECRETS)
        except WebhookVerificationError:
            return self.send(401)
        with closing(inbox()) as kept:  # an event that comes once more finds its id, and changes nothing
            kept.execute("INSERT OR IGNORE INTO events (id, body) VALUES (?, ?)", (event.id, body))
        arrived.set()
        return self.send(204)  # it is safe here now, so the host need not send it again

    def send(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def handle(kind: str, data: dict[str, object]) -> None:
    """Do what is to be done. If it fails or dies half-way it is done again, so it must not mind that."""
    print(kind, data.get("id"), flush=True)


def work() -> None:
    with closing(inbox()) as kept:
        while True:
            arrived.clear()
            for event_id, body in kept.execute("SELECT id, body FROM events WHERE done = 0").fetchall():
                event = json.loads(body)
                handle(event["type"], event["data"])
                kept.execute("UPDATE events SET done = 1 WHERE id = ?", (event_id,))
            arrived.wait()


if __name__ == "__main__":
    with closing(inbox()) as kept:
        kept.execute("PRAGMA journal_mode = WAL")
        kept.execute(
            "CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY, body BLOB, done INTEGER DEFAULT 0)"
        )
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Receiver)
    print(f"http://127.0.0.1:{server.server_port}/hook", flush=True)
    threading.Thread(target=work, daemon=True).start()
    server.serve_forever()
