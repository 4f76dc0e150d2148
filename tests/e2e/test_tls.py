"""Encrypted connections: the client over REST and gRPC, who is let in, certificates that are replaced, imports from such a server."""

import contextlib
import http.client
import os
import re
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import conftest
import httpx
import pytest
import trustme
from harness.http import Http
from harness.server import Server, binary
from qdrant_client import QdrantClient, models

POINTS = [models.PointStruct(id=i, vector=[i / 50, 1 - i / 50], payload={"i": i}) for i in range(50)]

GRPC = """
import sys
from qdrant_client import QdrantClient
client = QdrantClient(url=sys.argv[1], grpc_port=int(sys.argv[2]), prefer_grpc=True, https=True, timeout=20)
print([hit.id for hit in client.query_points("c", [1.0, 0.0], limit=3).points], client.count("c").count)
"""


class Certificates:
    """Authorities, and files of what they sign."""

    def __init__(self, directory):
        self.directory, self.ca = directory, trustme.CA()
        self.ca_path = directory / "ca.pem"
        self.ca.cert_pem.write_to_path(self.ca_path)
        self.cert, self.key = directory / "cert.pem", directory / "key.pem"
        self.issue()

    def issue(self):
        made = self.ca.issue_cert("localhost", "127.0.0.1")
        made.private_key_pem.write_to_path(self.key)
        self.cert.unlink(missing_ok=True)
        for pem in made.cert_chain_pems:
            pem.write_to_path(self.cert, append=True)

    def trusting(self):
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        return context

    def flags(self):
        return ["--tls-cert", str(self.cert), "--tls-key", str(self.key)]


class Encrypted(Server):
    def __init__(self, data, certificates, context=None, arguments=None, **others):
        arguments = certificates.flags() if arguments is None else arguments
        super().__init__(data, arguments=arguments, **others)
        self.certificates, self.context = certificates, context or certificates.trusting()
        self.url = f"https://localhost:{self.port}"

    def http(self, timeout=120):
        return Http(self.url, self.key, timeout, self.context)

    def ready(self):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def client(self, **others):
        return QdrantClient(url=self.url, verify=self.context, timeout=20, check_compatibility=False, **others)

    def presented(self):
        """The certificate that a new connection is shown."""
        return ssl.get_server_certificate(("127.0.0.1", self.port))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if conftest.SELF:
        pytest.skip("needs a server")
    directory = tmp_path_factory.mktemp("tls")
    with Encrypted(directory / "data", Certificates(directory)) as server:
        client = server.client()
        client.create_collection("c", vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))
        client.upsert("c", POINTS, wait=True)
        yield server


def test_the_client_by_rest(server):
    hits = server.client().query_points("c", [1.0, 0.0], limit=3, with_payload=True).points
    assert [hit.id for hit in hits] == [49, 48, 47] and hits[0].payload == {"i": 49}
    assert "https://" in server.log()
    with pytest.raises(Exception, match="(?i)certificate"):
        QdrantClient(url=server.url, verify=ssl.create_default_context(), check_compatibility=False).count("c")


def test_the_client_by_grpc(server):
    roots = {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(server.certificates.ca_path)}
    command = [sys.executable, "-c", GRPC, server.url, str(server.grpc_port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **roots, "SSL_CERT_FILE": str(server.certificates.ca_path)})
    assert done.stdout.strip() == "[49, 48, 47] 50", done.stderr


def test_large_bodies_and_answers(server):
    client = server.client()
    client.create_collection("large", vectors_config=models.VectorParams(size=500, distance=models.Distance.DOT))
    points = [models.PointStruct(id=i, vector=[float(i)] * 500) for i in range(1000)]
    client.upsert("large", points, wait=True)
    records, _ = client.scroll("large", limit=1000, with_vectors=True)
    assert [record.vector[7] for record in records] == [float(i) for i in range(1000)]


@pytest.mark.parametrize("wanted, chosen", [(["h2", "http/1.1"], "h2"), (["http/1.1"], "http/1.1"), ([], None)])
def test_the_protocol_is_agreed_on(server, wanted, chosen):
    context = server.certificates.trusting()
    context.set_alpn_protocols(wanted)
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as encrypted:
            assert encrypted.selected_alpn_protocol() == chosen
            assert encrypted.version() in ("TLSv1.2", "TLSv1.3")


def test_connections_that_share_a_thread_come_apart(server):
    get = b"GET /collections HTTP/1.1\r\nhost: localhost\r\n\r\n"

    def connect(stack):
        plain = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
        return stack.enter_context(server.certificates.trusting().wrap_socket(plain, server_hostname="localhost"))

    def ask(encrypted, times):
        encrypted.sendall(get * times)
        answers = b""
        while answers.count(b'"status":"ok"') < times:
            more = encrypted.recv(65536)
            assert more, answers[-1000:]
            answers += more
        assert answers.count(b"HTTP/1.1 200 OK") == times

    def moved():
        text = httpx.get(f"{server.url}/metrics", verify=server.context).text
        return int(re.search(r"^ramlet_connections_moved_total (\d+)", text, re.MULTILINE)[1])

    comms = [path.read_text().strip() for path in Path(f"/proc/{server.process.pid}/task").glob("*/comm")]
    before, deadline = moved(), time.monotonic() + 60
    time.sleep(0.3)
    with contextlib.ExitStack() as stack:
        # Dealt to the thread with the fewest, each in turn: the last one comes to that of the first.
        first, *_, last = [connect(stack) for _ in range(comms.count("ramlet-http") + 1)]
        while moved() == before:
            assert time.monotonic() < deadline, "no connection has moved"
            for _ in range(20):
                ask(first, 100)
                ask(last, 100)
        for encrypted in (first, last):
            ask(encrypted, 3)


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", b"\x16\x03\x01\x40\x00" + b"\0" * 64, b""])
def test_what_is_no_tls_is_cut(server, said):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as plain:
        plain.sendall(said)
        plain.shutdown(socket.SHUT_WR)
        try:
            answer = plain.recv(1000)
        except ConnectionResetError:
            answer = b""
        # At most an alert of the protocol: never anything in plain text.
        assert b"HTTP" not in answer and b"result" not in answer
    assert server.client().count("c").count == 50


@pytest.mark.alone
def test_handshakes_without_an_end_keep_nobody_out_nor_a_stop(tmp_path):
    if conftest.SELF:
        pytest.skip("needs a server")
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"r" * 100
    # 32 MB have room for 15 encrypted connections; these held their places for a second each.
    with Encrypted(tmp_path / "data", Certificates(tmp_path), memory="32MB") as server, contextlib.ExitStack() as stack:
        for _ in range(80):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            sock.sendall(hello)
        started = time.monotonic()
        assert server.ready()
        assert time.monotonic() - started < 3
        stack.enter_context(socket.create_connection(("127.0.0.1", server.port))).sendall(hello)
        time.sleep(0.3)
        started = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - started < 3


def test_only_clients_with_a_certificate(tmp_path):
    if conftest.SELF:
        pytest.skip("needs a server")
    certificates, others = Certificates(tmp_path), trustme.CA()
    ours, theirs = certificates.trusting(), certificates.trusting()
    certificates.ca.issue_cert("somebody").configure_cert(ours)
    others.issue_cert("nobody").configure_cert(theirs)
    flags = [*certificates.flags(), "--tls-client-ca", str(certificates.ca_path)]
    with Encrypted(tmp_path / "data", certificates, ours, flags) as server:
        assert server.client().get_collections().collections == []
        for context in [theirs, certificates.trusting()]:
            with pytest.raises((httpx.TransportError, ssl.SSLError)):
                httpx.get(f"{server.url}/collections", verify=context)


def test_a_certificate_is_replaced(tmp_path):
    if conftest.SELF:
        pytest.skip("needs a server")
    certificates = Certificates(tmp_path)
    names = {
        "QDRANT__SERVICE__ENABLE_TLS": "true",
        "QDRANT__TLS__CERT": str(certificates.cert),
        "QDRANT__TLS__KEY": str(certificates.key),
        "QDRANT__TLS__CERT_TTL": "1",
    }
    with Encrypted(tmp_path / "data", certificates, arguments=[], environment=names) as server:
        client, before = server.client(), server.presented()
        assert client.get_collections().collections == []
        # Half of it: the old pair stays.
        certificates.cert.write_text("nothing")
        deadline = time.monotonic() + 60
        while "isn't renewed" not in server.log(400):
            assert time.monotonic() < deadline, server.log()
            time.sleep(0.1)
        assert server.presented() == before
        certificates.issue()
        while server.presented() == before:
            assert time.monotonic() < deadline, server.log()
            time.sleep(0.1)
        # An old connection goes on, new ones begin.
        assert client.get_collections().collections == server.client().get_collections().collections == []


def test_files_that_are_none(tmp_path):
    certificates = Certificates(tmp_path)
    (tmp_path / "empty.pem").write_text("")
    other = trustme.CA().issue_cert("localhost")
    other.private_key_pem.write_to_path(tmp_path / "other.pem")
    for flags, told in [
        (["--tls-cert", "missing.pem", "--tls-key", str(certificates.key)], "missing.pem"),
        (["--tls-cert", str(tmp_path / "empty.pem"), "--tls-key", str(certificates.key)], "empty.pem"),
        (["--tls-cert", str(certificates.cert), "--tls-key", str(tmp_path / "other.pem")], "key"),
        (["--tls-cert", str(certificates.cert)], "--tls-key"),
    ]:
        command = [str(binary()), "serve", "--data", str(tmp_path / "data"), "--memory", "64MB", "--port", "0", *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and told in done.stderr and "panicked" not in done.stderr, done.stderr


def test_an_import_from_an_encrypted_server(server, tmp_path):
    with Server(tmp_path / "data") as target:
        command = [str(binary()), "import", "--from", server.url, "--collection", "c", "--url", target.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        assert done.returncode == 1 and "isn't trusted" in done.stderr, done.stderr
        trusted = {**os.environ, "SSL_CERT_FILE": str(server.certificates.ca_path)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=trusted)
        assert done.returncode == 0, done.stderr
        assert QdrantClient(url=target.url, check_compatibility=False).count("c").count == 50
