"""Long answers: none waits for the network's timers, for itself, or for a client that has gone; others are served meanwhile."""

import json
import socket
import struct
import sys
import time
from pathlib import Path

import pytest

import conftest
from harness.netns import CannotMake, Namespace
from harness.server import Server

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rigs"))

import answers  # noqa: E402


@pytest.mark.parametrize("memory", ["16MB", "64MB"])
def test_no_answer_waits_for_delayed_confirmations(tmp_path, memory):
    """A receiver confirms two segments at once, and one after 40 ms: a socket buffer must hold several."""
    if conftest.SELF:
        pytest.skip("needs a server")
    try:
        space = Namespace()
    except CannotMake as reason:
        pytest.skip(f"no network namespace can be made here: {reason}")
    with space:
        server = Server(tmp_path / "data", memory=memory)
        space.run(server.start)
        try:
            space.run(lambda: answers.fill(server.http(), 150, answers.POINT_BYTES))
            for api, port in (("rest", server.port), ("grpc", server.grpc_port)):
                done = space.run(answers.run_client, api, "127.0.0.1", port, 3, [83, 150])
                assert done.returncode == 0, done.stderr
                for row in map(json.loads, done.stdout.splitlines()):
                    assert row["delayed"] <= 1, (api, row)
        finally:
            space.run(server.stop)


# Of each budget some sizes: those whose portions are largest in it, and pages that have to be sent while they are read.
SAMPLE = {
    "16MB": [(1_000, 64), (20_000, 40)],
    "32MB": [(4_000, 300), (20_000, 60), (200_000, 20)],
    "64MB": [(18_000, 300), (32_000, 300)],
    "135MB": [(30_000, 70), (200_000, 20)],
    "512MB": [(60_000, 300)],
}


@pytest.fixture(params=list(SAMPLE))
def sampled(tmp_path, request):
    if conftest.SELF:
        pytest.skip("needs a server")
    with Server(tmp_path / "data", memory=request.param) as server:
        yield server, SAMPLE[request.param]


def wait_until_nothing_is_held(server):
    """Answers are on their way out for a moment after their clients have them, or are gone."""
    http = server.http()
    for _ in range(500):
        bytes_held = answers.held(http)
        if bytes_held["streams"] == 0 and bytes_held["responses"] < 64 << 10:
            return
        time.sleep(0.02)
    raise AssertionError(f"answers hold {bytes_held}")


def test_every_answer_ends_and_others_are_served(sampled):
    server, sizes = sampled
    wrong = []

    def told(case, _status, _took_ms, fault):
        if fault:
            wrong.append(f"{case}: {fault}")

    protocols = {"rest": answers.Rest(server), "http2": answers.Http2(server), "grpc": answers.Grpc(server)}
    answers.grid(server, sizes, protocols, told)
    assert not wrong, "\n".join(wrong)
    wait_until_nothing_is_held(server)


def test_encrypted_answers_end_too(tmp_path):
    if conftest.SELF:
        pytest.skip("needs a server")
    import grpc
    from test_tls import Certificates, Encrypted

    certificates, wrong = Certificates(tmp_path), []
    with Encrypted(tmp_path / "data", certificates, memory="32MB") as server:
        credentials = grpc.ssl_channel_credentials(certificates.ca_path.read_bytes())
        protocols = {"rest": answers.Rest(server, certificates.trusting()), "grpc": answers.Grpc(server, credentials)}
        answers.grid(server, [(4_000, 300)], protocols, lambda case, *rest: wrong.append((case, rest[-1])) if rest[-1] else None)
    assert not wrong, wrong


def request_of(name, count, packed):
    body = json.dumps({"limit": count, "with_payload": True})
    encoding = "accept-encoding: gzip\r\n" if packed else ""
    head = f"POST /collections/{name}/points/scroll HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{encoding}content-length: {len(body)}\r\n\r\n"
    return (head + body).encode()


@pytest.mark.parametrize("memory", ["16MB", "64MB"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_who_stops_reading_or_goes_keeps_nobody_waiting(tmp_path, memory, packed):
    if conftest.SELF:
        pytest.skip("needs a server")
    with Server(tmp_path / "data", memory=memory) as server:
        answers.load(server, [(18_000, 300)])
        stopped = []
        for _ in range(2):
            sock = socket.socket()
            # A small window, so that little of the answer is in the kernels' buffers.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", server.port))
            sock.sendall(request_of("of18000", 300, packed))
            assert sock.recv(100).startswith(b"HTTP/1.1 200")
            stopped.append(sock)
        with answers.Others(server, "little") as others:
            for api in (answers.Rest(server), answers.Http2(server)):
                for way in ("scroll", "query", "retrieve"):
                    answer = api.ask("of18000", way, 300, packed)
                    assert not answers.judged(way, "rest", 18_000, 300, answer), answer
        assert set(others.statuses) == {200}, others.statuses
        for sock in stopped:
            # No goodbye: a reset.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        wait_until_nothing_is_held(server)


@pytest.mark.parametrize("memory", ["16MB", "64MB"])
def test_snapshots_are_downloaded_beside_one_who_stopped_reading(tmp_path, memory):
    if conftest.SELF:
        pytest.skip("needs a server")
    with Server(tmp_path / "data", memory=memory) as server:
        answers.load(server, [(18_000, 300)])
        http = server.http()
        path = "/collections/of18000/snapshots"
        name = http.result("POST", path)["name"]
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", server.port))
        sock.sendall(f"GET {path}/{name} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        assert sock.recv(100).startswith(b"HTTP/1.1 200")
        with answers.Others(server, "little") as others:
            status, _, content = http.raw("GET", f"{path}/{name}")
        assert (status, len(content)) == (200, http.result("GET", path)[0]["size"])
        assert set(others.statuses) == {200}, others.statuses
        sock.close()
        wait_until_nothing_is_held(server)
