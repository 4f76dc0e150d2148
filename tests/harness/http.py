"""JSON over HTTP with keep-alive: what a client costs when it does nothing else."""

import http.client
import json
import time
from urllib.parse import urlsplit


class Answer(Exception):
    """An answer that isn't 2xx."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        super().__init__(f"{status}: {self.sentence()}")

    def sentence(self):
        try:
            return json.loads(self.body)["status"]["error"]
        except (ValueError, KeyError, TypeError):
            return self.body.decode(errors="replace")[:500]


class Http:
    """One connection; not for several threads at once."""

    def __init__(self, url, key=None, timeout=120, context=None):
        parts = urlsplit(url)
        # Whom to trust, of an encrypted server.
        self.context = context
        self.address, self.timeout = (parts.hostname, parts.port), timeout
        self.headers = {"content-type": "application/json"}
        if key:
            self.headers["api-key"] = key
        self.connection = None

    def raw(self, method, path, body=None):
        """(status, headers, body); a connection that went away while idle is opened anew."""
        fresh = self.connection is None
        if fresh:
            if self.context:
                self.connection = http.client.HTTPSConnection(*self.address, timeout=self.timeout, context=self.context)
            else:
                self.connection = http.client.HTTPConnection(*self.address, timeout=self.timeout)
        try:
            self.connection.request(method, path, body, self.headers)
            answer = self.connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except (http.client.HTTPException, OSError):
            self.close()
            if fresh:
                raise
            return self.raw(method, path, body)

    def call(self, method, path, body=None, retry=True):
        """The parsed answer. Waits and repeats on 429, as the clients do; other answers than 2xx are raised."""
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body, separators=(",", ":"))
        while True:
            status, headers, answer = self.raw(method, path, body)
            if status == 429 and retry:
                time.sleep(min(float(headers.get("retry-after") or 1), 10))
                continue
            if not 200 <= status < 300:
                raise Answer(status, headers, answer)
            return json.loads(answer) if answer[:1] in (b"{", b"[") else answer

    def get(self, path):
        return self.call("GET", path)

    def result(self, method, path, body=None, retry=True):
        return self.call(method, path, body, retry)["result"]

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None
