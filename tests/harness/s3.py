"""A small server that speaks as much S3 as `ramlet store` needs, in memory. It counts requests, and can be told to fail, or to lie. Signatures aren't checked."""

import hashlib
import itertools
import os
import socket
import struct
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 20


class S3:
    """`with S3() as s3`: s3.environment is what a client needs. `lies`: every create and swap wins. `fails`: one request of so many is answered 503.
    `cuts`: of so many writes one is done, and the connection is reset instead of an answer.
    `seconds` is how long a read of an object takes, and may be changed."""

    def __init__(self, lies=False, fails=0, cuts=0, seconds=0):
        self.objects, self.lock, self.lies, self.fails, self.cuts, self.seconds = {}, threading.Lock(), lies, fails, cuts, seconds
        self.turn, self.versions, self.puts = itertools.count(1), itertools.count(1), 0
        # By method; a list is one of its own.
        self.requests = Counter()
        handler = type("Handler", (Handler,), {"s3": self})
        self.server = Listening(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.environment = {
            "AWS_ENDPOINT": f"http://127.0.0.1:{self.server.server_port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def put(self, key, body, headers):
        """Status and entity tag."""
        with self.lock:
            there = self.objects.get(key)
            if headers.get("if-none-match") == "*" and there and not self.lies:
                return 412, None
            wanted = headers.get("if-match")
            if wanted and (not there or there[1] != wanted) and not self.lies:
                return 412, None
            tag = f'"{hashlib.md5(body).hexdigest()}-{next(self.versions)}"'
            self.objects[key] = (body, tag)
            self.puts += 1
            return 200, tag

    def page(self, prefix, after):
        with self.lock:
            keys = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
            return [(key, len(self.objects[key][0]), self.objects[key][1]) for key in keys[:PAGE]], len(keys) > PAGE


class Listening(ThreadingHTTPServer):
    # Sixteen writers race: a queue of five, as it is by itself, resets those who come too quickly.
    request_queue_size = 256


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # An answer leaves in one piece: else the other side waits 40 ms before it acknowledges the first.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    s3 = None

    def log_message(self, *_):
        pass

    def send(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code):
        self.send(status, f"<Error><Code>{code}</Code><Message>it is so</Message></Error>".encode())

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())
        self.close_connection = True

    def serve(self):
        parts = urlsplit(self.path)
        _, bucket, key = (unquote(parts.path) + "/").split("/", 2)
        key, body = key.rstrip("/"), self.rfile.read(int(self.headers.get("content-length") or 0))
        with self.s3.lock:
            self.s3.requests[self.command if key else "LIST"] += 1
        if self.s3.fails and next(self.s3.turn) % self.s3.fails == 0:
            return self.refuse(503, "SlowDown")
        if bucket != "bucket":
            return self.refuse(404, "NoSuchBucket")
        if self.command == "GET" and not key:
            return self.list({name: values[0] for name, values in parse_qs(parts.query).items()})
        if self.command == "PUT":
            status, tag = self.s3.put(key, body, self.headers)
            if self.s3.cuts and next(self.s3.turn) % self.s3.cuts == 0:
                return self.reset()
            return self.send(status, headers=[("etag", tag)]) if tag else self.refuse(status, "PreconditionFailed")
        if self.command == "DELETE":
            with self.s3.lock:
                self.s3.objects.pop(key, None)
            return self.send(204)
        with self.s3.lock:
            there = self.s3.objects.get(key)
        if not there:
            return self.refuse(404, "NoSuchKey")
        time.sleep(self.s3.seconds)
        return self.read(*there)

    def read(self, body, tag):
        headers = [("etag", tag), ("last-modified", "Sun, 29 Nov 2026 12:00:00 GMT")]
        wanted = self.headers.get("range")
        if not wanted:
            return self.send(200, body, headers)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        first, last = int(first), min(int(last or len(body)), len(body) - 1)
        headers.append(("content-range", f"bytes {first}-{last}/{len(body)}"))
        return self.send(206, body[first : last + 1], headers)

    def list(self, query):
        found, is_cut = self.s3.page(query.get("prefix", ""), query.get("continuation-token") or query.get("start-after", ""))
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size><ETag>{escape(tag)}</ETag><LastModified>2026-11-29T12:00:00.000Z</LastModified></Contents>"
            for key, size, tag in found
        )
        more = f"<NextContinuationToken>{escape(found[-1][0])}</NextContinuationToken>" if is_cut else ""
        truth = str(is_cut).lower()
        self.send(200, f"<ListBucketResult><IsTruncated>{truth}</IsTruncated>{contents}{more}</ListBucketResult>".encode())

    do_GET = do_PUT = do_DELETE = do_HEAD = serve
