"""As much of S3 as obstore needs to write and read an object, over real HTTP: single and multipart
uploads. Only requests signed with the access key are answered.
"""

import hashlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, urlsplit

ACCESS_KEY = "AKIAMADEUP"
STARTED = b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
COMPLETED = b"<CompleteMultipartUploadResult><ETag>whole</ETag></CompleteMultipartUploadResult>"


class S3Server:
    """`with S3Server() as server:` listens on a free port. `failing`: every answer is a 503."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.requests: list[str] = []
        self.failing = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _answering(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> bytes:
        parts = self.parts.setdefault(path, {})
        if "delete" in query:
            return self._delete(path, re.findall("<Key>([^<]*)</Key>", body.decode()))
        if "uploads" in query:
            return STARTED
        if "partNumber" in query:
            parts[int(query["partNumber"][0])] = body
        elif "uploadId" in query:
            self.objects[path] = b"".join(parts.pop(number) for number in sorted(parts))
            return COMPLETED
        elif method == "PUT":
            self.objects[path] = body
        return b""

    def _delete(self, bucket: str, keys: list[str]) -> bytes:
        for key in keys:
            self.objects.pop(f"{bucket}/{key}", None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        return f"<DeleteResult>{deleted}</DeleteResult>".encode()


def _answering(server: S3Server) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            server.requests.append(f"{self.command} {self.path}")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            url = urlsplit(self.path)
            status, sent = 200, b""
            if server.failing or f"Credential={ACCESS_KEY}/" not in self.headers["Authorization"]:
                status = 503 if server.failing else 403
            elif self.command not in ("GET", "HEAD"):
                query = parse_qs(url.query, keep_blank_values=True)
                sent = server.answer(self.command, url.path, query, body)
            elif url.path in server.objects:
                sent = server.objects[url.path]
            else:
                status = 404
            self.send_response(status)
            self.send_header("ETag", hashlib.md5(body or sent).hexdigest())
            self.send_header("Last-Modified", "Mon, 04 May 2026 12:00:00 GMT")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(sent)

        do_GET = do_HEAD = do_PUT = do_POST = _reply

        def log_message(self, format: str, *args: object) -> None: ...

    return Answers
