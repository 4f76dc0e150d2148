"""What people type: `ramlet top`, `ramlet snapshot`, `ramlet check --json`; and the ids of requests."""

import json
import re
import subprocess

import pytest

import conftest
from conftest import client_of
from harness.server import Server, binary

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs a server")


def ramlet(*words, code=0):
    done = subprocess.run([str(binary()), *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stdout + done.stderr


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def books(own_server):
    http = own_server.http()
    http.result("PUT", "/collections/books", {"vectors": {"size": 4, "distance": "Dot"}})
    points = [{"id": n, "vector": [n, 1, 0, 0], "payload": {"n": n}} for n in range(50)]
    http.result("PUT", "/collections/books/points?wait=true", {"points": points})
    return own_server


def test_top_tells_memory_and_searches(books):
    http = books.http()
    for _ in range(20):
        http.result("POST", "/collections/books/points/query", {"query": [1, 1, 1, 1]})
    [told] = lines(ramlet("top", "--url", books.url, "--once", "--json", "--interval", "0.2"))
    budget = http.result("GET", "/memory")["budget"]["memory_bytes"]
    assert told["memory"]["budget_bytes"] == budget and told["points"] == 50 and told["collections"] == 1, told
    assert told["search_p50_ms"] > 0 and told["jobs"] == [], "of all searches since the start, where there was none lately"
    assert sum(c["used_bytes"] for c in told["memory"]["consumers"]) > 0
    text = ramlet("top", "--url", books.url, "--once", "--interval", "0.2")
    assert f"{budget / 1e6:.1f} MB given" in text and "search slots" in text and " searches/s, p50 " in text, text
    assert all(len(line) <= 80 for line in text.splitlines()), text


def test_snapshots_come_and_go(books, tmp_path):
    of = ["--collection", "books", "--url", books.url]
    assert "there is no snapshot" in ramlet("snapshot", "list", *of)
    [made] = lines(ramlet("snapshot", "create", *of, "--json"))
    assert lines(ramlet("snapshot", "list", *of, "--json")) == [made]
    assert made["name"] in ramlet("snapshot", "list", *of)
    file = tmp_path / "here.snapshot"
    assert made["name"] in ramlet("snapshot", "download", made["name"], file, *of)
    assert file.stat().st_size == made["size"] and not (tmp_path / "here.part").exists()
    assert "exists already" in ramlet("snapshot", "download", made["name"], file, *of, code=1)
    # A collection of another name is made of it.
    ramlet("snapshot", "restore", file, "--collection", "copy", "--url", books.url)
    assert client_of(books).count("copy").count == 50
    [done] = lines(ramlet("snapshot", "delete", made["name"], *of, "--json"))
    assert done == {"done": "deleted", "name": made["name"]}
    assert lines(ramlet("snapshot", "list", *of, "--json")) == []
    said = ramlet("snapshot", "download", made["name"], *of, code=1)
    assert "404" in said, said


def test_snapshots_of_everything(books):
    [made] = lines(ramlet("snapshot", "create", "--url", books.url, "--json"))
    assert lines(ramlet("snapshot", "list", "--url", books.url, "--json")) == [made]
    ramlet("snapshot", "delete", made["name"], "--url", books.url)
    assert "--collection" in ramlet("snapshot", "restore", "none", "--url", books.url, code=1)


def test_check_as_json(books):
    books.stop()
    [sums] = lines(ramlet("check", books.data, "--json"))
    assert sums["collections"] == 1 and sums["problems"] == 0 and sums["log_groups"] == 1, sums


# ---- ids of requests


def test_every_answer_has_an_id(own_server):
    def id_of(method, path, **headers):
        http = own_server.http()
        http.headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        status, answered, _ = http.raw(method, path)
        http.close()
        return status, {name.lower(): value for name, value in answered.items()}.get("x-request-id")

    made = [id_of("GET", path)[1] for path in ("/collections", "/collections/none", "/nowhere", "/healthz", "/metrics")]
    assert all(re.fullmatch("[0-9a-f]{16}", one or "") for one in made) and len(set(made)) == len(made), made
    assert id_of("GET", "/collections", x_request_id="mine-1") == (200, "mine-1")
    assert id_of("GET", "/collections/none", x_tracing_id="mine-2") == (404, "mine-2")
    status, other = id_of("GET", "/collections", x_request_id="not sane")
    assert status == 200 and other != "not sane"


def test_the_log_names_requests(tmp_path):
    with Server(tmp_path / "data", arguments=["--slow-query", "0ms", "--log-format", "json"]) as server:
        http = server.http()
        http.headers["x-request-id"] = "slow-one"
        http.raw("GET", "/collections")
        logged = [json.loads(line) for line in server.log(1_000).splitlines() if "slow request" in line]
        kept = http.result("GET", "/profiler/slow_requests?limit=100")["requests"]
        assert any(r["request_id"] == "slow-one" for r in kept), kept
        assert all(line["request_id"] for line in logged) and logged, logged


def test_ids_and_bodies_of_grpc(tmp_path):
    import grpc
    from qdrant_client import grpc as api
    from qdrant_client import models

    with Server(tmp_path / "data", arguments=["--slow-query", "0ms"]) as server:
        client = client_of(server)
        client.create_collection("c", vectors_config={"a": models.VectorParams(size=12, distance=models.Distance.DOT)})
        channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")
        query = api.QueryPoints(
            collection_name="c", using="a", limit=3,
            query=api.Query(nearest=api.VectorInput(dense=api.DenseVector(data=[0.5] * 12))),
        )
        _, call = api.PointsStub(channel).Query.with_call(query, metadata=[("x-request-id", "rpc-7")])
        assert dict(call.initial_metadata())["x-request-id"] == "rpc-7"
        query.collection_name = "none"
        with pytest.raises(grpc.RpcError) as refused:
            api.PointsStub(channel).Query(query, metadata=[("x-request-id", "rpc-8")])
        told = [*(refused.value.initial_metadata() or ()), *(refused.value.trailing_metadata() or ())]
        assert ("x-request-id", "rpc-8") in [(name, value) for name, value in told], told
        kept = server.http().result("GET", "/profiler/slow_requests?limit=100&request=query")["requests"]
        [one] = [r for r in kept if r["request_id"] == "rpc-7"]
        body = one["request_body"]
        assert body["using"] == "a" and body["limit"] == 3 and body["query"]["nearest"][-1] == "9 more", body

