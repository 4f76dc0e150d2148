"""Keys: who may do what, and that nothing is done before the key is looked at."""

import pytest
from qdrant_client import QdrantClient, models

import conftest
from harness.http import Http
from harness.server import Server

READS = [
    ("GET", "/collections", None),
    ("GET", "/collections/c", None),
    ("POST", "/collections/c/points/scroll", b"{}"),
    ("POST", "/collections/c/points/count", b"{}"),
    ("POST", "/collections/c/points/query", b'{"query":[1,2]}'),
]
WRITES = [
    ("PUT", "/collections/d", b'{"vectors":{"size":2,"distance":"Dot"}}'),
    ("PUT", "/collections/c/points", b'{"points":[{"id":1,"vector":[1,2]}]}'),
    ("POST", "/collections/c/points/delete", b'{"points":[1]}'),
    ("PUT", "/collections/c/index", b'{"field_name":"x","field_schema":"keyword"}'),
    ("DELETE", "/collections/c", None),
]


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    if conftest.SELF:
        pytest.skip("needs a server")
    flags = ["--api-key", "secret", "--read-only-api-key", "reader"]
    with Server(tmp_path_factory.mktemp("auth") / "data", arguments=flags, key="secret") as server:
        server.http().call("PUT", "/collections/c", {"vectors": {"size": 2, "distance": "Dot"}})
        yield server


def status(server, key, method, path, body):
    http = Http(server.url, key)
    try:
        return http.raw(method, path, body)[0]
    finally:
        http.close()


@pytest.mark.parametrize("key", [None, "wrong", "secre", "secret1", ""])
def test_no_key_no_answer(locked, key):
    for method, path, body in READS + WRITES:
        assert status(locked, key, method, path, body) == 401, (method, path)


def test_the_reader_reads(locked):
    for method, path, body in READS:
        assert status(locked, "reader", method, path, body) == 200, (method, path)
    for method, path, body in WRITES:
        assert status(locked, "reader", method, path, body) == 403, (method, path)


def test_health_needs_no_key(locked):
    for path in ["/healthz", "/readyz", "/livez"]:
        assert status(locked, None, "GET", path, None) == 200, path


def test_encoded_paths_are_no_way_around(locked):
    for path in ["/%63ollections", "//collections", "/./collections", "/healthz/../collections", "/collections%2Fc", "/healthz%2F..%2Fcollections"]:
        assert status(locked, None, "GET", path, None) in (400, 401, 404), path


def test_the_client_with_its_key(locked):
    client = QdrantClient(url=locked.url, api_key="secret", prefer_grpc=False)
    client.create_collection("k", vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))
    client.upsert("k", [models.PointStruct(id=1, vector=[1.0, 2.0])], wait=True)
    assert client.count("k").count == 1
    client.delete_collection("k")
    bearer = Http(locked.url)
    bearer.headers["authorization"] = "Bearer secret"
    assert bearer.raw("GET", "/collections")[0] == 200
    bearer.close()


def test_open_to_the_world_only_by_wish(tmp_path):
    if conftest.SELF:
        pytest.skip("needs a server")
    server = Server(tmp_path / "data", arguments=["--host", "0.0.0.0"])
    with pytest.raises(RuntimeError) as refused:
        server.start()
    assert "--insecure" in str(refused.value) or "key" in str(refused.value)
    with Server(tmp_path / "data", arguments=["--host", "0.0.0.0", "--insecure"]) as server:
        assert server.alive()
