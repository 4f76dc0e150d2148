"""Hostile input: every row of the table is answered 4xx with the API's envelope, and the server lives and works."""

import gzip
import json
import zlib

import pytest

import conftest
from compare import NOTES

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs a server")

NAME = "hostile"
BASE = f"/collections/{NAME}"
U64, I64 = 2**64 - 1, 2**63 - 1


@pytest.fixture(scope="module")
def hostile(server):
    http = server.http()
    http.call("PUT", BASE, {"vectors": {"size": 2, "distance": "Dot"}})
    points = [{"id": i, "vector": [i, 1], "payload": {"n": i}} for i in range(1, 4)]
    http.call("PUT", f"{BASE}/points?wait=true", {"points": points})
    http.call("PUT", f"{BASE}/index", {"field_name": "n", "field_schema": "integer"})
    yield http
    assert http.result("POST", f"{BASE}/points/count", {})["count"] == 3, "a refused request changed the collection"
    assert server.alive()
    http.call("DELETE", BASE)
    http.close()


def nested_filter(depth):
    return '{"filter":' + '{"must":' * depth + "[]" + "}" * depth + "}"


def deep_query(depth):
    return '{"prefetch":' * depth + "[]" + "}" * depth


VECTOR = [1, 2]
UPSERT = ("PUT", f"{BASE}/points?wait=true")
QUERY = ("POST", f"{BASE}/points/query")
SCROLL = ("POST", f"{BASE}/points/scroll")
COUNT = ("POST", f"{BASE}/points/count")
CREATE = ("PUT", "/collections/hostile-new")
PATCH = ("PATCH", BASE)
FACET = ("POST", f"{BASE}/facet")


def new(**more):
    return {"vectors": {"size": 2, "distance": "Dot"}, **more}


def vector(**more):
    return {"vectors": {"size": 2, "distance": "Dot", **more}}


# (method, path), body, statuses, words of the sentence
TABLE = [
    # numbers at and beyond their limits
    (UPSERT, '{"points":[{"id":18446744073709551616,"vector":[1,2]}]}', (400,), ""),
    (UPSERT, '{"points":[{"id":-1,"vector":[1,2]}]}', (400,), ""),
    (UPSERT, '{"points":[{"id":1e400,"vector":[1,2]}]}', (400,), ""),
    (UPSERT, '{"points":[{"id":1,"vector":[1e39,2]}]}', (400, 422), ""),
    (UPSERT, '{"points":[{"id":1,"vector":[NaN,2]}]}', (400,), ""),
    (UPSERT, '{"points":[{"id":1,"vector":[Infinity,2]}]}', (400,), ""),
    (QUERY, {"query": VECTOR, "limit": 0}, (422,), "limit: value 0 invalid, must be 1 or larger"),
    (QUERY, {"query": VECTOR, "limit": -1}, (400,), ""),
    (QUERY, '{"query":[1,2],"limit":18446744073709551616}', (400,), ""),
    (QUERY, '{"query":[1,2],"limit":1.5}', (400,), ""),
    (QUERY, {"query": VECTOR, "offset": -1}, (400,), ""),
    (QUERY, {"query": VECTOR, "params": {"hnsw_ef": -1}}, (400,), ""),
    (QUERY, {"query": VECTOR, "params": {"quantization": {"oversampling": 0.5}}}, (422,), "oversampling"),
    (QUERY, '{"query":[1,2],"score_threshold":NaN}', (400,), ""),
    (SCROLL, {"limit": 0}, (422,), "limit: value 0 invalid, must be 1 or larger"),
    (SCROLL, {"limit": -3}, (400,), ""),
    (SCROLL, {"offset": -3}, (400,), ""),
    (FACET, {"key": "n", "limit": 0}, (422,), "limit"),
    (FACET, {"key": "", "limit": 1}, (400, 422), ""),
    (FACET, {"key": "a[", "limit": 1}, (400, 422), ""),
    (CREATE, vector(size=0), (422,), "vectors.size: value 0 invalid, must be from 1 to 65536"),
    (CREATE, vector(size=65537), (422,), "vectors.size: value 65537 invalid, must be from 1 to 65536"),
    (CREATE, vector(size=-1), (400,), ""),
    (CREATE, vector(size=U64), (422, 400), ""),
    (CREATE, {"vectors": {"x" * 201: {"size": 2, "distance": "Dot"}}}, (422,), ""),
    (CREATE, {"vectors": {"a/b": {"size": 2, "distance": "Dot"}}}, (422,), ""),
    (CREATE, {"vectors": {f"v{i}": {"size": 2, "distance": "Dot"} for i in range(1000)}}, (400, 413, 422), ""),
    (CREATE, new(shard_number=0), (422,), "shard_number: value 0 invalid, must be 1 or larger"),
    (CREATE, new(replication_factor=0), (422,), "replication_factor"),
    (CREATE, new(write_consistency_factor=0), (422,), "write_consistency_factor"),
    (CREATE, new(shard_number=-1), (400,), ""),
    (CREATE, new(hnsw_config={"ef_construct": 3}), (422,), "hnsw_config.ef_construct: value 3 invalid, must be 4 or larger"),
    (CREATE, new(hnsw_config={"full_scan_threshold": 9}), (422,), "hnsw_config.full_scan_threshold"),
    (CREATE, new(wal_config={"wal_capacity_mb": 0}), (422,), "wal_config.wal_capacity_mb: value 0 invalid, must be 1 or larger"),
    (CREATE, new(optimizers_config={"deleted_threshold": 1.5}), (422,), "optimizers_config.deleted_threshold"),
    (CREATE, new(optimizers_config={"vacuum_min_vector_number": 99}), (422,), "optimizers_config.vacuum_min_vector_number"),
    (CREATE, new(optimizers_config={"max_segment_size": 0}), (422,), "optimizers_config.max_segment_size"),
    (CREATE, new(quantization_config={"scalar": {"type": "int8", "quantile": 0.4}}), (422,), "quantile"),
    (CREATE, new(quantization_config={"scalar": {"type": "int9"}}), (400,), ""),
    (CREATE, new(quantization_config={"product": {"compression": "x5"}}), (400,), ""),
    (CREATE, vector(distance="Hamming"), (400,), ""),
    (CREATE, vector(datatype="float64"), (400,), ""),
    (CREATE, new(sharding_method="some"), (400,), ""),
    (CREATE, new(on_disk_payload="yes"), (400,), ""),
    (PATCH, {"params": {"replication_factor": 0}}, (422,), "params.replication_factor"),
    (PATCH, {"vectors": {"nothing": {"on_disk": True}}}, (400,), "nothing"),
    (PATCH, {"optimizers_config": {"max_optimization_threads": "many"}}, (400,), ""),
    # values that aren't known
    (UPSERT, {"points": [{"id": 1, "vector": VECTOR}], "update_mode": "sometimes"}, (400,), ""),
    (("PUT", f"{BASE}/index"), {"field_name": "a", "field_schema": "colour"}, (400,), ""),
    (("PUT", f"{BASE}/index"), {"field_name": "", "field_schema": "keyword"}, (400, 422), "field_name"),
    (SCROLL, {"order_by": {"key": "n", "direction": "up"}}, (400,), ""),
    (SCROLL, {"with_payload": 3}, (400,), ""),
    (SCROLL, {"with_vector": 3}, (400,), ""),
    (QUERY, {"query": {"fusion": "sum"}, "prefetch": [{"query": VECTOR}]}, (400,), ""),
    (QUERY, {"query": VECTOR, "using": "nothing"}, (400,), "nothing"),
    # shapes
    (UPSERT, {"points": [{"id": 1, "vector": [1, 2, 3]}]}, (400,), "Vector dimension error: expected dim: 2, got 3"),
    (("PUT", f"{BASE}/points?wait=false"), {"points": [{"id": 1, "vector": [1]}]}, (400,), "Vector dimension error: expected dim: 2, got 1"),
    (("PUT", f"{BASE}/points?wait=false"), {"points": [{"id": 1, "vector": []}]}, (400, 422), ""),
    (("PUT", f"{BASE}/points/vectors"), {"points": []}, (422,), "must specify points to update"),
    (("POST", f"{BASE}/points/vectors/delete"), {"vector": [], "points": [1]}, (422,), "must specify vector names to delete"),
    (("POST", f"{BASE}/points/delete"), {}, (400, 422), ""),
    (("POST", f"{BASE}/points/payload"), {"payload": 3, "points": [1]}, (400,), ""),
    (("POST", f"{BASE}/points/payload"), {"payload": {"a": 1}}, (400, 422), ""),
    (("POST", f"{BASE}/points/batch"), {"operations": [{}]}, (400,), ""),
    (("POST", f"{BASE}/points/batch"), {"operations": [{"upsert": {"points": []}, "delete": {"points": [1]}}]}, (400,), ""),
    (COUNT, {"filter": {"must": [{"key": "n", "match": {}}]}}, (400,), ""),
    (COUNT, {"filter": {"must": [{"key": "n", "colour": {}}]}}, (400,), ""),
    (COUNT, {"filter": {"min_should": {"conditions": [], "min_count": 0}}}, (400, 422), "min_count"),
    (COUNT, {"filter": {"must": [{"key": "g", "geo_radius": {"center": {"lon": 200, "lat": 0}, "radius": 1}}]}}, (400, 422), ""),
    (COUNT, {"filter": {"must": [{"key": "g", "geo_polygon": {"exterior": {"points": []}}}]}}, (400, 422), ""),
    (COUNT, {"filter": {"must": [{"key": "w", "range": {"gt": "no date"}}]}}, (400,), ""),
    # depth, length, size
    (SCROLL, nested_filter(100_000), (400, 413, 422), ""),
    (QUERY, deep_query(100_000), (400, 413, 422), ""),
    (UPSERT, '{"points":[{"id":9,"vector":[1,2],"payload":{"a":' + "[" * 100_000 + "]" * 100_000 + "}}]}", (400, 413, 422), ""),
    (COUNT, '{"filter":{"must":[' + ",".join(['{"has_id":[]}'] * 100_000) + "]}}", (200, 400, 413, 422, 429), ""),
    (("POST", f"{BASE}/points/query/batch"), {"searches": [{"query": VECTOR, "limit": 1}] * 5_000}, (400, 413, 422, 429), ""),
    (("POST", f"{BASE}/points/search/matrix/pairs"), {"sample": 1}, (422,), "sample: value 1 invalid, must be 2 or larger"),
    (CREATE, new(metadata={"a": "x" * 70_000}), (413,), ""),
    (CREATE, new(strict_mode_config={"max_query_limit": 0}), (422,), "strict_mode_config.max_query_limit"),
    # bytes
    (SCROLL, b"\xff\xfe\x00", (400,), "Format error in JSON body"),
    (SCROLL, b"", (400,), "Format error in JSON body"),
    (SCROLL, b'{"limit":1}}', (400,), "Format error in JSON body"),
    (SCROLL, b'{"limit":1,"limit":2}', (400,), ""),
    (UPSERT, b'{"points":[{"id":1,"vector":[1,2],"payload":{"a":"\xff"}}]}', (400,), ""),
    # paths and query parameters
    (("GET", f"{BASE}/points/nothing"), None, (400,), ""),
    (("GET", f"{BASE}/points/18446744073709551616"), None, (400,), ""),
    (("GET", f"{BASE}/points/77"), None, (404,), "Not found"),
    (("GET", "/collections/nothing"), None, (404,), "Not found: Collection `nothing` doesn't exist!"),
    (("PUT", "/collections/" + "x" * 256), new(), (422,), "Validation error in path parameters"),
    (("PUT", "/collections/a%2Fb"), new(), (422,), "Validation error in path parameters"),
    (("PUT", BASE), new(), (409,), f"Collection `{NAME}` already exists!"),
    (("GET", f"{BASE}?timeout=0"), None, (422,), "Validation error in query parameters: [timeout: value 0 invalid, must be 1 or larger]"),
    (("POST", f"{BASE}/points/query?timeout=18446744073709551615"), {}, (200,), None),
    (("POST", f"{BASE}/points/scroll?timeout=-1"), {}, (400,), "query parameters"),
    (("POST", f"{BASE}/points/scroll?consistency=some"), {}, (400,), "query parameters"),
    (("PUT", f"{BASE}/points?wait=perhaps"), {"points": []}, (400,), "query parameters"),
    (("PUT", f"{BASE}/points?ordering=wild"), {"points": []}, (400,), "query parameters"),
    (("GET", "/telemetry?details_level=high"), None, (400,), "query parameters"),
    # what a single node doesn't do
    (("POST", "/cluster/recover"), None, (405,), "standalone mode"),
    (("DELETE", "/cluster/peer/1"), None, (405,), "standalone mode"),
    (("DELETE", "/cluster/peer/me"), None, (400,), ""),
    (("PUT", f"{BASE}/shards"), {"shard_key": "a"}, (400,), "Auto sharding method"),
    (("POST", f"{BASE}/shards/delete"), {}, (400,), ""),
    (("POST", f"{BASE}/cluster"), {"move_shard": {"shard_id": 0}}, (405,), "standalone mode"),
    (("POST", f"{BASE}/cluster"), {"fly": {}}, (400,), ""),
    (("PUT", "/quotas"), {"max_disk_usage_percent": 101}, (422,), "max_disk_usage_percent"),
]  # fmt: skip


def sentence(answer):
    return json.loads(answer)["status"]["error"]


def test_the_table(hostile):
    wrong = []
    for (method, path), body, statuses, words in TABLE:
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        status, _, answer = hostile.raw(method, path, body)
        shown = (method, path, (body or "")[:120], status, answer[:300])
        if status not in statuses:
            wrong.append(shown)
        elif status >= 400 and words not in sentence(answer):
            wrong.append(shown)
    NOTES.append(f"hostile inputs: {len(TABLE)} rows")
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("id", [0, 2**63, U64])
def test_ids_at_their_limits(hostile, id):
    hostile.call("PUT", f"{BASE}/points?wait=true", {"points": [{"id": id, "vector": VECTOR, "payload": {"n": I64, "m": -I64 - 1, "u": U64}}]})
    found = hostile.result("GET", f"{BASE}/points/{id}")
    assert (found["id"], found["payload"]) == (id, {"n": I64, "m": -I64 - 1, "u": U64})
    for value in [I64, -I64 - 1]:
        count = hostile.result("POST", f"{BASE}/points/count", {"filter": {"must": [{"key": "n", "match": {"value": value}}]}})["count"]
        assert count == (value == I64)
    hostile.call("POST", f"{BASE}/points/delete?wait=true", {"points": [id]})


def test_offsets_far_beyond_the_points(hostile):
    for offset in [4, 10**6, 2**62]:
        assert hostile.result("POST", f"{BASE}/points/query", {"query": VECTOR, "offset": offset, "limit": 3})["points"] == []
    assert len(hostile.result("POST", f"{BASE}/points/query", {"query": VECTOR, "limit": 2**62})["points"]) == 3
    assert len(hostile.result("POST", f"{BASE}/points/scroll", {"limit": 2**62})["points"]) == 3


def test_packed_bodies(hostile, server):
    """gzip and deflate are taken; a bomb ends at the bound of its route."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def send(encoding, body):
        connection.request("POST", f"{BASE}/points/count", body, {"content-encoding": encoding, "content-type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()

    body = json.dumps({"filter": {"must": [{"key": "n", "range": {"gte": 2}}]}}).encode()
    for encoding, packed in [("gzip", gzip.compress(body)), ("deflate", zlib.compress(body)), ("identity", body)]:
        status, answer = send(encoding, packed)
        assert (status, json.loads(answer)["result"]) == (200, {"count": 2}), encoding
    assert send("br", body)[0] == 415
    assert send("gzip", body)[0] == 400
    bomb = gzip.compress(b" " * (64 << 20))
    assert len(bomb) < 100_000
    for _ in range(3):
        assert send("gzip", bomb)[0] == 413
    connection.close()
