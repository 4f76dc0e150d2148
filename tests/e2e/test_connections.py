"""Connections that ask for nothing, or for less than a whole request: none keeps others out, nor the server from stopping."""

import contextlib
import http.client
import re
import socket
import struct
import threading
import time

import grpc
import pytest

import conftest
from harness.server import Server

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HALF_HEAD = b"GET / HTTP/1.1\r\nx: "
HALF_BODY = b"POST /collections/c/points/count HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


SETTINGS = frame(4, 0, 0)


@pytest.fixture
def small(tmp_path):
    if conftest.SELF:
        pytest.skip("needs a server")
    with Server(tmp_path / "data", memory="32MB") as server:
        yield server


def said(port, *pieces, enough=1 << 30):
    """What the server says to these bytes, sent with pauses between them, until it is silent or has said `enough` bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=2) as sock:
        answer = b""
        with contextlib.suppress(OSError):
            for place, piece in enumerate(pieces):
                if place:
                    time.sleep(0.2)
                sock.sendall(piece)
            while len(answer) < enough and (more := sock.recv(65536)):
                answer += more
        return answer


class Crowd(threading.Thread):
    """`count` connections that say `words` and no more; for each that is closed comes another."""

    def __init__(self, port, words, count):
        super().__init__(daemon=True)
        self.port, self.words, self.going = port, words, True
        self.here = [self.enter() for _ in range(count)]

    def enter(self):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(("127.0.0.1", self.port))
        return [sock, False]

    def run(self):
        while self.going:
            for place, (sock, spoke) in enumerate(self.here):
                try:
                    if not spoke:
                        sock.send(self.words)
                        self.here[place][1] = True
                    elif not sock.recv(65536):
                        raise ConnectionResetError
                except BlockingIOError:
                    pass
                except OSError:
                    sock.close()
                    self.here[place] = self.enter()
            time.sleep(0.02)

    def __enter__(self):
        self.start()
        time.sleep(1)
        return self

    def __exit__(self, *_):
        self.going = False
        self.join()
        for sock, _ in self.here:
            sock.close()


def ask_rest(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/collections")
    assert connection.getresponse().status == 200
    connection.close()


def ask_grpc(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        channel.unary_unary("/qdrant.Qdrant/HealthCheck")(b"", timeout=30)


# Each was 5 to 20 seconds.
@pytest.mark.alone
@pytest.mark.parametrize(
    ("ask", "words", "count", "within"),
    [
        (ask_rest, b"", 200, 2),
        (ask_rest, HALF_HEAD, 200, 2.5),
        (ask_rest, HALF_BODY, 120, 8),
        (ask_grpc, b"", 60, 2.5),
        (ask_grpc, PREFACE + SETTINGS, 60, 3),
    ],
    ids=["nothing", "half a head", "half a body", "nothing, gRPC", "a preface"],
)
def test_who_asks_for_nothing_keeps_nobody_out(small, ask, words, count, within):
    port = small.port if ask is ask_rest else small.grpc_port
    with Crowd(port, words, count):
        for _ in range(2):
            started = time.monotonic()
            ask(small)
            assert time.monotonic() - started < within
    assert small.alive()


@pytest.mark.alone
@pytest.mark.parametrize("words", [b"", HALF_HEAD, b"PR", PREFACE], ids=["nothing", "half a head", "half a preface", "a preface"])
def test_a_stop_waits_for_nobody_who_asks_for_nothing(small, words):
    with contextlib.ExitStack() as stack:
        for port in (small.port, small.grpc_port):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            sock.sendall(words)
        time.sleep(0.3)
        started = time.monotonic()
        assert small.stop() == 0
        assert time.monotonic() - started < 3, "it waited for the end of the grace"


def test_a_preface_in_pieces(small):
    for cut in (1, 2, 3, 4, 23):
        answer = said(small.port, PREFACE[:cut], PREFACE[cut:] + SETTINGS, enough=4)
        assert answer[3:4] == b"\x04", f"cut after {cut} bytes: {answer[:40]}"
    assert said(small.port, b"P", b"OST / HTTP/1.1\r\nhost: localhost\r\n\r\n").startswith(b"HTTP/1.1 4")


def test_a_host_that_is_named_twice(small):
    status = lambda head: int(re.match(rb"HTTP/1.1 (\d+)", said(small.port, head + b"connection: close\r\n\r\n"))[1])  # noqa: E731
    assert status(b"GET /collections HTTP/1.1\r\nhost: localhost\r\n") == 200
    assert status(b"GET /collections HTTP/1.1\r\nhost: localhost\r\nhost: elsewhere.example\r\n") == 403
    assert status(b"GET http://elsewhere.example/collections HTTP/1.1\r\nhost: localhost\r\n") == 403
    assert status(b"GET http://localhost/collections HTTP/1.1\r\nhost: elsewhere.example\r\n") == 200


def test_calls_that_are_given_up_at_once_fill_no_log(small):
    names = {":method": "POST", ":scheme": "http", ":path": "/qdrant.Qdrant/HealthCheck", ":authority": "localhost"}
    head = b"".join(b"\0" + bytes([len(n)]) + n.encode() + bytes([len(v)]) + v.encode() for n, v in names.items())
    flood = b"".join(frame(1, 4, stream, head) + frame(3, 0, stream, b"\0\0\0\x08") for stream in range(1, 2001, 2))
    for _ in range(20):
        said(small.grpc_port, PREFACE + SETTINGS + flood)
    ask_grpc(small)
    assert "recv_reset" not in small.log()
