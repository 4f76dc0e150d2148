"""Clients that ask for a long answer and stop reading it, over each protocol, and then go without a goodbye."""

import json
import socket
import ssl
import struct

# Little of an answer finds room in the kernels' buffers.
WINDOW_BYTES = 4096


def connect(port, context=None, protocols=None):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW_BYTES)
    sock.settimeout(20)
    sock.connect(("127.0.0.1", port))
    if not context:
        return sock, sock
    if protocols:
        context.set_alpn_protocols(protocols)
    return sock, context.wrap_socket(sock, server_hostname="localhost")


class Stopped:
    """One request whose answer has begun; `status` is that of its head, `None` where the stream ended at once."""

    def __init__(self, sock):
        self.sock, self.status = sock, None

    def go(self):
        """Without a goodbye: a reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # Of an encrypted connection the socket below is closed.
        socket.socket(fileno=self.sock.detach()).close()


def http1(port, method, path, body=None, packed=False, context=None):
    """HTTP/1.1; reads the first bytes alone."""
    sock, stream = connect(port, context)
    body = json.dumps(body) if body is not None else ""
    encoding = "accept-encoding: gzip\r\n" if packed else ""
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{encoding}content-length: {len(body)}\r\n\r\n"
    stream.sendall((head + body).encode())
    stopped = Stopped(stream if context else sock)
    stopped.status = int(stream.recv(100).split(b" ")[1])
    return stopped


class Http2Stream:
    """A stream of HTTP/2 whose windows aren't opened again."""

    def __init__(self, port, context=None):
        import h2.config
        import h2.connection

        _, self.stream = connect(port, context, ["h2"])
        self.connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.connection.initiate_connection()
        self.scheme = "https" if context else "http"

    def ask(self, method, path, headers, body=b""):
        """The status of the answer, once its head is there."""
        import h2.events

        number = self.connection.get_next_available_stream_id()
        head = [(":method", method), (":scheme", self.scheme), (":authority", "localhost"), (":path", path), *headers]
        self.connection.send_headers(number, head, end_stream=not body)
        if body:
            self.connection.send_data(number, body, end_stream=True)
        self.stream.sendall(self.connection.data_to_send())
        while True:
            for event in self.connection.receive_data(self.stream.recv(WINDOW_BYTES)):
                if isinstance(event, h2.events.ResponseReceived):
                    return dict(event.headers)
            self.stream.sendall(self.connection.data_to_send())


def http2(port, method, path, body=None, packed=False, context=None):
    stream = Http2Stream(port, context)
    headers = [("content-type", "application/json"), ("accept-encoding", "gzip" if packed else "identity")]
    told = stream.ask(method, path, headers, json.dumps(body).encode() if body is not None else b"")
    stopped = Stopped(stream.stream)
    stopped.status = int(told[":status"])
    return stopped


def grpc(port, method, message, packed=False, context=None):
    """`method` as `Points/Scroll`; `message` in bytes."""
    stream = Http2Stream(port, context)
    headers = [("content-type", "application/grpc"), ("te", "trailers"), ("grpc-accept-encoding", "gzip" if packed else "identity")]
    told = stream.ask("POST", f"/qdrant.{method}", headers, struct.pack(">BI", 0, len(message)) + message)
    stopped = Stopped(stream.stream)
    # A refusal comes in the head; 0 and none are an answer.
    stopped.status = 200 if told.get("grpc-status", "0") == "0" else int(told["grpc-status"])
    return stopped
