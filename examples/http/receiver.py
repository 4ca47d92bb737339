"""A receiver of webhooks that checks their signatures: python receiver.py [PORT]"""

import base64
import hashlib
import hmac
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRET = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")  # what follows whsec_
seen: set[str] = set()


def is_genuine(identity: str, sent: str, signatures: str, body: bytes) -> bool:
    if not sent.isdigit() or abs(time.time() - int(sent)) > 300:
        return False  # an old one, recorded and sent again
    mark = hmac.digest(SECRET, f"{identity}.{sent}.".encode() + body, hashlib.sha256)
    expected = "v1," + base64.b64encode(mark).decode()
    return any(hmac.compare_digest(expected, given) for given in signatures.split())


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        told = [
            self.headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")
        ]
        if not is_genuine(*told, body):
            self.answer(401, "signature?")
        elif told[0] in seen:
            self.answer(200, "had it")  # a second delivery of the same task
        else:
            seen.add(told[0])
            print(f"{told[0]} {body.decode()}", flush=True)
            self.answer(200, "thanks")

    def answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    server = HTTPServer(("127.0.0.1", port), Receiver)
    print(f"listening on port {port}", flush=True)
    server.serve_forever()
